"""The rule for Resize: one gather (nearest) or one weight matrix (linear, cubic) per axis that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.graph.tensors import dtype_name
from convert.semantics.interpolation import (
    WHOLE,
    Interpolation,
    keep_aspect_ratio,
    matrix_at,
    nearest_indices,
    resized_length,
    source_coordinates,
)

from ..blob import Blob, Dim
from ..common.dtypes import FLOAT, cast, widen
from ..common.shapes import broadcast, full_like, move_axis_last, transpose
from ..net import Net
from ..rules import onnx_op
from .linear import fully_connected
from .math import round_half_even


@onnx_op("Resize")
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
    """Resize-19. Sizes computed at run time are taken from the declared shape of the result."""
    how = Interpolation(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias),
        extrapolation_value,
    )  # fmt: skip
    over = list(range(net.rank(x))) if axes is None else [net.axis(x, a) for a in axes]
    given = None if scales is None else net.static(scales)
    if scales is not None and (given is None or given.size):
        factors = dict(zip(over, map(float, net.need(scales, "the scales of Resize").ravel()), strict=True))
        if (doubled := _repeat_nearest(net, x, factors, how)) is not None:
            return doubled
        steps = {a: (resized_length(_axis_size(net, x, a), f), f)
                 for a, f in factors.items() if f != 1 or how.coordinates == "tf_crop_and_resize"}  # fmt: skip
    else:
        steps = _sizes_and_scales(net, x, sizes, over, keep_aspect_ratio_policy, how)
    bounds = _region_bounds(net, roi, over) if how.coordinates == "tf_crop_and_resize" else {}
    y = widen(net, x, FLOAT) if mode != "nearest" or bounds else x
    for axis, (size, scale) in steps.items():
        y = _resample_axis(net, y, axis, size, scale, how, bounds.get(axis))
    if y.dtype != x.dtype and not x.dtype.is_floating_point():
        limits = np.iinfo(x.dtype.numpy())
        if limits.bits > 16:
            raise Unsupported(f"interpolation of {dtype_name(x.dtype)}, which float32 does not hold")
        whole = round_half_even(net, y) if how.antialias else net.Mul(y, net.const(WHOLE))  # Cast truncates it
        y = net.Clip(whole, min=float(limits.min), max=float(limits.max))
    return cast(net, y, x.dtype)


def _sizes_and_scales(
    net: Net, x: Blob, sizes: Blob | None, over: list[int], policy: str, how: Interpolation
) -> dict[int, tuple[int, float]]:
    """Return size and scale of each axis that changes, from `sizes`."""
    content, expected = net.static(sizes), net.results[0].shape
    if content is not None:
        wanted = dict(zip(over, map(int, content.ravel()), strict=True))
    elif (
        policy == "stretch" and expected is not None and all(_is_given_size(expected[a], net.shape(x)[a]) for a in over)
    ):
        wanted = {a: int(str(expected[a])) for a in over if isinstance(expected[a], int)}
    else:
        raise Unsupported("the sizes of Resize are computed at run time; Caffe2 needs them as constants")
    scales = {a: n / _axis_size(net, x, a) for a, n in wanted.items() if policy != "stretch" or n != net.shape(x)[a]}
    if policy != "stretch":
        one, found = keep_aspect_ratio([_axis_size(net, x, a) for a in wanted], list(wanted.values()), policy)
        return {a: (n, one) for a, n in zip(wanted, found, strict=True)}
    if how.coordinates == "tf_crop_and_resize":
        scales = {a: n / _axis_size(net, x, a) for a, n in wanted.items()}
    return {a: (wanted[a], scale) for a, scale in scales.items()}


def _is_given_size(expected: Any, own: Dim) -> bool:
    """Return whether the size of an axis is a number, or the name of a dim that does not change."""
    return isinstance(expected, int) or (own is not None and str(expected) == own)


def _region_bounds(net: Net, roi: Blob | None, over: list[int]) -> dict[int, tuple[float, float]]:
    """Return start and end of the region along each axis, as fractions of the axis."""
    if roi is None:
        raise Unsupported("tf_crop_and_resize without a region")
    content = [float(v) for v in net.need(roi, "the region of Resize").ravel()]
    return {axis: (content[i], content[len(over) + i]) for i, axis in enumerate(over)}


def _repeat_nearest(net: Net, x: Blob, factors: dict[int, float], how: Interpolation) -> Blob | None:
    """Resize a dynamic image by nearest at integer scales, for which Caffe2's ResizeNearest equals ONNX's Resize.
    Return None in other cases.
    """
    height, width = factors.get(2, 1.0), factors.get(3, 1.0)
    whole = all(f == int(f) for f in factors.values()) and {a for a, f in factors.items() if f != 1} <= {2, 3}
    same = (how.coordinates, how.nearest) in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"))
    static = all(isinstance(net.shape(x)[a], int) for a, f in factors.items() if f != 1)
    if static or how.mode != "nearest" or not whole or not same or net.rank(x) != 4:
        return None
    y = net.ResizeNearest(widen(net, x, FLOAT), height_scale=height, width_scale=width)
    return cast(net, y, x.dtype)


def _resample_axis(
    net: Net, x: Blob, axis: int, size: int, scale: float, how: Interpolation, bounds: tuple[float, float] | None
) -> Blob:
    length = _axis_size(net, x, axis)
    where = source_coordinates(length, size, scale, how, bounds)
    shape = [*net.shape(x)[:axis], size, *net.shape(x)[axis + 1 :]]
    if how.mode == "nearest":
        indices = nearest_indices(where, length, how.nearest)
        y = net.facts(net.Gather(x, net.const(indices), axis=axis), shape=shape)
    else:
        moved, back = move_axis_last(net, x, axis)
        y = fully_connected(net, moved, net.const(matrix_at(where, length, scale, how).astype(np.float32)), None)
        y = net.facts(transpose(net, y, back) if back else y, shape=shape)
    beyond = (where < 0) | (where > length - 1)
    if bounds is None or not beyond.any():
        return y
    mask = net.const(beyond.reshape([size if i == axis else 1 for i in range(len(shape))]))
    filling = full_like(net, y, how.extrapolation, y.dtype)
    return net.facts(net.Where(*broadcast(net, mask, filling, y)), y.dtype, shape)


def _axis_size(net: Net, x: Blob, axis: int) -> int:
    size = net.shape(x)[axis]
    if not isinstance(size, int):
        raise Unsupported("a Resize of an axis whose size is not fixed, but for whole scales of the nearest cells")
    return size
