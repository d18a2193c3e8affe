"""The rule for Resize: one gather (nearest) or one matrix of weights (linear, cubic) for each axis that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convert.errors import Unsupported

from ..dtypes import FLOAT, cast, widen
from ..net import Blob, Net
from ..rules import onnx
from ..shapes import last, transpose
from .linear import fully_connected


@dataclass(frozen=True)
class _Sampling:
    """The attributes of a Resize that say where a cell of the output lies, and what it is made of."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool


@onnx("Resize")
def resize(
    net: Net,
    x: Blob,
    roi: Blob | None,
    scales: Blob | None,
    sizes: Blob | None,
    *,
    antialias: int,
    axes: Sequence[int] | None,
    coordinate_transformation_mode: str,
    cubic_coeff_a: float,
    exclude_outside: int,
    extrapolation_value: float,
    keep_aspect_ratio_policy: str,
    mode: str,
    nearest_mode: str,
) -> Blob:
    """`roi` and `extrapolation_value` concern tf_crop_and_resize only, which is refused."""
    if antialias or coordinate_transformation_mode == "tf_crop_and_resize" or keep_aspect_ratio_policy != "stretch":
        raise Unsupported("antialias, tf_crop_and_resize or a keep_aspect_ratio_policy")
    how = _Sampling(mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside))
    over = list(range(net.rank(x))) if axes is None else [net.axis(x, a) for a in axes]
    if scales is not None and net.need(scales, "the scales of Resize").size:
        factors = dict(zip(over, map(float, net.need(scales, "the scales of Resize")), strict=True))
        if (doubled := _repeated(net, x, factors, how)) is not None:
            return doubled
        steps = {axis: (int(np.floor(_size(net, x, axis) * f)), f) for axis, f in factors.items() if f != 1}
    else:
        assert sizes is not None
        wanted = dict(zip(over, map(int, net.need(sizes, "the sizes of Resize")), strict=True))
        steps = {a: (n, n / _size(net, x, a)) for a, n in wanted.items() if n != net.shape(x)[a]}
    y = widen(net, x, FLOAT) if mode != "nearest" else x
    for axis, (size, scale) in steps.items():
        y = _resampled(net, y, axis, size, scale, how)
    return cast(net, y, x.dtype)


def _repeated(net: Net, x: Blob, factors: dict[int, float], how: _Sampling) -> Blob | None:
    """Nearest cells of a dynamic image at whole scales, which Caffe2's ResizeNearest repeats as ONNX does."""
    height, width = factors.get(2, 1.0), factors.get(3, 1.0)
    whole = all(f == int(f) for f in factors.values()) and {a for a, f in factors.items() if f != 1} <= {2, 3}
    same = (how.coordinates, how.nearest) in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"))
    static = all(isinstance(net.shape(x)[a], int) for a, f in factors.items() if f != 1)
    if static or how.mode != "nearest" or not whole or not same or net.rank(x) != 4:
        return None
    y = net.ResizeNearest(widen(net, x, FLOAT), height_scale=height, width_scale=width)
    return cast(net, y, x.dtype)


def _resampled(net: Net, x: Blob, axis: int, size: int, scale: float, how: _Sampling) -> Blob:
    length = _size(net, x, axis)
    where = _coordinates(length, size, scale, how.coordinates)
    shape = [*net.shape(x)[:axis], size, *net.shape(x)[axis + 1 :]]
    if how.mode == "nearest":
        indices = np.clip(_ROUNDINGS[how.nearest](where), 0, length - 1).astype(np.int64)
        return net.facts(net.Gather(x, net.const(indices), axis=axis), shape=shape)
    moved, back = last(net, x, axis)
    y = fully_connected(net, moved, net.const(_weights(where, length, how).astype(np.float32)), None)
    return net.facts(transpose(net, y, back) if back else y, shape=shape)


def _coordinates(length: int, size: int, scale: float, mode: str) -> np.ndarray:
    """Where each of `size` output cells lies among `length` input cells (ONNX, coordinate_transformation_mode)."""
    i = np.arange(size, dtype=np.float64)
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        return i * (length - 1) / (size - 1) if size > 1 else i * 0
    if mode == "pytorch_half_pixel" and size == 1:
        return i * 0
    middle = (i + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return length / 2 * (1 - size / (scale * length)) + middle
    return middle


_ROUNDINGS = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _weights(where: np.ndarray, length: int, how: _Sampling) -> np.ndarray:
    """The matrix [output, input] of linear or cubic interpolation; cells beyond the edge are the edge's."""
    first = np.floor(where).astype(np.int64)
    offsets = (0, 1) if how.mode == "linear" else (-1, 0, 1, 2)
    matrix = np.zeros((len(where), length))
    rows = np.arange(len(where))
    for offset in offsets:
        cell = first + offset
        share = _kernel(np.abs(where - cell), how)
        if how.exclude_outside:
            share = np.where((cell >= 0) & (cell < length), share, 0)
        np.add.at(matrix, (rows, np.clip(cell, 0, length - 1)), share)
    return matrix / matrix.sum(axis=1, keepdims=True) if how.exclude_outside else matrix


def _kernel(t: np.ndarray, how: _Sampling) -> np.ndarray:
    """The share of a cell at distance t: a triangle, or the cubic of R. Keys (1981) with parameter a."""
    if how.mode == "linear":
        return np.maximum(0, 1 - t)
    a = how.cubic
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def _size(net: Net, x: Blob, axis: int) -> int:
    size = net.shape(x)[axis]
    if not isinstance(size, int):
        raise Unsupported("a Resize of an axis whose size is not fixed, but for whole scales of the nearest cells")
    return size
