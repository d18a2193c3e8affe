"""Resize from or to a dynamic dim: coordinates and weights are computed at run time, axis by axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import KerasTensor, ops

from convert.errors import Unsupported
from convert.semantics.interpolation import HALFWAY, Interpolation

from ..emitter import Emitter
from ..tensors import ones_along, places_below


def resample_dynamic(
    k: Emitter, x: KerasTensor, axis: int, size: Any, scale: float | None, method: Interpolation
) -> KerasTensor:
    """Return `x` resampled along one axis.

    size: the output's length, a number or a tensor; None if it follows from the scale. scale: None if it follows from
    the size. Raises `Unsupported` for antialias, and for coordinates of a region.
    """
    if method.antialias:
        raise Unsupported("Resize of a dim of dynamic size with antialias")
    if method.mode not in ("nearest", "linear", "cubic"):
        raise Unsupported(f"Resize with mode {method.mode!r}")
    kind = "float32" if method.mode == "nearest" else "float64"
    length = ops.sum(ones_along(x, axis, "int64"))
    if size is None:
        assert scale is not None
        size = ops.cast(ops.floor(ops.multiply(ops.cast(length, "float32"), np.float32(scale))), "int64")
    places = np.arange(size) if isinstance(size, int) else places_below(size)
    n, m = (ops.cast(v, kind) for v in (length, size))
    ratio = ops.divide(m, n) if scale is None else np.array(scale, kind)
    where = _coordinates(ops.cast(places, kind), n, m, ratio, method.coordinates)
    if method.mode == "nearest":
        return ops.take(x, _inside(_nearest(where, method.nearest), length), axis=axis)
    return _weighted(x, axis, length, where, method)


def _coordinates(x: Any, n: Any, m: Any, scale: Any, mode: str) -> KerasTensor:
    """Return the input coordinate of each output, by the formulas of `convert.semantics.interpolation`."""
    if mode == "asymmetric":
        return ops.divide(x, scale)
    one = ops.equal(m, 1)
    if mode == "align_corners":
        whole = ops.divide(ops.multiply(x, ops.subtract(n, 1)), ops.maximum(ops.subtract(m, 1), 1))
        return ops.where(one, ops.zeros_like(whole), whole)
    centred = ops.subtract(ops.divide(ops.add(x, 0.5), scale), 0.5)
    if mode == "half_pixel":
        return centred
    if mode == "pytorch_half_pixel":
        return ops.where(one, ops.zeros_like(centred), centred)
    if mode == "half_pixel_symmetric":
        off = ops.multiply(ops.divide(n, 2), ops.subtract(1, ops.divide(m, ops.multiply(scale, n))))
        return ops.add(off, centred)
    raise Unsupported(f"Resize of a dim of dynamic size with coordinate_transformation_mode={mode!r}")


def _nearest(where: KerasTensor, how: str) -> KerasTensor:
    """Return the same as `convert.semantics.interpolation.nearest_indices`."""
    below = ops.floor(where)
    if how == "floor":
        return below
    if how == "ceil":
        return ops.ceil(where)
    beyond_half = ops.subtract(ops.subtract(where, below), 0.5)
    limit = np.float32(HALFWAY if how == "round_prefer_floor" else -HALFWAY)
    up = ops.greater(beyond_half, limit) if how == "round_prefer_floor" else ops.greater_equal(beyond_half, limit)
    return ops.add(below, ops.cast(up, below.dtype))


def _inside(places: KerasTensor, length: KerasTensor) -> KerasTensor:
    return ops.minimum(ops.maximum(ops.cast(places, "int64"), 0), ops.subtract(length, 1))


def _weighted(x: KerasTensor, axis: int, length: KerasTensor, where: KerasTensor, method: Interpolation) -> KerasTensor:
    """Return weighted sums of the neighbours of each coordinate. Neighbours beyond an edge are replaced by the edge, or
    left out.
    """
    reach = 1 if method.mode == "linear" else 2
    base = ops.floor(where)
    places = [ops.add(base, float(tap)) for tap in range(1 - reach, reach + 1)]
    weights = [_kernel(ops.abs(ops.subtract(place, where)), method) for place in places]
    if method.exclude_outside:
        last = ops.cast(ops.subtract(length, 1), "float64")
        inside = [ops.logical_and(ops.greater_equal(p, 0), ops.less_equal(p, last)) for p in places]
        weights = [ops.where(i, w, ops.zeros_like(w)) for i, w in zip(inside, weights, strict=True)]
        total = sum(weights[1:], weights[0])
        weights = [ops.divide(w, total) for w in weights]
    shape = [-1 if i == axis else 1 for i in range(len(x.shape))]
    parts = [
        ops.multiply(ops.take(x, _inside(p, length), axis=axis), ops.reshape(ops.cast(w, x.dtype), shape))
        for p, w in zip(places, weights, strict=True)
    ]
    return sum(parts[1:], parts[0])


def _kernel(distance: KerasTensor, method: Interpolation) -> KerasTensor:
    """Return the weight of a neighbour at this distance: a triangle, or Keys' cubic (Keys, 1981) with parameter `a`."""
    if method.mode == "linear":
        return ops.maximum(ops.subtract(1.0, distance), 0.0)
    a, d = method.cubic, distance
    near = ops.add(ops.multiply(ops.multiply((a + 2) * d - (a + 3), d), d), 1.0)
    far = ops.multiply(ops.add(ops.multiply(ops.multiply(a, d) - 5 * a, d), 8 * a), d) - 4 * a
    return ops.where(ops.less_equal(d, 1), near, ops.where(ops.less(d, 2), far, ops.zeros_like(d)))
