"""The weights of resizes with run-time sizes: the matrices of `resample.py`, computed in the graph.

Every function returns [wanted, given] for int64 scalar sizes, in float32 as TensorFlow's kernels compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

_F32 = np.float32
_STEPS = 1024
_LEAST = _F32(1e-30)


def scale_of(g: Graph, given: ir.Value, wanted: ir.Value, align_corners: bool) -> ir.Value:
    """Return how many input pixels one output pixel covers."""
    whole = g.Div(_float(g, given), _float(g, wanted))
    if not align_corners:
        return whole
    gaps = g.Max(g.Sub(wanted, np.int64(1)), np.int64(1))
    corners = g.Div(_float(g, g.Sub(given, np.int64(1))), _float(g, gaps))
    return g.Where(g.Greater(wanted, np.int64(1)), corners, whole)


def cubic_weights(g: Graph, given: ir.Value, wanted: ir.Value, align_corners: bool, half_pixel: bool) -> ir.Value:
    """Return four weights around each position, from a table of 1024 steps (resize_bicubic_op.cc)."""
    a = -0.5 if half_pixel else -0.75
    t = np.arange(_STEPS + 1) / _STEPS
    near = (((a + 2) * t - (a + 3)) * t * t + 1).astype(_F32)
    far = (((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a).astype(_F32)
    scale, i = scale_of(g, given, wanted, align_corners), _places(g, wanted)
    at = g.Sub(g.Mul(g.Add(i, _F32(0.5)), scale), _F32(0.5)) if half_pixel else g.Mul(i, scale)
    first = g.Floor(at)
    step = g.Cast(g.Round(g.Mul(g.Sub(at, first), _F32(_STEPS))), to=ir.DataType.INT64)
    back = g.Sub(np.int64(_STEPS), step)
    parts = [g.Gather(table, s) for table, s in ((far, step), (near, step), (near, back), (far, back))]
    taps = g.Concat(*(g.Unsqueeze(p, [1]) for p in parts), axis=1)
    places = g.Add(g.Unsqueeze(g.Cast(first, to=ir.DataType.INT64), [1]), np.arange(-1, 3))
    last = g.Sub(given, np.int64(1))
    if half_pixel:
        inside = g.And(g.GreaterOrEqual(places, np.int64(0)), g.LessOrEqual(places, last))
        taps = _normalize_rows(g, g.Where(inside, taps, _F32(0)))
    places = g.Max(g.Min(places, last), np.int64(0))
    here = g.Equal(g.Unsqueeze(places, [2]), g.Range(0, given, 1))
    return g.ReduceSum(g.Where(here, g.Unsqueeze(taps, [2]), _F32(0)), [1], keepdims=0)


def area_weights(g: Graph, given: ir.Value, wanted: ir.Value, align_corners: bool) -> ir.Value:
    """Return the overlap of each pixel with the span of a result; a span beyond the last pixel counts for the last
    pixel.
    """
    scale, i = scale_of(g, given, wanted, align_corners), g.Unsqueeze(_places(g, wanted), [1])
    low, high = g.Mul(i, scale), g.Mul(g.Add(i, _F32(1)), scale)
    k, size = _places(g, given), _float(g, given)
    parts = g.Max(g.Sub(g.Min(g.Add(k, _F32(1)), high), g.Max(k, low)), _F32(0))
    # TensorFlow does not subtract within one pixel, where the difference is inexact.
    parts = g.Where(g.And(g.Less(k, low), g.Greater(g.Add(k, _F32(1)), high)), scale, parts)
    behind = g.Max(g.Sub(high, g.Max(size, low)), _F32(0))
    is_last = g.Equal(g.Range(0, given, 1), g.Sub(given, np.int64(1)))
    return g.Div(g.Add(parts, g.Where(is_last, behind, _F32(0))), scale)


def kernel_weights(
    g: Graph, given: ir.Value, wanted: ir.Value, scale: ir.Value, shift: ir.Value, kernel: str, antialias: bool
) -> ir.Value:
    """Return a kernel's weights around each result, scaled to a sum of 1 (scale_and_translate_op.cc,
    ComputeSpansCore).
    """
    radius, weigh = KERNELS[kernel]
    inverse = g.Div(_F32(1), scale)
    wide = g.Max(inverse, _F32(1)) if antialias else g.const(_F32(1))
    at = g.Add(g.Mul(g.Add(_places(g, wanted), _F32(0.5)), inverse), g.Neg(g.Mul(inverse, shift)))
    at, k = g.Unsqueeze(at, [1]), _places(g, given)
    reach = g.Mul(_F32(radius), wide)
    first = g.Ceil(g.Sub(g.Sub(at, reach), _F32(0.5)))
    last = g.Floor(g.Sub(g.Add(at, reach), _F32(0.5)))
    taps = weigh(g, g.Abs(g.Div(g.Sub(g.Add(k, _F32(0.5)), at), wide)))
    inside = g.And(g.GreaterOrEqual(k, first), g.LessOrEqual(k, last))
    there = g.And(g.GreaterOrEqual(at, _F32(0)), g.LessOrEqual(at, _float(g, given)))
    return _normalize_rows(g, g.Where(g.And(inside, there), taps, _F32(0)))


def _normalize_rows(g: Graph, taps: ir.Value) -> ir.Value:
    """Return rows divided by their sums, except for rows that sum to 0."""
    total = g.ReduceSum(taps, [1])
    return g.Div(taps, g.Where(g.Greater(g.Abs(total), _LEAST), total, _F32(1)))


def _float(g: Graph, x: ir.Value) -> ir.Value:
    return g.Cast(x, to=ir.DataType.FLOAT)


def _places(g: Graph, count: ir.Value) -> ir.Value:
    return _float(g, g.Range(0, count, 1))


def _lanczos(radius: float) -> Callable[[Graph, ir.Value], ir.Value]:
    def weigh(g: Graph, x: ir.Value) -> ir.Value:
        middle = g.LessOrEqual(x, _F32(1e-3))
        turn = g.Mul(g.Where(middle, _F32(1), x), _F32(math.pi))
        waves = g.Mul(g.Sin(turn), g.Sin(g.Div(turn, _F32(radius))))
        value = g.Div(g.Mul(_F32(radius), waves), g.Mul(turn, turn))
        return g.Where(g.Greater(x, _F32(radius)), _F32(0), g.Where(middle, _F32(1), value))

    return weigh


def _cubic(inner: tuple[float, ...], outer: tuple[float, ...]) -> Callable[[Graph, ir.Value], ir.Value]:
    """Two polynomials, highest power first: below 1, and from 1 to 2."""

    def weigh(g: Graph, x: ir.Value) -> ir.Value:
        near, far = (_polynomial(g, x, numbers) for numbers in (inner, outer))
        return g.Where(g.GreaterOrEqual(x, _F32(2)), _F32(0), g.Where(g.GreaterOrEqual(x, _F32(1)), far, near))

    return weigh


def _polynomial(g: Graph, x: ir.Value, numbers: tuple[float, ...]) -> ir.Value:
    value = g.const(_F32(numbers[0]))
    for number in numbers[1:]:
        value = g.Add(g.Mul(value, x), _F32(number))
    return value


def _gaussian(g: Graph, x: ir.Value) -> ir.Value:
    return g.Where(g.GreaterOrEqual(x, _F32(1.5)), _F32(0), g.Exp(g.Mul(g.Mul(x, x), _F32(-2))))


def _box(g: Graph, x: ir.Value) -> ir.Value:
    return g.Where(g.Less(x, _F32(0.5)), _F32(1), g.Where(g.Equal(x, _F32(0.5)), _F32(0.5), _F32(0)))


def _triangle(g: Graph, x: ir.Value) -> ir.Value:
    return g.Max(g.Sub(_F32(1), x), _F32(0))


KERNELS: dict[str, tuple[float, Callable[[Graph, ir.Value], ir.Value]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, _gaussian),
    "box": (1, _box),
    "triangle": (1, _triangle),
    "keyscubic": (2, _cubic((1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2))),
    "mitchellcubic": (2, _cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9))),
}
"""Kernel by name: its radius, and its value at a distance."""
