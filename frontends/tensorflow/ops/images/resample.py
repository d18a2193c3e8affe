"""Resizes that weight several pixels by a kernel: products with a weight matrix per direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.long_double import PI, wide

from ...common import shape_values
from ...common.conv_layout import to_channels_first, to_data_format
from ...common.lazy_reshape import cast, int64
from ...rules import tf_op
from .resample_computed import area_weights, cubic_weights, kernel_weights

_STEPS = 1024
_SIDE, _WEIGHTS = 1 << 16, 1 << 24
"""The largest side of a picture, and the largest matrix of weights, that are computed while the file is read."""
F32 = np.float32


@tf_op("ResizeBicubic")
def resize_bicubic(
    g: Graph, images: ir.Value, size: ir.Value, *, align_corners: bool, half_pixel_centers: bool
) -> ir.Value:
    def weights(given: int, wanted: int) -> np.ndarray:
        return _cubic_weights(given, wanted, _scale(given, wanted, align_corners), half_pixel_centers)

    def computed(given: ir.Value, wanted: ir.Value, direction: int) -> ir.Value:
        return cubic_weights(g, given, wanted, align_corners, half_pixel_centers)

    return _apply_weights(g, images, size, weights, computed)


@tf_op("ResizeArea")
def resize_area(g: Graph, images: ir.Value, size: ir.Value, *, align_corners: bool) -> ir.Value:
    return _apply_weights(
        g,
        images,
        size,
        lambda given, wanted: _area_weights(given, wanted, _scale(given, wanted, align_corners)),
        lambda given, wanted, direction: area_weights(g, given, wanted, align_corners),
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
        return kernel_weights(g, given, wanted, own, shift, kernel_type, antialias)

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


def _cubic_weights(given: int, wanted: int, scale: np.float32, half_pixel: bool) -> np.ndarray:
    """Return four weights from a table of 1024 steps (resize_bicubic_op.cc); half pixels use A = -1/2, others A = -3/4.

    With half pixels, positions outside are dropped and the weights rescaled to 1; otherwise the border is repeated.
    """
    a = -0.5 if half_pixel else -0.75
    t = np.arange(_STEPS + 1) / _STEPS
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a
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
    radius, weigh = _KERNELS[kernel]
    inverse = F32(1) / F32(scale)
    move = F32(-inverse * F32(shift))
    wide = max(inverse, F32(1)) if antialias else F32(1)
    made = np.zeros((wanted, given))
    for i in range(wanted):
        at = F32((F32(i) + F32(0.5)) * inverse + move)
        if at < 0 or at > given:
            continue
        first = max(int(np.ceil(at - F32(radius) * wide - F32(0.5))), 0)
        last = min(int(np.floor(at + F32(radius) * wide - F32(0.5))), given - 1)
        places = np.arange(first, last + 1)
        taps = weigh(np.abs((places + 0.5 - at) / wide))
        made[i, places] = taps / taps.sum() if abs(taps.sum()) > 1e-30 else taps
    return made


def _lanczos_kernel(radius: float) -> Callable[[np.ndarray], np.ndarray]:
    def weigh(x: np.ndarray) -> np.ndarray:
        angle = PI * wide(np.where(x <= 1e-3, 1.0, x))  # long double gives the same bits on every processor
        value = (radius * np.sin(angle) * np.sin(angle / radius) / (angle * angle)).astype(np.float64)
        return np.where(x > radius, 0.0, np.where(x <= 1e-3, 1.0, value))

    return weigh


def _piecewise_cubic(
    inner: Callable[[np.ndarray], np.ndarray], outer: Callable[[np.ndarray], np.ndarray]
) -> Callable[..., Any]:
    return lambda x: np.where(x >= 2, 0.0, np.where(x >= 1, outer(x), inner(x)))


_KERNELS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "lanczos1": (1, _lanczos_kernel(1)),
    "lanczos3": (3, _lanczos_kernel(3)),
    "lanczos5": (5, _lanczos_kernel(5)),
    "gaussian": (1.5, lambda x: np.where(x >= 1.5, 0.0, np.exp(wide(-x * x / 0.5)).astype(np.float64))),
    "box": (1, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    "triangle": (1, lambda x: np.maximum(1 - x, 0.0)),
    "keyscubic": (
        2,
        _piecewise_cubic(lambda x: (1.5 * x - 2.5) * x * x + 1, lambda x: ((-0.5 * x + 2.5) * x - 4) * x + 2),
    ),
    "mitchellcubic": (
        2,
        _piecewise_cubic(
            lambda x: (7 / 6 * x - 2) * x * x + 8 / 9, lambda x: ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
        ),
    ),
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
