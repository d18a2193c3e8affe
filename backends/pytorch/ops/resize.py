"""Resize: `interpolate` if it computes the same, else a weighted sum of neighbours along each axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from convert.errors import Unsupported
from convert.semantics.interpolation import HALFWAY, WHOLE, Interpolation, keep_aspect_ratio, resized_length

from ..rules import host, onnx_op
from ..torch_internals import check

_MODES = {("linear", 1): "linear", ("linear", 2): "bilinear", ("linear", 3): "trilinear", ("cubic", 2): "bicubic"}


@onnx_op("Resize")
@host("roi", "scales", "sizes")
def resize(
    t, x, roi, scales, sizes, *, antialias, axes, coordinate_transformation_mode, cubic_coeff_a, exclude_outside,
    extrapolation_value, keep_aspect_ratio_policy, mode, nearest_mode,
):  # fmt: skip
    how = Interpolation(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias),
        extrapolation_value,
    )  # fmt: skip
    axes = [a % x.dim() for a in axes] if axes is not None else list(range(x.dim()))
    dims = [x.shape[a] for a in axes]
    factors, targets = _scales_and_sizes(t, dims, scales, sizes, keep_aspect_ratio_policy)
    dtype = x.dtype
    x = x if dtype.is_floating_point or mode == "nearest" else x.to(torch.float32)
    y = _by_interpolate(x, axes, dims, factors, targets, how)
    if y is None:
        y = _by_axes(t, x, axes, dims, factors, targets, roi, how)
    if y.dtype != dtype and not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        y = torch.clamp(torch.round(y) if antialias else y * WHOLE, limits.min, limits.max)
    return y.to(dtype)


def _is_number(*values: Any) -> Any:
    return all(isinstance(v, (int, float)) for v in values)


def _scales_and_sizes(t: Any, dims: Any, scales: Any, sizes: Any, policy: Any) -> Any:
    """Return the scale and the new size of each axis: numbers, symbols, or scalar tensors for scales."""
    if sizes is not None:
        wanted = t.ints(sizes)
        for n in wanted:
            if not isinstance(n, int):
                check(n >= 1)
        if policy == "stretch":
            return [_ratio(w, n) for w, n in zip(wanted, dims, strict=True)], wanted
        if _is_number(*wanted, *dims):
            scale, found = keep_aspect_ratio(dims, wanted, policy)
            return [scale] * len(dims), found
        ratios = torch.stack([_tensor(_ratio(w, n)).to(torch.float32) for w, n in zip(wanted, dims, strict=True)])
        pick = torch.amin if policy == "not_larger" else torch.amax
        shared = pick(ratios)
        return [shared] * len(dims), [_whole(torch.floor(shared * _tensor(n) + 0.5)) for n in dims]
    known = t.static(scales)
    if known is None:
        factors = [scales[i] for i in range(len(dims))]
        return factors, [_whole(torch.floor(_tensor(n, torch.float32) * f)) for n, f in zip(dims, factors, strict=True)]
    factors = [float(f) for f in known.ravel()]
    return factors, [_target(n, f) for n, f in zip(dims, factors, strict=True)]


def _target(n: Any, f: Any) -> Any:
    if isinstance(n, int):
        return resized_length(n, f)
    if f == int(f):
        return n * int(f)
    if 1 / f == int(1 / f):
        return n // int(1 / f)
    return _whole(torch.floor(_tensor(n, torch.float32) * np.float32(f).item()))


def _whole(x: Any) -> Any:
    n = x.to(torch.int64).item()
    check(n >= 1)
    return n


def _ratio(target: Any, size: Any) -> Any:
    if _is_number(target, size):
        return target / size
    return _tensor(target, torch.float64) / _tensor(size, torch.float64)


def _tensor(v: Any, kind: Any = torch.float64) -> Any:
    return v.to(kind) if isinstance(v, torch.Tensor) else torch.scalar_tensor(v, dtype=kind)


def _by_interpolate(x: Any, axes: Any, dims: Any, factors: Any, targets: Any, how: Any) -> Any:
    """Return the result of PyTorch's own function; None if that computes something else."""
    spatial = x.dim() - 2
    if spatial not in (1, 2, 3) or how.exclude_outside or how.antialias:
        return None
    found = dict(zip(axes, zip(dims, factors, targets, strict=True), strict=True))
    sizes = []
    for axis in range(x.dim()):
        n, f, m = found.get(axis, (x.shape[axis], 1.0, x.shape[axis]))
        if axis < 2:
            if not (isinstance(f, float) and f == 1):
                return None
            continue
        if _is_number(n, m) and isinstance(f, float):
            if abs(m / n - f) > 1e-7 * f or (how.coordinates == "pytorch_half_pixel" and m == 1):
                return None
        elif not (isinstance(f, float) and f == int(f) and f >= 1):
            return None
        sizes.append(m)
        if how.mode == "nearest" and not (_is_number(f) and f == int(f)):
            return None
    if how.mode == "nearest":
        # With integer factors all of these repeat each element.
        floor = how.coordinates == "asymmetric" and how.nearest == "floor"
        middle = how.coordinates in ("half_pixel", "pytorch_half_pixel") and how.nearest.startswith("round")
        return F.interpolate(x, sizes, mode="nearest") if floor or middle else None
    mode = _MODES.get((how.mode, spatial))
    if mode is None or (how.mode == "cubic" and how.cubic != -0.75):
        return None
    if how.coordinates in ("half_pixel", "pytorch_half_pixel"):
        return F.interpolate(x, sizes, mode=mode, align_corners=False)
    return F.interpolate(x, sizes, mode=mode, align_corners=True) if how.coordinates == "align_corners" else None


def _by_axes(t: Any, x: Any, axes: Any, dims: Any, factors: Any, targets: Any, roi: Any, how: Any) -> Any:
    crop = how.coordinates == "tf_crop_and_resize"
    outside = []
    for i, axis in enumerate(axes):
        if not crop and _is_number(factors[i]) and factors[i] == 1:
            continue
        region = None
        if crop:
            corners = t.tensor(roi).to(torch.float64)
            region = corners[i], corners[i + len(axes)]
        where = _coordinates(dims[i], targets[i], factors[i], how, region)
        x = _resampled(x, axis, dims[i], where, factors[i], how)
        if crop:
            beyond = (where < 0) | (where > _tensor(dims[i], where.dtype) - 1)
            outside.append((axis, beyond))
    for axis, beyond in outside:
        mark = beyond.reshape([-1 if i == axis else 1 for i in range(x.dim())])
        x = torch.where(mark, torch.full((), how.extrapolation, dtype=x.dtype), x)
    return x


def _coordinates(length: Any, size: Any, scale: Any, how: Any, region: Any) -> Any:
    """Return the input coordinate of each output, by the formulas of `convert.semantics.interpolation`."""
    kind = torch.float32 if how.mode == "nearest" else torch.float64
    x = torch.arange(size).to(kind)
    n, m, s = (_tensor(v, kind) for v in (length, size, scale))
    mode, one = how.coordinates, m == 1
    zero = torch.zeros_like(x)
    if mode == "half_pixel":
        return (x + 0.5) / s - 0.5
    if mode == "tf_half_pixel_for_nn":  # a mode of opset 11
        return (x + 0.5) / s
    if mode == "pytorch_half_pixel":
        return torch.where(one, zero, (x + 0.5) / s - 0.5)
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - m / (s * n)) + (x + 0.5) / s - 0.5
    if mode == "align_corners":
        return torch.where(one, zero, x * (n - 1) / torch.clamp(m - 1, min=1))
    if mode == "asymmetric":
        return x / s
    if mode == "tf_crop_and_resize" and region is not None:
        start, end = (v.to(kind) for v in region)
        inner = start * (n - 1) + x * (end - start) * (n - 1) / torch.clamp(m - 1, min=1)
        return torch.where(one, zero + 0.5 * (start + end) * (n - 1), inner)
    raise Unsupported(f"Resize with coordinate_transformation_mode={mode!r}")


def _resampled(x: Any, axis: Any, length: Any, where: Any, scale: Any, how: Any) -> Any:
    last = torch.scalar_tensor(length - 1, dtype=torch.int64)
    if how.mode == "nearest":
        rounded = _nearest(where, how.nearest)
        return torch.index_select(x, axis, torch.minimum(torch.clamp(rounded, min=0).to(torch.int64), last))
    stretch: Any = 1.0
    if how.antialias:
        stretch = max(1.0, 1 / scale) if _is_number(scale) else torch.clamp(1 / _tensor(scale), min=1.0)
    taps = 1 if how.mode == "linear" else 2
    if _is_number(stretch):
        reach: Any = int(np.ceil(taps * stretch))
    else:
        reach = torch.ceil(taps * stretch).to(torch.int64).item()
        check(reach >= 1)
    steps = torch.arange(2 * reach) + (1 - reach)
    places = torch.floor(where).to(torch.int64)[:, None] + steps[None]
    weights = _kernel((places - where[:, None]) / stretch, how)
    if how.exclude_outside:
        weights = torch.where((places < 0) | (places > last), torch.zeros_like(weights), weights)
    if how.exclude_outside or how.antialias:
        weights = weights / torch.sum(weights, 1, True)
    places = torch.minimum(torch.clamp(places, min=0), last)
    shape = list(x.shape)
    parts = torch.index_select(x, axis, places.reshape(-1))
    parts = parts.reshape([*shape[:axis], places.shape[0], places.shape[1], *shape[axis + 1 :]])
    spread = weights.to(x.dtype).reshape([*[1] * axis, places.shape[0], places.shape[1], *[1] * (x.dim() - axis - 1)])
    return torch.sum(parts * spread, axis + 1)


def _nearest(where: Any, how: str) -> Any:
    """Return the same as `convert.semantics.interpolation.nearest_indices`."""
    below = torch.floor(where)
    beyond_half = where - below - 0.5
    if how == "floor":
        return below
    if how == "ceil":
        return torch.ceil(where)
    return below + (beyond_half > HALFWAY if how == "round_prefer_floor" else beyond_half >= -HALFWAY)


def _kernel(distance: Any, how: Any) -> Any:
    d = torch.abs(distance)
    zero = torch.zeros_like(d)
    if how.mode == "linear":
        return torch.maximum(1 - d, zero)
    a = how.cubic
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return torch.where(d <= 1, near, torch.where(d < 2, far, zero))
