"""GridSample, AffineGrid and DeformConv written out: weighted sums of the elements around computed coordinates.

Elements are gathered as rows of all channels, [images · positions, channels], so that an index picks a whole row.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.series import horner
from convert.semantics.interpolation import keys_polynomials

_CUBIC = -0.75
"""The parameter of Keys's cubic convolution in GridSample."""


@dataclass(frozen=True)
class Rows:
    """Images [N, C, spatial…] as rows of all channels.

    content: the rows, [N · positions, C]. sizes: the spatial sizes, as numbers or scalars. first: the first row of each
    image, [N]; None for one image.
    """

    content: ir.Value
    sizes: Sequence[int | ir.Value]
    first: ir.Value | None


def rows_of(g: Graph, x: ir.Value, groups: int = 1) -> Rows:
    """Return the rows of an image; with `groups`, each group of channels is an image of its own."""
    rank, count, channels = g.rank(x), size_of(g, x, 0), size_of(g, x, 1)
    sizes = [size_of(g, x, i) for i in range(2, rank)]
    if groups > 1:
        channels = channels // groups if isinstance(channels, int) else g.Div(channels, np.int64(groups))
        count = count * groups if isinstance(count, int) else g.Mul(count, np.int64(groups))
        x = g.Reshape(x, vector(g, [-1, channels, *sizes]))
    rows = g.Reshape(g.Transpose(x, perm=[0, *range(2, rank), 1]), vector(g, [-1, channels]))
    if count == 1:
        return Rows(rows, sizes, None)
    return Rows(rows, sizes, g.Mul(g.Range(np.int64(0), count, np.int64(1)), _product(g, sizes)))


def size_of(g: Graph, x: ir.Value, axis: int) -> int | ir.Value:
    """Return a dim as a number if it is known, else as an int64 scalar."""
    known = g.shape(x)[axis]
    return known if isinstance(known, int) else g.Gather(g.dims(x), np.int64(axis), axis=0)


def vector(g: Graph, sizes: Sequence[int | ir.Value]) -> np.ndarray | ir.Value:
    """Return sizes as an int64 vector."""
    if all(isinstance(n, int) for n in sizes):
        return np.array(sizes, np.int64)
    return g.Concat(*(np.array([n]) if isinstance(n, int) else g.Unsqueeze(n, [0]) for n in sizes), axis=0)


def _product(g: Graph, sizes: Sequence[int | ir.Value]) -> np.ndarray | ir.Value:
    known = prod(n for n in sizes if isinstance(n, int))
    result: np.ndarray | ir.Value = np.array(known, np.int64)
    for n in sizes:
        result = result if isinstance(n, int) else g.Mul(result, n)
    return result


def weighted_rows(
    g: Graph, rows: Rows, terms: Sequence[Sequence[tuple[ir.Value, ir.Value | None]]], zeros: bool, dtype: ir.DataType
) -> ir.Value:
    """Return the sum, over all combinations of one neighbour per axis, of rows [N, places…, C] in the dtype `dtype`.

    terms: for each axis the positions [N, places…] of the neighbours, as floating-point numbers, and their weights
    (None for 1). zeros: elements outside of the image count as 0; otherwise positions are inside already.
    """
    total: ir.Value | None = None
    for chosen in itertools.product(*(_located(g, t, n, zeros) for t, n in zip(terms, rows.sizes, strict=True))):
        index, weight, inside = None, None, None
        for (number, share, ok), n in zip(chosen, rows.sizes, strict=True):
            index = number if index is None else g.Add(g.Mul(index, n), number)
            weight = share if weight is None or share is None else g.Mul(weight, share)
            inside = ok if inside is None or ok is None else g.And(inside, ok)
        assert index is not None
        if rows.first is not None:
            index = g.Add(index, g.Unsqueeze(rows.first, list(range(1, g.rank(index)))))
        picked = g.Gather(rows.content, index, axis=0)
        picked = picked if g.dtype(picked) == dtype else g.Cast(picked, to=dtype)
        if inside is not None:  # a weight of 0 would make NaN of infinity
            picked = g.Where(g.Unsqueeze(inside, [-1]), picked, g.const(0.0, dtype))
        if weight is not None:
            weight = weight if g.dtype(weight) == dtype else g.Cast(weight, to=dtype)
            picked = g.Mul(picked, g.Unsqueeze(weight, [-1]))
        total = picked if total is None else g.Add(total, picked)
    assert total is not None
    return total


def _located(
    g: Graph, terms: Sequence[tuple[ir.Value, ir.Value | None]], size: int | ir.Value, zeros: bool
) -> list[tuple[ir.Value, ir.Value | None, ir.Value | None]]:
    """Return index, weight and mask of each neighbour along an axis; the index is inside the image."""
    dtype = g.dtype(terms[0][0])
    last = g.Sub(number_of(g, size, dtype), g.const(1.0, dtype))
    zero, found = g.const(0.0, dtype), []
    for place, share in terms:
        near = g.Max(g.Min(place, last), zero)
        ok = g.And(g.GreaterOrEqual(place, zero), g.LessOrEqual(place, last)) if zeros else None
        found.append((g.Cast(near, to=ir.DataType.INT64), share, ok))
    return found


def number_of(g: Graph, n: float | ir.Value, dtype: ir.DataType) -> ir.Value:
    """Return a number, such as a size, as a scalar of `dtype`."""
    if not isinstance(n, ir.Value):
        return g.const(float(n), dtype)
    number: ir.Value = n if g.dtype(n) == dtype else g.Cast(n, to=dtype)
    return number


def grid_sample(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """GridSample: [N, C, spatial…] at the points [N, out…, axes], which list the last axis first."""
    x, grid = node.inputs
    assert x is not None
    assert grid is not None
    rank = g.rank(x) - 2
    mode = node.attributes.get_string("mode", "linear").removeprefix("bi")
    edge = node.attributes.get_string("padding_mode", "zeros")
    corners = bool(node.attributes.get_int("align_corners", 0))
    if mode not in ("linear", "nearest", "cubic"):
        raise Unsupported(f"mode={mode!r}")
    points = grid if g.dtype(grid) == ir.DataType.DOUBLE else g.Cast(grid, to=ir.DataType.FLOAT)
    rows, terms = rows_of(g, x), []
    for i, length in enumerate(rows.sizes):
        n = number_of(g, length, g.dtype(points))
        where = _unnormalized(g, g.Gather(points, np.int64(rank - 1 - i), axis=-1), n, corners)
        if edge != "zeros" and mode != "cubic":
            where = _moved_inside(g, where, n, edge, corners)
        around = neighbors(g, where, mode)
        if edge != "zeros" and mode == "cubic":
            around = [(_moved_inside(g, place, n, edge, corners), share) for place, share in around]
        terms.append(around)
    y = weighted_rows(g, rows, terms, edge == "zeros", _sum_dtype(g.dtype(x)))
    y = y if g.dtype(y) == g.dtype(x) else g.Cast(y, to=g.dtype(x))
    return [g.Transpose(y, perm=[0, rank + 1, *range(1, rank + 1)])]


def _sum_dtype(dtype: ir.DataType) -> ir.DataType:
    """Return the dtype for sums of elements: float32 for floating-point numbers and for integers that it represents."""
    wide = dtype in (ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64)
    return ir.DataType.DOUBLE if wide else ir.DataType.FLOAT


def _unnormalized(g: Graph, p: ir.Value, n: ir.Value, corners: bool) -> ir.Value:
    """Return the positions of points in [-1, 1] among `n` elements.

    With `corners`, -1 and 1 are the centres of the outermost elements, otherwise their outer edges.
    """
    one, two = g.const(1.0, g.dtype(p)), g.const(2.0, g.dtype(p))
    if corners:
        return g.Mul(g.Div(g.Add(p, one), two), g.Sub(n, one))
    return g.Div(g.Sub(g.Mul(g.Add(p, one), n), one), two)


def _moved_inside(g: Graph, w: ir.Value, n: ir.Value, edge: str, corners: bool) -> ir.Value:
    """Return positions beyond an edge moved to the edge, or reflected as often as needed."""
    dtype = g.dtype(w)
    zero, one, two = (g.const(v, dtype) for v in (0.0, 1.0, 2.0))
    last = g.Sub(n, one)
    if edge == "reflection":
        low = zero if corners else g.const(-0.5, dtype)
        span = last if corners else n
        far = g.Abs(g.Sub(w, low))
        # With one element and aligned corners the span is zero; every position is that element.
        period = g.Max(g.Mul(span, two), g.const(np.finfo(np.float32).tiny, dtype))
        rest = g.Sub(far, g.Mul(g.Floor(g.Div(far, period)), period))
        w = g.Add(g.Min(rest, g.Sub(period, rest)), low)
    return g.Max(g.Min(w, last), zero)


def neighbors(g: Graph, w: ir.Value, mode: str) -> list[tuple[ir.Value, ir.Value | None]]:
    """Return the neighbours along one axis with their weights; None means a weight of 1."""
    dtype = g.dtype(w)
    one = g.const(1.0, dtype)
    if mode == "nearest":
        return [(g.Round(w), None)]
    low = g.Floor(w)
    t = g.Sub(w, low)
    if mode == "linear":
        return [(low, g.Sub(one, t)), (g.Add(low, one), t)]
    rest = g.Sub(one, t)
    inner, outer = keys_polynomials(_CUBIC)
    shares = (
        horner(g, g.Add(t, one), outer), horner(g, t, inner), horner(g, rest, inner),
        horner(g, g.Add(rest, one), outer),
    )  # fmt: skip
    return [(g.Add(low, g.const(float(k), dtype)), s) for k, s in zip((-1, 0, 1, 2), shares, strict=True)]


def affine_grid(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """AffineGrid: theta [N, d, d + 1] times the coordinates of each element of [N, C, spatial…], last axis first."""
    theta, size = node.inputs
    assert theta is not None
    assert size is not None
    length, dtype = g.shape(size)[0], g.dtype(theta)
    if not isinstance(length, int):
        raise Unsupported("an AffineGrid of unknown rank")
    rank = length - 2
    corners, known = node.attributes.get_int("align_corners", 0), g.static(size)
    total = g.Unsqueeze(g.Gather(theta, np.int64(rank), axis=2), list(range(1, rank + 1)))
    for axis in range(rank):
        n = int(known[2 + axis]) if known is not None else g.Gather(size, np.int64(2 + axis), axis=0)
        place, number = g.Cast(g.Range(np.int64(0), n, np.int64(1)), to=dtype), number_of(g, n, dtype)
        one, two = g.const(1.0, dtype), g.const(2.0, dtype)
        if corners:
            where = g.Sub(g.Div(g.Mul(place, two), g.Max(g.Sub(number, one), one)), one)
        else:
            where = g.Sub(g.Div(g.Add(g.Mul(place, two), one), number), one)
        column = g.Unsqueeze(where, [0, *(1 + i for i in range(rank) if i != axis), rank + 1])
        factor = g.Unsqueeze(g.Gather(theta, np.int64(rank - 1 - axis), axis=2), list(range(1, rank + 1)))
        total = g.Add(total, g.Mul(column, factor))
    return [total]


def deform_conv(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """DeformConv: each element of a window is sampled at its own coordinate (linear, zero outside), then weighted."""
    x, w, offset, bias, mask = [*node.inputs, None, None][:5]
    assert x is not None
    assert w is not None
    assert offset is not None
    a, weights, rank = node.attributes, g.shape(w), g.rank(x) - 2
    kernel = [n for n in weights[2:] if isinstance(n, int)]
    if not all(isinstance(n, int) for n in weights):
        raise Unsupported("a deformed convolution with a kernel of unknown size")
    groups, parts, taps = a.get_int("offset_group", 1), a.get_int("group", 1), prod(kernel)
    strides, apart = (a.get_ints(name, [1] * rank) for name in ("strides", "dilations"))
    pads, kind = a.get_ints("pads", [0] * 2 * rank), _sum_dtype(g.dtype(x))
    outs = [size_of(g, offset, 2 + i) for i in range(rank)]
    shifts = g.Cast(g.Reshape(offset, vector(g, [-1, taps, rank, *outs])), to=kind)
    rows, terms, grid = rows_of(g, x, groups), [], np.indices(kernel).reshape(rank, taps)
    for axis, out in enumerate(outs):
        steps = g.Cast(g.Range(np.int64(0), out, np.int64(1)), to=kind)
        start = g.Mul(steps, g.const(float(strides[axis]), kind))
        start = g.Unsqueeze(start, [i for i in range(rank + 1) if i != axis + 1])  # [taps, out…]
        first = (grid[axis] * apart[axis] - pads[axis]).reshape(taps, *[1] * rank).astype(np.float64)
        base = g.Add(start, g.const(first, kind))
        terms.append(neighbors(g, g.Add(g.Gather(shifts, np.int64(axis), axis=2), base), "linear"))
    cells = weighted_rows(g, rows, terms, True, kind)  # [N · groups, taps, out…, channels of a group]
    if mask is not None:
        factor = g.Cast(g.Reshape(mask, vector(g, [-1, taps, *outs])), to=kind)
        cells = g.Mul(cells, g.Unsqueeze(factor, [-1]))
    y = _window_products(g, cells, w, groups, parts, outs, kind)
    y = y if g.dtype(y) == g.dtype(x) else g.Cast(y, to=g.dtype(x))
    return [y if bias is None else g.Add(y, g.Unsqueeze(bias, list(range(1, rank + 1))))]


def _window_products(
    g: Graph,
    cells: ir.Value,
    w: ir.Value,
    groups: int,
    parts: int,
    outs: Sequence[int | ir.Value],
    dtype: ir.DataType,
) -> ir.Value:
    """Return [N, outputs, out…]: the sampled windows times the weights of each part of the channels."""
    rank, (outputs, inner, *kernel) = len(outs), (int(str(n)) for n in g.shape(w))
    taps, channels = prod(kernel), inner * parts
    split = g.Reshape(cells, vector(g, [-1, groups, taps, *outs, channels // groups]))
    # [groups, channels of a group, taps, N, out…]: channels in order, whatever they are grouped by
    moved = g.Transpose(split, perm=[1, 3 + rank, 2, 0, *range(3, 3 + rank)])
    columns = g.Reshape(moved, np.array([parts, inner * taps, -1]))
    matrix = g.Reshape(w, np.array([parts, outputs // parts, inner * taps]))
    y = g.MatMul(matrix if g.dtype(matrix) == dtype else g.Cast(matrix, to=dtype), columns)
    return g.Transpose(g.Reshape(y, vector(g, [outputs, -1, *outs])), perm=[1, 0, *range(2, 2 + rank)])
