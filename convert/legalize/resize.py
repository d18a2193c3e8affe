"""Resize written out, one axis after the other: gathered neighbours times their weights, or a product with a matrix.

Sizes and scales are numbers, or are computed at run time. Then the formulas of `convert.semantics.interpolation` are
computed in the graph: in float64 for float64 data, else in float32, as the kernels of runtimes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import rounded_tensor
from convert.graph.values import known_dims
from convert.legalize.sampling import number_of, size_of
from convert.numerics.series import horner
from convert.semantics.interpolation import (
    HALFWAY,
    WHOLE,
    Interpolation,
    keep_aspect_ratio,
    keys_polynomials,
    matrix_at,
    nearest_indices,
    resized_length,
    source_coordinates,
)

Whole: TypeAlias = "int | ir.Value"
"""A number, or an int64 scalar."""
Real: TypeAlias = "float | ir.Value"
"""A number, or a floating-point scalar."""

_TAPS, _MATRIX = 4, 1 << 19
"""Up to `_TAPS` neighbours of each element are gathered; more are summed by a matrix of at most `_MATRIX` elements.

Larger matrices are mostly zeros: gathers are faster and need less space (3000 to 1000, cubic: 150 instead of 327 ms in
TensorFlow, 0.2 instead of 24 MB).
"""


@dataclass(frozen=True)
class _Axis:
    """An axis that is resized.

    by_sizes: whether the scale is the ratio of the sizes. region: start and end of tf_crop_and_resize. dim: the size,
    as a dim of the graph.
    """

    number: int
    length: Whole
    size: Whole
    scale: Real
    by_sizes: bool
    region: tuple[Real, Real] | None
    dim: int | str | None

    @property
    def is_known(self) -> bool:
        """Return whether nothing about the axis is computed at run time."""
        numbers = (self.length, self.size, self.scale, *(self.region or ()))
        return not any(isinstance(v, ir.Value) for v in numbers)


def resize(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """Resize: weighted sums along each axis whose length changes."""
    x, how = node.inputs[0], interpolation_of(node)
    assert x is not None
    dtype, axes = g.dtype(x), _axes(g, node, how)
    outside: list[ir.Value] = []
    exact = dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) or how.mode == "nearest"
    y = x if exact or not axes else g.Cast(x, to=ir.DataType.FLOAT)
    for axis in axes:
        if axis.is_known:
            y, beyond = _at_known_places(g, y, axis, how)
        else:
            y, beyond = _at_computed_places(g, y, axis, how)
        g.facts(y, shape=[axis.dim if i == axis.number else d for i, d in enumerate(g.shape(y))])
        outside += [] if beyond is None else [_along(g, beyond, g.rank(y), axis.number)]
    for beyond in outside:
        y = g.Where(beyond, g.const(how.extrapolation, g.dtype(y)), y)
    return [_cast_back(g, y, dtype, how)]


def interpolation_of(node: ir.Node) -> Interpolation:
    """Return the attributes of a Resize node that define the interpolation."""
    attributes = node.attributes
    return Interpolation(
        attributes.get_string("mode", "nearest"),
        attributes.get_string("coordinate_transformation_mode", "half_pixel"),
        attributes.get_string("nearest_mode", "round_prefer_floor"),
        attributes.get_float("cubic_coeff_a", -0.75),
        bool(attributes.get_int("exclude_outside", 0)),
        bool(attributes.get_int("antialias", 0)),
        attributes.get_float("extrapolation_value", 0.0),
    )


def _axes(g: Graph, node: ir.Node, how: Interpolation) -> list[_Axis]:
    """Return the axes of a Resize whose elements change."""
    x, roi, scales = [*node.inputs, None, None][:3]
    assert x is not None
    rank, crop = g.rank(x), how.coordinates == "tf_crop_and_resize"
    numbers = [a % rank for a in node.attributes.get_ints("axes", range(rank))]
    ends = known_dims(node.outputs[0]) or [None] * rank
    found = []
    for i, (number, (size, scale)) in enumerate(zip(numbers, _wanted(g, node, numbers, ends), strict=True)):
        before, after = g.shape(x)[number], ends[number]
        same = before is not None and before == (size if isinstance(size, int) else after)
        unscaled = not isinstance(scale, ir.Value) and scale == 1
        by_sizes = scales is None or 0 in g.shape(scales)
        kept = by_sizes and node.attributes.get_string("keep_aspect_ratio_policy", "stretch") == "stretch"
        if not crop and (unscaled or (same and kept)):
            continue
        region = None
        if crop:
            if roi is None:
                raise Unsupported("tf_crop_and_resize without a region")
            region = _element(g, roi, i), _element(g, roi, i + len(numbers))
        after = size if isinstance(size, int) else after
        found.append(_Axis(number, size_of(g, x, number), size, scale, kept, region, after))
    return found


def _element(g: Graph, vector: ir.Value, i: int) -> Real:
    """Return an element of a vector of floating-point numbers, as float32 if it is computed."""
    known = g.static(vector)
    if known is not None:
        return float(known.ravel()[i])
    element: ir.Value = g.Cast(g.Gather(vector, np.int64(i), axis=0), to=ir.DataType.FLOAT)
    return element


def _wanted(
    g: Graph, node: ir.Node, numbers: Sequence[int], ends: Sequence[int | str | None]
) -> list[tuple[Whole, Real]]:
    """Return the size and the scale of each axis in `numbers`. ends: the dims of the result, as far as known."""
    x, _, scales, sizes = [*node.inputs, None, None, None][:4]
    assert x is not None
    lengths = [size_of(g, x, a) for a in numbers]
    if scales is not None and g.shape(scales) != (0,):
        factors = [_element(g, scales, i) for i in range(len(numbers))]
        return [(_scaled(g, n, f), f) for n, f in zip(lengths, factors, strict=True)]
    if sizes is None:
        raise Unsupported("a Resize without scales and sizes")
    known = g.static(sizes)
    given: list[Whole] = []
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    for i, number in enumerate(numbers):
        end = ends[number] if policy == "stretch" else None
        if known is not None:
            given.append(int(known.ravel()[i]))
        elif isinstance(end, int):
            given.append(end)
        else:
            given.append(g.Cast(g.Gather(sizes, np.int64(i), axis=0), to=ir.DataType.INT64))
    if policy == "stretch":
        return [(m, _ratio(g, m, n, g.dtype(x))) for n, m in zip(lengths, given, strict=True)]
    known_lengths, known_sizes = ([n for n in some if isinstance(n, int)] for some in (lengths, given))
    if len(known_lengths) == len(known_sizes) == len(lengths):
        scale, found = keep_aspect_ratio(known_lengths, known_sizes, policy)
        return [(m, scale) for m in found]
    ratios = [_ratio(g, m, n, ir.DataType.FLOAT) for n, m in zip(lengths, given, strict=True)]
    shared = (g.Min if policy == "not_larger" else g.Max)(*(number_of(g, r, ir.DataType.FLOAT) for r in ratios))
    halves = (g.Add(g.Mul(shared, number_of(g, n, ir.DataType.FLOAT)), 0.5) for n in lengths)
    return [(g.Cast(g.Floor(m), to=ir.DataType.INT64), shared) for m in halves]


def _ratio(g: Graph, size: Whole, length: Whole, dtype: ir.DataType) -> Real:
    if isinstance(size, int) and isinstance(length, int):
        return size / length if length else 1.0
    dtype = dtype if dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT
    ratio: ir.Value = g.Div(number_of(g, size, dtype), number_of(g, length, dtype))
    return ratio


def _scaled(g: Graph, length: Whole, scale: Real) -> Whole:
    """Return ⌊length · scale⌋, by integers if the scale is one or the inverse of one."""
    if not isinstance(scale, ir.Value):
        if isinstance(length, int):
            return resized_length(length, scale)
        if scale == int(scale):
            return length if scale == 1 else g.Mul(length, np.int64(scale))
        if 1 / scale == int(1 / scale):
            return g.Div(length, np.int64(1 / scale))
    product = g.Mul(number_of(g, length, ir.DataType.FLOAT), number_of(g, scale, ir.DataType.FLOAT))
    return g.Cast(g.Floor(product), to=ir.DataType.INT64)


def _along(g: Graph, vector: ir.Value, rank: int, axis: int) -> ir.Value:
    """Return a vector as a tensor that broadcasts along `axis` of a tensor of `rank` dims."""
    return g.Unsqueeze(vector, list(range(1, rank - axis))) if axis < rank - 1 else vector


def _cast_back(g: Graph, y: ir.Value, dtype: ir.DataType, how: Interpolation) -> ir.Value:
    """Return sums in the dtype of the input; integers are truncated, or rounded with antialias."""
    if g.dtype(y) == dtype:
        return y
    if dtype.is_integer():
        limits = np.iinfo(dtype.numpy())
        # float32 rounds the largest number of 32 and 64 bits up, out of the range.
        most = np.float32(limits.max)
        most = most if int(most) <= limits.max else np.nextafter(most, np.float32(0))
        whole = g.Round(y) if how.antialias else g.Mul(y, np.float32(WHOLE))
        y = g.Clip(whole, np.float32(limits.min), most)
    return g.Cast(y, to=dtype)


# -- axes of known sizes ------------------------------------------------------------------------------------------


def _at_known_places(g: Graph, x: ir.Value, axis: _Axis, how: Interpolation) -> tuple[ir.Value, ir.Value | None]:
    """Return `x` resampled along an axis, and which results are outside of the region (None if there are none)."""
    length, size, scale, number, rank = axis.length, axis.size, axis.scale, axis.number, g.rank(x)
    assert not isinstance(length, ir.Value)
    assert not isinstance(size, ir.Value)
    assert not isinstance(scale, ir.Value)
    where = source_coordinates(length, size, scale, how, axis.region)  # type: ignore[arg-type]
    beyond = (where < 0) | (where > length - 1)
    outside = g.const(beyond) if axis.region is not None and beyond.any() else None
    if how.mode == "nearest":
        return g.Gather(x, nearest_indices(where, length, how.nearest), axis=number), outside
    weights = matrix_at(where, length, scale, how)
    taps = int((weights != 0).sum(1).max(initial=1))
    if taps > _TAPS and weights.size <= _MATRIX:
        return _times_matrix(g, x, number, weights), outside
    order = np.argsort(weights == 0, axis=1, kind="stable")[:, :taps]
    shares = np.take_along_axis(weights, order, 1)
    order = np.where(shares == 0, order[:, :1], order)  # 0 · ∞ is NaN: no element that is not a neighbour
    total: ir.Value | None = None
    for place, share in zip(order.T, shares.T, strict=True):
        part = g.Gather(x, np.ascontiguousarray(place), axis=number)
        if not (share == 1).all():
            factor = rounded_tensor(share.reshape(-1, *[1] * (rank - 1 - number)), g.dtype(x))
            part = g.Mul(part, g.const(factor))
        total = part if total is None else g.Add(total, part)
    assert total is not None
    return total, outside


def _times_matrix(g: Graph, x: ir.Value, axis: int, weights: np.ndarray) -> ir.Value:
    """Return the products of the rows of `weights`, [size, length], with the elements along an axis."""
    rank = g.rank(x)
    matrix = g.const(rounded_tensor(np.ascontiguousarray(weights.T), g.dtype(x)))
    perm = [i for i in range(rank) if i != axis] + [axis]
    y = g.MatMul(x, matrix) if axis == rank - 1 else g.MatMul(g.Transpose(x, perm=perm), matrix)
    return y if axis == rank - 1 else g.Transpose(y, perm=[perm.index(i) for i in range(rank)])


# -- axes of computed sizes -----------------------------------------------------------------------------------------


def _at_computed_places(g: Graph, x: ir.Value, axis: _Axis, how: Interpolation) -> tuple[ir.Value, ir.Value | None]:
    """Return the same as `_at_known_places` for numbers that are computed at run time."""
    if how.mode not in ("nearest", "linear", "cubic"):
        raise Unsupported(f"Resize with mode={how.mode!r}")
    wide = g.dtype(x) == ir.DataType.DOUBLE and how.mode != "nearest"
    dtype, number = ir.DataType.DOUBLE if wide else ir.DataType.FLOAT, axis.number
    last = g.Sub(number_of(g, axis.length, dtype), 1.0)
    where: ir.Value | None = None
    outside: ir.Value | None = None
    if how.mode == "nearest" or axis.region is not None:
        where = _coordinates(g, axis, how, dtype)
        outside = None if axis.region is None else g.Or(g.Less(where, 0.0), g.Greater(where, last))
    if how.mode == "nearest":
        assert where is not None
        return g.Gather(x, _index(g, _rounded(g, where, how.nearest), last), axis=number), outside
    below, rest = _split_coordinates(g, axis, how, dtype, where)
    places, weights = _neighbors(g, below, rest, axis.scale, last, how)
    index, weights = _index(g, places, last), weights if wide else g.Cast(weights, to=g.dtype(x))
    taps, trailing = g.shape(places)[1], g.rank(x) - 1 - number
    if isinstance(taps, int) and taps <= _TAPS:
        total: ir.Value | None = None
        for tap in range(taps):
            share = _along(g, g.Gather(weights, np.int64(tap), axis=1), g.rank(x), number)
            part = g.Mul(g.Gather(x, g.Gather(index, np.int64(tap), axis=1), axis=number), share)
            total = part if total is None else g.Add(total, part)
        assert total is not None
        return total, outside
    weights = g.Unsqueeze(weights, list(range(2, 2 + trailing))) if trailing else weights
    return g.ReduceSum(g.Mul(g.Gather(x, index, axis=number), weights), [number + 1], keepdims=0), outside


def _index(g: Graph, places: ir.Value, last: ir.Value) -> ir.Value:
    """Return positions as indices from 0 to `last`."""
    index: ir.Value = g.Cast(g.Max(g.Min(places, last), 0.0), to=ir.DataType.INT64)
    return index


def _coordinates(g: Graph, axis: _Axis, how: Interpolation, dtype: ir.DataType) -> ir.Value:
    """Return the input coordinate of each output, [size]."""
    i = _count(g, axis, dtype)
    n, m, s = (number_of(g, v, dtype) for v in (axis.length, axis.size, axis.scale))
    mode, zero = how.coordinates, g.const(0.0, dtype)
    one, last, gaps = g.Equal(m, 1.0), g.Sub(n, 1.0), g.Max(g.Sub(m, 1.0), 1.0)
    if mode == "asymmetric":
        return _quotient(g, i, s)
    if mode == "align_corners":
        return g.Where(one, zero, _quotient(g, g.Mul(i, last), gaps))
    if mode == "tf_crop_and_resize" and axis.region is not None:
        start, end = (number_of(g, v, dtype) for v in axis.region)
        middle = g.Mul(g.Mul(g.Add(start, end), 0.5), last)
        extent = g.Mul(g.Mul(i, g.Sub(end, start)), last)
        return g.Where(one, middle, g.Add(g.Mul(start, last), g.Div(extent, gaps)))
    middles = _quotient(g, g.Add(i, 0.5), s)
    if mode == "tf_half_pixel_for_nn":  # from opset 11
        return middles
    centred = g.Sub(middles, 0.5)
    if mode == "half_pixel":
        return centred
    if mode == "pytorch_half_pixel":
        return g.Where(one, zero, centred)
    if mode == "half_pixel_symmetric":
        return g.Add(g.Mul(g.Mul(n, 0.5), g.Sub(1.0, g.Div(m, g.Mul(s, n)))), centred)
    raise Unsupported(f"Resize with coordinate_transformation_mode={mode!r}")


def _split_coordinates(
    g: Graph, axis: _Axis, how: Interpolation, dtype: ir.DataType, where: ir.Value | None
) -> tuple[ir.Value, ir.Value]:
    """Return the position of the element below each coordinate, and the distance from it, [size] each.

    A coordinate is a quotient. Its whole part is subtracted before the division, so that the distance of a large
    coordinate has all its digits. where: the coordinates, if they are not of this form.
    """
    if where is not None:
        below = g.Floor(where)
        return below, g.Sub(where, below)
    i = _count(g, axis, dtype)
    n, m, s = (number_of(g, v, dtype) for v in (axis.length, axis.size, axis.scale))
    mode, zero, one = how.coordinates, g.const(0.0, dtype), g.Equal(m, 1.0)

    def in_steps(v: ir.Value) -> ir.Value:
        return g.Mul(v, n) if axis.by_sizes else v

    above, under = in_steps(i), m if axis.by_sizes else s
    if mode == "align_corners":
        above, under = g.Mul(i, g.Sub(n, 1.0)), g.Max(g.Sub(m, 1.0), 1.0)
    elif mode == "tf_half_pixel_for_nn":  # from opset 11
        above = in_steps(g.Add(i, 0.5))
    elif mode == "half_pixel_symmetric" and not axis.by_sizes:  # else it is half_pixel
        middle = g.Mul(g.Mul(s, g.Sub(n, 1.0)), 0.5)
        above = g.Add(g.Sub(g.Add(i, 0.5), g.Mul(m, 0.5)), middle)
    elif mode in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        above = g.Sub(in_steps(g.Add(i, 0.5)), g.Mul(under, 0.5))
    elif mode != "asymmetric":
        raise Unsupported(f"Resize with coordinate_transformation_mode={mode!r}")
    below = g.Floor(g.Div(above, under))
    rest = g.Div(g.Sub(above, g.Mul(below, under)), under)
    if mode in ("align_corners", "pytorch_half_pixel"):
        below, rest = (g.Where(one, zero, v) for v in (below, rest))
    return below, rest


def _count(g: Graph, axis: _Axis, dtype: ir.DataType) -> ir.Value:
    """Return 0, 1, 2 … for the outputs along an axis."""
    count = g.Range(np.int64(0), axis.size, np.int64(1))
    places: ir.Value = g.Cast(g.facts(count, ir.DataType.INT64, [axis.dim]), to=dtype)
    return places


def _quotient(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return a / b of positive numbers, correctly rounded.

    TensorFlow's optimizer multiplies by the reciprocal of a constant divisor, and 5 · (1 / 6) differs from 5 / 6. A
    coordinate halfway between two elements would then round to the other element. So the divisor is made to look
    computed.
    """
    quotient: ir.Value = g.Div(a, b if g.static(b) is None else g.Max(b, g.Min(a, b)))
    return quotient


def _rounded(g: Graph, where: ir.Value, how: str) -> ir.Value:
    """Return the position of the nearest element; `how` breaks ties."""
    below = g.Floor(where)
    if how == "floor":
        return below
    if how == "ceil":
        return g.Ceil(where)
    beyond_half = g.Sub(g.Sub(where, below), 0.5)
    if how == "round_prefer_floor":
        up = g.Greater(beyond_half, np.float32(HALFWAY))
    elif how == "round_prefer_ceil":
        up = g.GreaterOrEqual(beyond_half, np.float32(-HALFWAY))
    else:
        raise Unsupported(f"Resize with nearest_mode={how!r}")
    return g.Add(below, g.Cast(up, to=g.dtype(below)))


def _neighbors(
    g: Graph, below: ir.Value, rest: ir.Value, scale: Real, last: ir.Value, how: Interpolation
) -> tuple[ir.Value, ir.Value]:
    """Return positions and weights of the neighbours of each coordinate: [size, taps] each.

    With antialias and a scale that is computed, the number of taps is computed too.
    """
    dtype = g.dtype(below)
    reach = 1 if how.mode == "linear" else 2
    steps: np.ndarray | ir.Value
    if how.antialias and isinstance(scale, ir.Value):
        stretch: Real = g.Max(g.Div(1.0, number_of(g, scale, dtype)), 1.0)
        span = g.Cast(g.Ceil(g.Mul(stretch, float(reach))), to=ir.DataType.INT64)
        steps = g.Cast(g.Range(g.Sub(np.int64(1), span), g.Add(span, np.int64(1)), np.int64(1)), to=dtype)
    else:
        stretch = max(1.0, 1 / scale) if how.antialias and not isinstance(scale, ir.Value) else 1.0
        most = int(np.ceil(reach * stretch))
        steps = np.arange(1 - most, most + 1).astype(dtype.numpy())
    places = g.Add(g.Unsqueeze(below, [1]), steps)
    distance = g.Abs(g.Sub(g.Unsqueeze(rest, [1]), steps))
    if isinstance(stretch, ir.Value) or stretch != 1:
        distance = g.Div(distance, number_of(g, stretch, dtype))
    weights = _kernel(g, distance, how)
    if how.exclude_outside:
        inside = g.And(g.GreaterOrEqual(places, 0.0), g.LessOrEqual(places, last))
        weights = g.Where(inside, weights, g.const(0.0, dtype))
    if how.exclude_outside or how.antialias:
        weights = g.Div(weights, g.ReduceSum(weights, [1], keepdims=1))
    return places, weights


def _kernel(g: Graph, distance: ir.Value, how: Interpolation) -> ir.Value:
    """Return the weight at a distance: a triangle, or Keys's cubic."""
    if how.mode == "linear":
        return g.Max(g.Sub(1.0, distance), 0.0)
    near, far = (horner(g, distance, numbers) for numbers in keys_polynomials(how.cubic))
    beyond = g.Where(g.Less(distance, 2.0), far, g.const(0.0, g.dtype(distance)))
    return g.Where(g.LessOrEqual(distance, 1.0), near, beyond)
