"""Interpolation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import rounded_tensor
from convert.numerics.series import horner
from convert.semantics.interpolation import (
    Interpolation,
    keys_kernel,
    keys_polynomials,
    nearest_indices,
    resized_length,
    source_coordinates,
    weight_matrix,
)

from ..common.places import Length, multiply_axis, transposed
from ..common.sizes import arange, plus, size, times, vector
from ..common.values import as_value, cast, constant_like
from ..rules import torch_op
from .arithmetic import mul
from .casts import sym_int

_DOUBLE, _INT64 = ir.DataType.DOUBLE, ir.DataType.INT64
_FILTER_CUBIC = -0.5
"""The parameter of Keys's cubic in antialiased filters, as in Pillow."""

# -- interpolation ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Whole:
    """The length ratios that PyTorch uses unchanged as the factor, and where it does so: True, or a run-time
    boolean.
    """

    ratios: tuple[int, ...] = ()
    when: bool | ir.Value = True


def emit_resize(
    g: Graph, x: ir.Value, output_size: Any, scales: Sequence[float | None] | None, **attributes: Any
) -> ir.Value:
    """Resize the dims after the channels, to sizes or by factors.

    In PyTorch and in ONNX, a factor given by the user also sets the distance between samples, so it is passed on.
    """
    known = [float(s) for s in scales or () if s is not None]
    if scales is not None and len(known) == len(scales):
        return _resize_by_factors(g, x, output_size, known, **attributes)
    if output_size is None:
        raise Unsupported("interpolation with neither sizes nor factors")
    if attributes["mode"] == "nearest":
        method = Interpolation("nearest", attributes["coordinate_transformation_mode"], attributes["nearest_mode"])
        rows = list(zip(g.shape(x)[2:], output_size, strict=True))
        if not all(_selects_same_elements(length, wanted, method) for length, wanted in rows):
            for axis, (length, wanted) in enumerate(rows, 2):
                x = x if length == wanted else _interpolated_axis(g, x, axis, wanted, None, method)
            return x
    if all(isinstance(n, int) for n in output_size):  # with this, any batch size works without a computed shape
        sizes = g.const(np.array(output_size, dtype=np.int64))
        return g.Resize(x, None, None, sizes, axes=list(range(2, 2 + len(output_size))), **attributes)
    outer = [size(g, x, 0), size(g, x, 1)]
    return g.Resize(x, None, None, vector(g, [*outer, *output_size]), **attributes)


def _resize_by_factors(
    g: Graph, x: ir.Value, output_size: Any, factors: Sequence[float], **attributes: Any
) -> ir.Value:
    """Return a Resize if ONNX computes the same lengths from the factors as PyTorch, else resize axis by axis.

    PyTorch multiplies length and factor in float64 (90 · 0.7 is 62), ONNX in float32 (63).
    """
    lengths = list(g.shape(x)[2:])
    wanted = output_size or [_scaled_length(g, size(g, x, i), f) for i, f in enumerate(factors, 2)]
    method = Interpolation(
        attributes["mode"], attributes["coordinate_transformation_mode"], attributes.get("nearest_mode", "floor")
    )
    whole = _whole_factors(g, method, wanted)
    factors = [_own_factor(*row, whole) for row in zip(lengths, wanted, factors, strict=True)]
    rows = list(zip(lengths, wanted, factors, strict=True))
    as_given = not any(_meets_whole(*row, whole) or _may_stay(*row) for row in rows)
    if as_given and all(_is_a_resize(*row, method, output_size is None) for row in rows):
        return g.Resize(
            x, None, g.const(rounded_tensor(np.array([1.0, 1.0, *factors]), ir.DataType.FLOAT)), **attributes
        )
    for axis, (n, factor) in enumerate(zip(wanted, factors, strict=True), 2):
        x = _interpolated_axis(g, x, axis, n, factor, method, whole)
    return x


def _whole_factors(g: Graph, method: Interpolation, wanted: Sequence[Length]) -> _Whole:
    """Return the ratios; rows are copied along an axis whose length is unchanged: 3 elements by 1.3.

    `upsample_nearest2d` uses factors of exactly 1 and 2 for unchanged and doubled lengths. It does so in its kernel for
    planes of at most 128 rows and columns (`_use_vectorized_kernel_cond_2d` of
    `aten/src/ATen/native/cpu/UpSampleKernel.cpp`).
    """
    if method.mode == "linear":
        return _Whole((1,))
    if method.mode != "nearest" or method.nearest != "floor" or len(wanted) != 2:
        return _Whole()
    rows = plus(g, *wanted)
    return _Whole((1, 2), rows <= _SMALL if isinstance(rows, int) else g.LessOrEqual(rows, _SMALL))


_SMALL = 128


def _own_factor(length: Any, wanted: Any, factor: float, whole: _Whole) -> float:
    """Return the factor that PyTorch uses, if it is known."""
    if not isinstance(length, int) or not isinstance(wanted, int) or whole.when is not True:
        return factor
    return next((float(ratio) for ratio in whole.ratios if wanted == ratio * length), factor)


def _meets_whole(length: Any, wanted: Any, factor: float, whole: _Whole) -> bool:
    """Return whether it depends on run-time sizes if PyTorch uses a length ratio as the factor."""
    if isinstance(length, int) and isinstance(wanted, int):
        return whole.when is not True and any(wanted == r * length and factor != r for r in whole.ratios)
    return any(
        r < factor and int(2 * factor) == 2 * r for r in whole.ratios
    )  # if the formulas differ at any length, they differ at length 2


def _may_stay(length: Any, wanted: Any, factor: float) -> bool:
    """Return whether a factor other than 1 may keep a length: onnxruntime 1.32 then copies instead of sampling."""
    if isinstance(length, int) and isinstance(wanted, int):
        return length == wanted and factor != 1
    return factor > 1 and int(2 * factor) == 2


def _computed_step(g: Graph, length: Length, out: Length, factor: float, dtype: ir.DataType, whole: _Whole) -> ir.Value:
    """Return 1 / factor, or that of the length ratio if PyTorch uses it as the factor."""
    step = as_value(g, 1 / factor, dtype)
    for ratio in whole.ratios:
        meets = g.Equal(as_value(g, times(g, length, ratio), _INT64), as_value(g, out, _INT64))
        if whole.when is not True:
            meets = g.And(meets, whole.when)
        step = g.Where(meets, as_value(g, 1 / ratio, dtype), step)
    return step


def _scaled_length(g: Graph, length: Length, factor: float) -> Length:
    """Return the truncated product of the length and a Python factor."""
    if isinstance(length, int):
        return int(length * factor)
    return sym_int(g, mul(g, length, factor))


def _is_a_resize(length: Any, wanted: Any, factor: float, method: Interpolation, scaled: bool) -> bool:
    """Return whether ONNX's Resize of an axis gives PyTorch's length, and its neighbours for nearest.

    An axis of unknown length is assumed to be shorter than `_LONG`. ONNX's inference multiplies in float64.
    """
    if not isinstance(length, int) or not isinstance(wanted, int):
        if not scaled or not _lengths_agree(factor):
            return False
        length, wanted = _LONG, int(_LONG * factor)
    if not resized_length(length, factor) == math.floor(length * float(np.float32(factor))) == wanted:
        return False
    if method.mode != "nearest":
        return True
    return _selects_same_elements(length, wanted, method, factor)


def _selects_same_elements(length: Any, wanted: Any, method: Interpolation, factor: float | None = None) -> bool:
    """Return whether ONNX's Resize selects the same elements of an axis as PyTorch; it does not for 14 to 4, or for
    unknown lengths.

    ONNX divides by wanted / length, where PyTorch multiplies by length / wanted; both round to float32.
    """
    if not isinstance(length, int) or not isinstance(wanted, int):
        return False
    scale = float(np.float32(wanted) / np.float32(length)) if factor is None else factor
    found = nearest_indices(source_coordinates(length, wanted, scale, method), length, method.nearest)
    return np.array_equal(found, _nearest_places(wanted, length, factor, method))


_LONG = 1 << 14


@functools.cache
def _lengths_agree(factor: float) -> bool:
    """Return whether float32 and float64 agree on the integer part of length times `factor`."""
    lengths = np.arange(1, _LONG + 1)
    return np.array_equal(np.floor(lengths.astype(np.float32) * np.float32(factor)), np.floor(lengths * factor))


def _nearest_places(wanted: int, length: int, factor: float | None, method: Interpolation) -> np.ndarray:
    """Return floor(i · step), or that of the middle of i, in float32 as in
    `aten/src/ATen/native/cpu/UpSampleKernel.cpp`.

    The step is 1 / factor, or, for given sizes, length / wanted.
    """
    half = np.float32(0.5 if method.coordinates == "half_pixel" else 0)
    step = np.float32(length) / np.float32(wanted) if factor is None else np.float32(1 / factor)
    where = (np.arange(wanted, dtype=np.float32) + half) * step - half
    return np.minimum(np.floor(where + half).astype(np.int64), length - 1)


def _interpolated_axis(
    g: Graph,
    x: ir.Value,
    axis: int,
    wanted: Length,
    factor: float | None,
    method: Interpolation,
    whole: _Whole = _Whole(),
) -> ir.Value:
    """Resize one axis: a product with a weight matrix if lengths are known, else a weighted sum of gathered elements.

    The factor is None for nearest with given sizes.
    """
    length, nearest = size(g, x, axis), method.mode == "nearest"
    decided = factor is None or not isinstance(whole.when, ir.Value) or not _meets_whole(length, wanted, factor, whole)
    if isinstance(length, int) and isinstance(wanted, int) and decided:
        if nearest:
            return g.Gather(x, _nearest_places(wanted, length, factor, method), axis=axis)
        assert factor is not None
        return multiply_axis(g, x, axis, weight_matrix(length, wanted, factor, method).T)
    dtype = ir.DataType.FLOAT if nearest else ir.DataType.DOUBLE
    half = as_value(g, 0.5 if method.coordinates == "half_pixel" else 0.0, dtype)
    if factor is None:
        step = g.Div(_number(g, length), _number(g, wanted))
    else:
        step = _computed_step(g, length, wanted, factor, dtype, whole)
    where = g.Mul(g.Add(g.Cast(arange(g, wanted), to=dtype), half), step)
    where = g.Sub(where, half)
    where = g.Add(where, half) if nearest else where
    where = g.Max(where, as_value(g, 0.0, dtype)) if method.mode == "linear" else where
    floor = g.Floor(where)
    first, last = g.Cast(floor, to=ir.DataType.INT64), g.Sub(as_value(g, length, ir.DataType.INT64), 1)
    if nearest:
        return g.Gather(x, g.Min(first, last), axis=axis)
    behind = list(range(1, g.rank(x) - axis))
    parts = []
    for offset, weight in _tap_weights(g, cast(g, g.Sub(where, floor), g.dtype(x)), method):
        part = g.Gather(x, g.Min(g.Max(g.Add(first, offset), 0), last), axis=axis)
        parts.append(g.Mul(part, g.Unsqueeze(weight, behind) if behind else weight))
    return functools.reduce(g.Add, parts)


def _number(g: Graph, length: Length) -> ir.Value:
    return g.Cast(as_value(g, length, ir.DataType.INT64), to=ir.DataType.FLOAT)


def _tap_weights(g: Graph, rest: ir.Value, method: Interpolation) -> list[tuple[int, ir.Value]]:
    """Return offsets of the inputs around a position and their weights, at distance `rest` after the first: linear, or
    Keys's cubic.
    """
    one = constant_like(g, 1, rest)
    if method.mode == "linear":
        return [(0, g.Sub(one, rest)), (1, rest)]

    left, (near, far) = g.Sub(one, rest), keys_polynomials(method.cubic)
    return [
        (-1, horner(g, g.Add(rest, one), far)),
        (0, horner(g, rest, near)),
        (1, horner(g, left, near)),
        (2, horner(g, g.Add(left, one), far)),
    ]


def _nearest_rule(exact: bool) -> Any:
    """Return the rule of nearest: floor(i / scale), or exactly the nearest sample."""
    mode, place = ("round_prefer_ceil", "half_pixel") if exact else ("floor", "asymmetric")

    def vec(g: Graph, x: ir.Value, output_size: Any, scale_factors: Any = None) -> ir.Value:
        return emit_resize(
            g, x, output_size, scale_factors, mode="nearest", nearest_mode=mode, coordinate_transformation_mode=place
        )

    return vec


def _linear_rule(mode: str) -> Any:
    def vec(g: Graph, x: ir.Value, output_size: Any, align_corners: bool, scale_factors: Any = None) -> ir.Value:
        place = "align_corners" if align_corners else "half_pixel"
        cubic = -0.75 if mode == "cubic" else None
        if output_size is None and align_corners:
            output_size = _scaled_sizes(g, x, scale_factors)
        if g.dtype(x) == ir.DataType.UINT8:
            method = Interpolation(mode, place, cubic=-0.75)

            def weights(length: Length, out: Length, factor: float | None) -> np.ndarray | ir.Value:
                factor = None if align_corners else factor or None
                if isinstance(length, int) and isinstance(out, int):
                    return weight_matrix(length, out, factor if factor and length != out else out / length, method)
                return _computed_tap_matrix(g, length, out, factor, method)

            return _resized_bytes(g, x, output_size, scale_factors, weights)
        return emit_resize(
            g,
            x,
            output_size,
            None if align_corners else scale_factors,
            mode=mode,
            coordinate_transformation_mode=place,
            cubic_coeff_a=cubic,
        )

    return vec


def _scaled_sizes(g: Graph, x: ir.Value, scale_factors: Sequence[float]) -> list[Length]:
    return [_scaled_length(g, size(g, x, i), f) for i, f in enumerate(scale_factors, 2)]


def _antialiased_rule(mode: str) -> Any:
    def vec(g: Graph, x: ir.Value, output_size: Any, align_corners: bool, scale_factors: Any = None) -> ir.Value:
        """Resize by one matrix per axis, because PyTorch's filter differs from what runtimes compute for ONNX's
        attribute.
        """

        def weights(length: Length, out: Length, factor: float | None) -> np.ndarray | ir.Value:
            if isinstance(length, int) and isinstance(out, int):
                return _filter_matrix(length, out, mode, align_corners, factor)
            return _computed_filter_matrix(g, length, out, mode, align_corners, factor)

        if g.dtype(x) == ir.DataType.UINT8:
            return _resized_bytes(g, x, output_size, scale_factors, weights)
        output_size = _scaled_sizes(g, x, scale_factors) if output_size is None else output_size
        for axis, (out, factor) in enumerate(zip(output_size, scale_factors or (None, None), strict=True), 2):
            x = multiply_axis(g, x, axis, transposed(g, weights(size(g, x, axis), out, factor)))
        return x

    return vec


def _resized_bytes(
    g: Graph,
    x: ir.Value,
    output_size: Any,
    factors: Sequence[float | None] | None,
    weights: Callable[[Length, Length, float | None], np.ndarray | ir.Value],
) -> ir.Value:
    """Resize byte images: PyTorch interpolates columns first and then rows, each rounded to bytes.

    The weights [out, length] of an axis are integers in units of 2^-p, with the largest p for which they are below 2^15
    (`_compute_index_ranges_int16_weights` of `aten/src/ATen/native/cpu/UpSampleKernel.cpp`, after Pillow's).
    """
    if g.rank(x) != 4:
        raise Unsupported("interpolation of bytes in one or three dims", hint="convert them to float32 before")
    known = [f for f in factors or () if f is not None]
    wanted = _scaled_sizes(g, x, known) if output_size is None else output_size
    for i in (1, 0):
        table, scale = _whole_weights(g, weights(size(g, x, i + 2), wanted[i], factors[i] if factors else None))
        whole = cast(g, x, ir.DataType.INT32)
        whole = g.MatMul(whole, transposed(g, table)) if i else g.MatMul(table, whole)
        whole = g.Max(g.Add(whole, g.Div(scale, constant_like(g, 2, whole))), constant_like(g, 0, whole))
        whole = g.Min(g.Div(whole, scale), constant_like(g, 255, whole))
        x = cast(g, whole, ir.DataType.UINT8)
    return x


def _whole_weights(g: Graph, exact: np.ndarray | ir.Value) -> tuple[np.ndarray | ir.Value, ir.Value]:
    """Return the weights as integers in units of 2^-p, and 2^p, both in int32."""
    powers = 2.0 ** np.arange(23)
    if isinstance(exact, np.ndarray):
        scale = powers[int((np.trunc(0.5 + exact.max() * powers[1:]) < 1 << 15).sum())]
        table = np.trunc(exact * scale + np.copysign(0.5, exact)).astype(np.int32)
        return table, g.const(np.int32(scale))
    fits = g.Less(g.Floor(g.Add(g.Mul(g.ReduceMax(exact, keepdims=0), powers[1:]), 0.5)), float(1 << 15))
    digits = g.ReduceSum(g.Cast(fits, to=ir.DataType.INT64), keepdims=0)
    scale = g.Gather(g.const(powers), digits)
    moved = g.Add(
        g.Mul(exact, scale), g.Where(g.Less(exact, 0.0), as_value(g, -0.5, _DOUBLE), as_value(g, 0.5, _DOUBLE))
    )
    return g.Cast(moved, to=ir.DataType.INT32), g.Cast(scale, to=ir.DataType.INT32)


def _filter_matrix(length: int, out: int, mode: str, align_corners: bool, factor: float | None) -> np.ndarray:
    """Return weights [out, length] of a triangle or cubic filter, widened to the sample distance if that is above 1.

    The formula is that of `aten/src/ATen/native/cpu/UpSampleKernel.cpp` (after Pillow's).
    """
    if align_corners:
        step = (length - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = length / out if not factor or length == out else 1 / factor
    wide = max(step, 1.0)
    matrix = np.zeros((out, length))
    for i in range(out):
        centre = step * (i + 0.5)
        reach = wide * (2.0 if mode == "cubic" else 1.0)
        first, last = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), length)
        weights = _filter_weights((np.arange(first, last) - centre + 0.5) / wide, mode)
        matrix[i, first:last] = weights / weights.sum()
    return matrix


def _filter_weights(x: np.ndarray, mode: str) -> np.ndarray:
    x = np.abs(x)
    return np.maximum(1 - x, 0) if mode == "linear" else keys_kernel(x, _FILTER_CUBIC)


def _computed_filter_matrix(
    g: Graph, length: Length, out: Length, mode: str, align_corners: bool, factor: float | None
) -> ir.Value:
    """Return `_filter_matrix` for run-time lengths, float64[out, length]."""
    one, half = as_value(g, 1.0, _DOUBLE), as_value(g, 0.5, _DOUBLE)
    step = _computed_ratio(g, length, out, factor, align_corners)
    wide = g.Max(step, one)
    centre = g.Mul(g.Add(g.Unsqueeze(g.Cast(arange(g, out), to=_DOUBLE), [1]), half), step)
    reach = g.Mul(wide, as_value(g, 2.0 if mode == "cubic" else 1.0, _DOUBLE))
    first, last = (g.Floor(g.Add(v, half)) for v in (g.Sub(centre, reach), g.Add(centre, reach)))
    place = g.Cast(arange(g, length), to=_DOUBLE)
    inside = g.And(g.GreaterOrEqual(place, first), g.Less(place, last))
    distance = g.Abs(g.Div(g.Add(g.Sub(place, centre), half), wide))
    if mode == "linear":
        weights = g.Max(g.Sub(one, distance), as_value(g, 0.0, _DOUBLE))
    else:
        near, far = (horner(g, distance, numbers) for numbers in keys_polynomials(_FILTER_CUBIC))
        two, none = as_value(g, 2.0, _DOUBLE), as_value(g, 0.0, _DOUBLE)
        weights = g.Where(g.Less(distance, one), near, g.Where(g.Less(distance, two), far, none))
    weights = g.Where(inside, weights, as_value(g, 0.0, _DOUBLE))
    return g.Div(weights, g.ReduceSum(weights, [1], keepdims=1))


def _computed_tap_matrix(
    g: Graph, length: Length, out: Length, factor: float | None, method: Interpolation
) -> ir.Value:
    """Return `weight_matrix` for run-time lengths, float64[out, length]; without a factor if corners are aligned."""
    aligned = method.coordinates == "align_corners"
    half = as_value(g, 0.0 if aligned else 0.5, _DOUBLE)
    step = _computed_ratio(g, length, out, factor, aligned)
    where = g.Sub(g.Mul(g.Add(g.Unsqueeze(g.Cast(arange(g, out), to=_DOUBLE), [1]), half), step), half)
    floor = g.Floor(where)
    first, last = g.Cast(floor, to=ir.DataType.INT64), plus(g, length, -1)
    parts = []
    for offset, weight in _tap_weights(g, g.Sub(where, floor), method):
        hit = g.Equal(g.Min(g.Max(g.Add(first, offset), 0), last), arange(g, length))
        parts.append(g.Mul(g.Cast(hit, to=_DOUBLE), weight))
    return functools.reduce(g.Add, parts)


def _computed_ratio(g: Graph, length: Length, out: Length, factor: float | None, align_corners: bool) -> ir.Value:
    """Return the distance of samples, as float64; 1 if the length is unchanged."""
    if factor and not align_corners:
        return _computed_step(g, length, out, factor, _DOUBLE, _Whole((1,)))
    if not align_corners:
        return g.Div(*(g.Cast(as_value(g, n, ir.DataType.INT64), to=_DOUBLE) for n in (length, out)))
    apart, more = (g.Cast(as_value(g, plus(g, n, -1), ir.DataType.INT64), to=_DOUBLE) for n in (length, out))
    none, one = as_value(g, 0.0, _DOUBLE), as_value(g, 1.0, _DOUBLE)
    return g.Where(g.Greater(more, none), g.Div(apart, g.Max(more, one)), none)


def _per_dim_overload(vec: Any, dims: int, aligned: bool) -> Any:
    """Return the overload without `.vec`, which names a factor per dim: scales_h, scales_w …."""
    if dims == 1:
        if aligned:
            return lambda g, x, output_size, align_corners, scales=None: vec(g, x, output_size, align_corners, [scales])
        return lambda g, x, output_size, scales=None: vec(g, x, output_size, [scales])
    if dims == 2:
        if aligned:
            return lambda g, x, output_size, align_corners, scales_h=None, scales_w=None: vec(
                g, x, output_size, align_corners, [scales_h, scales_w]
            )
        return lambda g, x, output_size, scales_h=None, scales_w=None: vec(g, x, output_size, [scales_h, scales_w])
    if aligned:
        return lambda g, x, output_size, align_corners, scales_d=None, scales_h=None, scales_w=None: vec(
            g, x, output_size, align_corners, [scales_d, scales_h, scales_w]
        )
    return lambda g, x, output_size, scales_d=None, scales_h=None, scales_w=None: vec(
        g, x, output_size, [scales_d, scales_h, scales_w]
    )


def _register(name: str, vec: Any, dims: int, aligned: bool) -> None:
    torch_op(f"{name}.vec")(vec)
    torch_op(name)(_per_dim_overload(vec, dims, aligned))


for _dims in (1, 2, 3):
    _register(f"upsample_nearest{_dims}d", _nearest_rule(False), _dims, False)
    _register(f"_upsample_nearest_exact{_dims}d", _nearest_rule(True), _dims, False)
for _name, _dims, _mode in (
    ("linear1d", 1, "linear"),
    ("bilinear2d", 2, "linear"),
    ("trilinear3d", 3, "linear"),
    ("bicubic2d", 2, "cubic"),
):
    _register(f"upsample_{_name}", _linear_rule(_mode), _dims, True)
for _name, _mode in (("bilinear2d", "linear"), ("bicubic2d", "cubic")):
    _register(f"_upsample_{_name}_aa", _antialiased_rule(_mode), 2, True)
