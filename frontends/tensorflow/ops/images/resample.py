"""Resizes that weight several pixels by a kernel: products with a weight matrix per direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.long_double import PI, wide
from convert.numerics.series import horner
from convert.semantics.interpolation import keys_polynomials

from ...common import shape_values
from ...common.conv_layout import to_channels_first, to_data_format
from ...common.lazy_reshape import cast, int64
from ...rules import tf_op

_STEPS = 1024
_SIDE, _WEIGHTS = 1 << 16, 1 << 24
"""The largest side of a picture, and the largest matrix of weights, that are computed while the file is read."""
F32 = np.float32
_LEAST = F32(1e-30)


@tf_op("ResizeBicubic")
def resize_bicubic(
    g: Graph, images: ir.Value, size: ir.Value, *, align_corners: bool, half_pixel_centers: bool
) -> ir.Value:
    def weights(given: int, wanted: int) -> np.ndarray:
        return _cubic_weights(given, wanted, _scale(given, wanted, align_corners), half_pixel_centers)

    def computed(given: ir.Value, wanted: ir.Value, direction: int) -> ir.Value:
        return _computed_cubic_weights(g, given, wanted, align_corners, half_pixel_centers)

    return _apply_weights(g, images, size, weights, computed)


@tf_op("ResizeArea")
def resize_area(g: Graph, images: ir.Value, size: ir.Value, *, align_corners: bool) -> ir.Value:
    return _apply_weights(
        g,
        images,
        size,
        lambda given, wanted: _area_weights(given, wanted, _scale(given, wanted, align_corners)),
        lambda given, wanted, direction: _computed_area_weights(g, given, wanted, align_corners),
    )


@tf_op("ScaleAndTranslate")
def scale_and_translate(
    g: Graph,
    images: ir.Value,
    size: ir.Value,
    scale: ir.Value,
    translation: ir.Value,
    *,
    kernel_type: str,
    antialias: bool,
) -> ir.Value:
    scales, shifts = _static_content(g, scale), _static_content(g, translation)
    if kernel_type not in _KERNELS:
        raise Unsupported(f"kernel_type={kernel_type!r} is not handled")

    def computed(given: ir.Value, wanted: ir.Value, direction: int) -> ir.Value:
        own, shift = (g.Gather(v, np.int64(direction)) for v in (scale, translation))
        return _computed_kernel_weights(g, given, wanted, own, shift, kernel_type, antialias)

    if scales is None or shifts is None:
        return _apply_weights(g, images, size, None, computed)
    pairs = iter(zip(scales.tolist(), shifts.tolist(), strict=True))
    return _apply_weights(
        g,
        images,
        size,
        lambda given, wanted: _kernel_weights(given, wanted, *next(pairs), kernel_type, antialias),
        computed,
    )


def _apply_weights(
    g: Graph,
    images: ir.Value,
    size: ir.Value,
    weights: Callable[[int, int], np.ndarray] | None,
    computed: Callable[[ir.Value, ir.Value, int], ir.Value],
) -> ir.Value:
    """Return rows · x · columnsᵀ for every channel of NHWC.

    `weights` returns [wanted, given] for known sizes, `computed` for int64 scalars, for rows (0) and columns (1).
    Weights of very large pictures are computed when the model runs.
    """
    x = to_channels_first(g, cast(g, images, ir.DataType.FLOAT), "NHWC")
    given = [d if isinstance(d, int) else None for d in g.shape(x)[2:]]
    wanted = shape_values.ints(size, "size") if shape_values.is_known(size) else [None, None]
    pairs = [(d, w) for d, w in zip(given, wanted, strict=True) if d is not None and w is not None]
    if weights is not None and len(pairs) == 2 and all(_has_few_weights(*pair) for pair in pairs):
        rows, columns = (weights(*pair) for pair in pairs)
        y = g.MatMul(g.MatMul(rows.astype(F32), x), np.ascontiguousarray(columns.astype(F32).T))
        return to_data_format(g, y, "NHWC")
    content = shape_values.content(size)
    known = [None, None] if content is None else content.tolist()
    sizes = [g.Gather(int64(g, size), np.int64(i)) for i in range(2)]
    here = [g.Squeeze(g.Shape(x, start=2 + i, end=3 + i), [0]) for i in range(2)]
    down, across = (computed(own, wanted, i) for i, (own, wanted) in enumerate(zip(here, sizes, strict=True)))
    y = g.MatMul(g.MatMul(down, x), g.Transpose(across, perm=[1, 0]))
    return to_data_format(g, g.facts(y, ir.DataType.FLOAT, [*g.shape(x)[:2], *known]), "NHWC")


def _has_few_weights(given: int, wanted: int) -> bool:
    """Return whether the weights of a side may be computed one by one while the file is read."""
    return max(given, wanted) <= _SIDE and given * wanted <= _WEIGHTS


def _scale(given: int, wanted: int, align_corners: bool) -> np.float32:
    return F32((given - 1) / F32(wanted - 1)) if align_corners and wanted > 1 else F32(given / F32(wanted))


def _cubic_tables(half_pixel: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return Keys's cubic at 1024 steps up to 1, and from 1 to 2; half pixels use a = -1/2, others a = -3/4."""
    near, far = keys_polynomials(-0.5 if half_pixel else -0.75)
    t = np.arange(_STEPS + 1) / _STEPS
    return np.polyval(near, t), np.polyval(far, t + 1)


def _cubic_weights(given: int, wanted: int, scale: np.float32, half_pixel: bool) -> np.ndarray:
    """Return four weights from a table of 1024 steps (resize_bicubic_op.cc).

    With half pixels, positions outside are dropped and the weights rescaled to 1; otherwise the border is repeated.
    """
    near, far = _cubic_tables(half_pixel)
    made = np.zeros((wanted, given))
    for i in range(wanted):
        at = F32((F32(i) + F32(0.5)) * scale - F32(0.5)) if half_pixel else F32(i) * scale
        first = int(np.floor(at))
        step = int(np.rint(F32(at - F32(first)) * F32(_STEPS)))
        taps = np.array([far[step], near[step], near[_STEPS - step], far[_STEPS - step]])
        places = np.arange(first - 1, first + 3)
        inside = (places >= 0) & (places < given)
        if half_pixel:
            taps = np.where(inside, taps, 0.0)
            taps = taps / taps.sum() if abs(taps.sum()) > 1e-30 else taps
        np.add.at(made[i], np.clip(places, 0, given - 1), taps)
    return made


def _area_weights(given: int, wanted: int, scale: np.float32) -> np.ndarray:
    """Return the overlap of each pixel with the span of a result, divided by the span (resize_area_op.cc)."""
    made = np.zeros((wanted, given))
    for i in range(wanted):
        low, high = F32(i) * scale, F32(i + 1) * scale
        for k in range(int(np.floor(low)), int(np.ceil(high))):
            within = k < low and k + 1 > high  # TensorFlow does not subtract here, where the difference is inexact
            part = float(scale) if within else min(k + 1, float(high)) - max(k, float(low))
            made[i, min(max(k, 0), given - 1)] += part / float(scale)
    return made


def _kernel_weights(given: int, wanted: int, scale: float, shift: float, kernel: str, antialias: bool) -> np.ndarray:
    """Return a kernel's weights around each result, scaled to a sum of 1 (scale_and_translate_op.cc,
    ComputeSpansCore).
    """
    chosen = _KERNELS[kernel]
    inverse = F32(1) / F32(scale)
    move = F32(-inverse * F32(shift))
    wide = max(inverse, F32(1)) if antialias else F32(1)
    made = np.zeros((wanted, given))
    for i in range(wanted):
        at = F32((F32(i) + F32(0.5)) * inverse + move)
        if at < 0 or at > given:
            continue
        first = max(int(np.ceil(at - F32(chosen.radius) * wide - F32(0.5))), 0)
        last = min(int(np.floor(at + F32(chosen.radius) * wide - F32(0.5))), given - 1)
        places = np.arange(first, last + 1)
        taps = chosen.at(np.abs((places + 0.5 - at) / wide))
        made[i, places] = taps / taps.sum() if abs(taps.sum()) > 1e-30 else taps
    return made


# -- weights computed in the graph: [wanted, given] for int64 scalars, in float32 as TensorFlow's kernels do ---------


def _computed_scale(g: Graph, given: ir.Value, wanted: ir.Value, align_corners: bool) -> ir.Value:
    """Return how many input pixels one output pixel covers."""
    whole = g.Div(_float(g, given), _float(g, wanted))
    if not align_corners:
        return whole
    gaps = g.Max(g.Sub(wanted, np.int64(1)), np.int64(1))
    corners = g.Div(_float(g, g.Sub(given, np.int64(1))), _float(g, gaps))
    return g.Where(g.Greater(wanted, np.int64(1)), corners, whole)


def _computed_cubic_weights(
    g: Graph, given: ir.Value, wanted: ir.Value, align_corners: bool, half_pixel: bool
) -> ir.Value:
    """Return four weights around each position, from a table of 1024 steps (resize_bicubic_op.cc)."""
    near, far = (table.astype(F32) for table in _cubic_tables(half_pixel))
    scale, i = _computed_scale(g, given, wanted, align_corners), _places(g, wanted)
    at = g.Sub(g.Mul(g.Add(i, F32(0.5)), scale), F32(0.5)) if half_pixel else g.Mul(i, scale)
    first = g.Floor(at)
    step = g.Cast(g.Round(g.Mul(g.Sub(at, first), F32(_STEPS))), to=ir.DataType.INT64)
    back = g.Sub(np.int64(_STEPS), step)
    parts = [g.Gather(table, s) for table, s in ((far, step), (near, step), (near, back), (far, back))]
    taps = g.Concat(*(g.Unsqueeze(p, [1]) for p in parts), axis=1)
    places = g.Add(g.Unsqueeze(g.Cast(first, to=ir.DataType.INT64), [1]), np.arange(-1, 3))
    last = g.Sub(given, np.int64(1))
    if half_pixel:
        inside = g.And(g.GreaterOrEqual(places, np.int64(0)), g.LessOrEqual(places, last))
        taps = _normalize_rows(g, g.Where(inside, taps, F32(0)))
    places = g.Max(g.Min(places, last), np.int64(0))
    here = g.Equal(g.Unsqueeze(places, [2]), g.Range(0, given, 1))
    return g.ReduceSum(g.Where(here, g.Unsqueeze(taps, [2]), F32(0)), [1], keepdims=0)


def _computed_area_weights(g: Graph, given: ir.Value, wanted: ir.Value, align_corners: bool) -> ir.Value:
    """Return the overlap of each pixel with the span of a result; a span beyond the last pixel counts for the last
    pixel.
    """
    scale, i = _computed_scale(g, given, wanted, align_corners), g.Unsqueeze(_places(g, wanted), [1])
    low, high = g.Mul(i, scale), g.Mul(g.Add(i, F32(1)), scale)
    k, size = _places(g, given), _float(g, given)
    parts = g.Max(g.Sub(g.Min(g.Add(k, F32(1)), high), g.Max(k, low)), F32(0))
    # TensorFlow does not subtract within one pixel, where the difference is inexact.
    parts = g.Where(g.And(g.Less(k, low), g.Greater(g.Add(k, F32(1)), high)), scale, parts)
    behind = g.Max(g.Sub(high, g.Max(size, low)), F32(0))
    is_last = g.Equal(g.Range(0, given, 1), g.Sub(given, np.int64(1)))
    return g.Div(g.Add(parts, g.Where(is_last, behind, F32(0))), scale)


def _computed_kernel_weights(
    g: Graph, given: ir.Value, wanted: ir.Value, scale: ir.Value, shift: ir.Value, kernel: str, antialias: bool
) -> ir.Value:
    """Return a kernel's weights around each result, scaled to a sum of 1 (scale_and_translate_op.cc,
    ComputeSpansCore).
    """
    chosen = _KERNELS[kernel]
    inverse = g.Div(F32(1), scale)
    wide = g.Max(inverse, F32(1)) if antialias else g.const(F32(1))
    at = g.Add(g.Mul(g.Add(_places(g, wanted), F32(0.5)), inverse), g.Neg(g.Mul(inverse, shift)))
    at, k = g.Unsqueeze(at, [1]), _places(g, given)
    reach = g.Mul(F32(chosen.radius), wide)
    first = g.Ceil(g.Sub(g.Sub(at, reach), F32(0.5)))
    last = g.Floor(g.Sub(g.Add(at, reach), F32(0.5)))
    taps = chosen.computed(g, g.Abs(g.Div(g.Sub(g.Add(k, F32(0.5)), at), wide)))
    inside = g.And(g.GreaterOrEqual(k, first), g.LessOrEqual(k, last))
    there = g.And(g.GreaterOrEqual(at, F32(0)), g.LessOrEqual(at, _float(g, given)))
    return _normalize_rows(g, g.Where(g.And(inside, there), taps, F32(0)))


def _normalize_rows(g: Graph, taps: ir.Value) -> ir.Value:
    """Return rows divided by their sums, except for rows that sum to 0."""
    total = g.ReduceSum(taps, [1])
    return g.Div(taps, g.Where(g.Greater(g.Abs(total), _LEAST), total, F32(1)))


def _float(g: Graph, x: ir.Value) -> ir.Value:
    return g.Cast(x, to=ir.DataType.FLOAT)


def _places(g: Graph, count: ir.Value) -> ir.Value:
    return _float(g, g.Range(0, count, 1))


@dataclass(frozen=True)
class _Kernel:
    """A kernel of ScaleAndTranslate: its radius, and its value at a distance, as numbers and in a graph."""

    radius: float
    at: Callable[[np.ndarray], np.ndarray]
    computed: Callable[[Graph, ir.Value], ir.Value]


def _lanczos(radius: float) -> _Kernel:
    def at(x: np.ndarray) -> np.ndarray:
        angle = PI * wide(np.where(x <= 1e-3, 1.0, x))  # long double gives the same bits on every processor
        value = (radius * np.sin(angle) * np.sin(angle / radius) / (angle * angle)).astype(np.float64)
        return np.where(x > radius, 0.0, np.where(x <= 1e-3, 1.0, value))

    def computed(g: Graph, x: ir.Value) -> ir.Value:
        middle = g.LessOrEqual(x, F32(1e-3))
        turn = g.Mul(g.Where(middle, F32(1), x), F32(math.pi))
        waves = g.Mul(g.Sin(turn), g.Sin(g.Div(turn, F32(radius))))
        value = g.Div(g.Mul(F32(radius), waves), g.Mul(turn, turn))
        return g.Where(g.Greater(x, F32(radius)), F32(0), g.Where(middle, F32(1), value))

    return _Kernel(radius, at, computed)


def _piecewise_cubic(inner: tuple[float, ...], outer: tuple[float, ...]) -> _Kernel:
    """Return the kernel of two polynomials, highest power first: below 1, and from 1 to 2."""

    def at(x: np.ndarray) -> np.ndarray:
        near, far = (np.polyval(numbers, x) for numbers in (inner, outer))
        return np.where(x >= 2, 0.0, np.where(x >= 1, far, near))

    def computed(g: Graph, x: ir.Value) -> ir.Value:
        near, far = (horner(g, x, numbers) for numbers in (inner, outer))
        return g.Where(g.GreaterOrEqual(x, F32(2)), F32(0), g.Where(g.GreaterOrEqual(x, F32(1)), far, near))

    return _Kernel(2, at, computed)


def _gaussian(g: Graph, x: ir.Value) -> ir.Value:
    return g.Where(g.GreaterOrEqual(x, F32(1.5)), F32(0), g.Exp(g.Mul(g.Mul(x, x), F32(-2))))


def _box(g: Graph, x: ir.Value) -> ir.Value:
    return g.Where(g.Less(x, F32(0.5)), F32(1), g.Where(g.Equal(x, F32(0.5)), F32(0.5), F32(0)))


def _triangle(g: Graph, x: ir.Value) -> ir.Value:
    return g.Max(g.Sub(F32(1), x), F32(0))


_KERNELS = {
    "lanczos1": _lanczos(1),
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
    "gaussian": _Kernel(
        1.5, lambda x: np.where(x >= 1.5, 0.0, np.exp(wide(-x * x / 0.5)).astype(np.float64)), _gaussian
    ),
    "box": _Kernel(1, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0)), _box),
    "triangle": _Kernel(1, lambda x: np.maximum(1 - x, 0.0), _triangle),
    "keyscubic": _piecewise_cubic(*keys_polynomials(-0.5)),
    "mitchellcubic": _piecewise_cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9)),
}


def _static_content(g: Graph, value: ir.Value) -> np.ndarray | None:
    """Return a small constant tensor, or a quotient or cast of constants, else None."""
    found = g.static(value)
    maker = value.producer()
    if found is not None or maker is None:
        return found
    given = [None if v is None else _static_content(g, v) for v in maker.inputs]
    if any(v is None for v in given):
        return None
    if maker.op_type == "Div":
        return given[0] / given[1]  # type: ignore[operator]
    if maker.op_type == "Mul":
        return given[0] * given[1]  # type: ignore[operator]
    if maker.op_type == "Cast" and value.dtype is not None:
        return given[0].astype(value.dtype.numpy())  # type: ignore[union-attr]
    return None
