"""Sampling at coordinates that are computed at run time, and bounding boxes."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F

from convert.errors import Unsupported

from ..rules import host, onnx_op
from ..torch_internals import check

_ALPHA = -0.75


@onnx_op("GridSample")
def grid_sample(t, x, grid, *, align_corners, mode, padding_mode):
    kind, rank = x.dtype, x.dim() - 2
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    own = rank == 2 or (rank == 3 and name != "bicubic")
    # Nearest is left out: PyTorch computes and rounds its coordinates in another order.
    if own and name != "nearest" and kind.is_floating_point and grid.dtype == kind:
        return F.grid_sample(x, grid, name, padding_mode, bool(align_corners))
    x = x if kind.is_floating_point else x.to(torch.float64)
    real = torch.float64 if grid.dtype == torch.float64 else torch.float32
    sizes, places, weights = list(x.shape[2:]), [], []
    for axis, n in enumerate(sizes):
        where = grid[..., rank - 1 - axis].to(real)
        where = (where + 1) / 2 * (n - 1) if align_corners else ((where + 1) * n - 1) / 2
        low, high = (0.0, n - 1) if align_corners else (-0.5, n - 0.5)
        where = torch.round(where) if name == "nearest" else where
        if padding_mode == "border" and name != "bicubic":
            where = torch.clamp(where, 0.0, n - 1)
        elif padding_mode == "reflection":
            where = _reflected(where, low, high)
        near, factors = _neighbors(where, name)
        around = [_inside(p, f, n, low, high, padding_mode) for p, f in zip(near, factors, strict=True)]
        places.append([p for p, _ in around])
        weights.append([f for _, f in around])
    batch, channels = x.shape[:2]
    flat = x.reshape(batch, channels, -1)
    total: Any = None
    for choice in itertools.product(*(range(len(p)) for p in places)):
        index: Any = None
        weight: Any = None
        for axis, k in enumerate(choice):
            index = places[axis][k] if index is None else index * sizes[axis] + places[axis][k]
            weight = weights[axis][k] if weight is None else weight * weights[axis][k]
        spread = index.reshape(batch, 1, -1).expand([batch, channels, index.reshape(batch, -1).shape[1]])
        part = torch.gather(flat, 2, spread).reshape([batch, channels, *index.shape[1:]]) * weight[:, None].to(x.dtype)
        total = part if total is None else total + part
    return total.to(kind)


def _reflected(where: Any, low: Any, high: Any) -> Any:
    """Reflect coordinates at the borders until they lie between them."""
    span = high - low
    distance = torch.abs(where - low)
    turns = torch.floor(distance / span) if not (isinstance(span, (int, float)) and span == 0) else distance * 0
    rest = distance - turns * span
    return torch.where(torch.remainder(turns, 2) == 0, low + rest, high - rest)


def _neighbors(where: Any, mode: Any) -> Any:
    """Return the elements around a coordinate and their weights along one axis."""
    if mode == "nearest":
        return [where], [torch.ones_like(where)]
    base = torch.floor(where)
    d = where - base
    if mode == "bilinear":
        return [base, base + 1], [1 - d, d]
    if mode != "bicubic":
        raise Unsupported(f"GridSample with mode {mode!r}")

    def near(v: Any) -> Any:
        return ((_ALPHA + 2) * v - (_ALPHA + 3)) * v * v + 1

    def far(v: Any) -> Any:
        return ((_ALPHA * v - 5 * _ALPHA) * v + 8 * _ALPHA) * v - 4 * _ALPHA

    return [base - 1, base, base + 1, base + 2], [far(d + 1), near(d), near(1 - d), far(2 - d)]


def _inside(place: Any, weight: Any, size: Any, low: Any, high: Any, padding: Any) -> Any:
    """Return an element's index clamped to the input, and its weight, which is zero in the padding."""
    if padding == "reflection":
        place = _reflected(place, low, high)
    elif padding == "zeros":
        within = (place >= 0) & (place <= size - 1)
        weight = torch.where(within, weight, torch.zeros_like(weight))
    last = torch.scalar_tensor(size - 1, dtype=torch.int64)
    return torch.minimum(torch.clamp(place, min=0).to(torch.int64), last), weight


@onnx_op("AffineGrid")
@host("size")
def affine_grid(t, theta, size, *, align_corners):
    rank = theta.shape[1]
    grid: Any = theta[:, :, rank].reshape([theta.shape[0], *[1] * rank, rank])
    for axis, n in enumerate(t.ints(size)[2:]):
        if not isinstance(n, int):
            check(n >= 1)
        place = torch.arange(n).to(theta.dtype)
        last = torch.clamp(torch.scalar_tensor(n - 1, dtype=theta.dtype), min=1)
        where = place * 2 / last - 1 if align_corners else (place * 2 + 1) / n - 1
        # Coordinates are in the order x, y, z: from the last axis to the first.
        column = where.reshape([1, *(-1 if k == axis else 1 for k in range(rank)), 1])
        grid = grid + column * theta[:, :, rank - 1 - axis].reshape([theta.shape[0], *[1] * rank, rank])
    return grid


@onnx_op("NonMaxSuppression")
def non_max_suppression(t, boxes, scores, most=None, iou_threshold=None, score_threshold=None, *, center_point_box):
    batch = scores.shape[0]
    if center_point_box:
        centre, size = boxes[..., :2], boxes[..., 2:]
        low, high = centre - size / 2, centre + size / 2
    else:
        low = torch.minimum(boxes[..., :2], boxes[..., 2:])
        high = torch.maximum(boxes[..., :2], boxes[..., 2:])
    limit = torch.zeros((), dtype=torch.int64) if most is None else most.reshape(()).to(torch.int64)
    bound = torch.zeros(()) if iou_threshold is None else iou_threshold.reshape(())
    area = torch.prod(high - low, -1)
    overlap = torch.prod(
        torch.clamp(
            torch.minimum(high[:, :, None], high[:, None]) - torch.maximum(low[:, :, None], low[:, None]), min=0
        ),
        -1,
    )
    whole = area[:, :, None] + area[:, None] - overlap
    alike = (
        torch.where(whole > 0, overlap / torch.where(whole > 0, whole, torch.ones_like(whole)), torch.zeros_like(whole))
        > bound
    )
    ranked, order = torch.sort(scores, dim=-1, descending=True, stable=True)
    allowed = torch.ones_like(ranked, dtype=torch.bool)
    if score_threshold is not None:
        allowed = ranked > score_threshold.reshape(())
    images = torch.arange(batch)[:, None, None, None]
    near = alike[images, order[:, :, :, None], order[:, :, None, :]]

    def more(i: Any, kept: Any, allowed: Any, near: Any, limit: Any) -> Any:
        return i < kept.shape[2]

    def step(i: Any, kept: Any, allowed: Any, near: Any, limit: Any) -> Any:
        row = torch.index_select(near, 2, i.reshape(1))[:, :, 0]
        own = torch.index_select(allowed, 2, i.reshape(1))[:, :, 0]
        free = own & torch.logical_not((row & kept).any(-1)) & (kept.to(torch.int64).sum(-1) < limit)
        here = (torch.arange(kept.shape[2]) == i)[None, None]
        return i + 1, kept | (here & free[..., None])

    start = (torch.zeros((), dtype=torch.int64), torch.zeros_like(allowed))
    _, kept = torch.ops.higher_order.while_loop(more, step, start, (allowed.clone(), near, limit.clone()))
    rows = torch.nonzero(kept)
    chosen = order[rows[:, 0], rows[:, 1], rows[:, 2]]
    return torch.stack([rows[:, 0], rows[:, 1], chosen], 1)


@onnx_op("RoiAlign")
def roi_align(
    t, x, rois, batch_indices, *, coordinate_transformation_mode, mode, output_height, output_width, sampling_ratio,
    spatial_scale,
):  # fmt: skip
    half = coordinate_transformation_mode == "half_pixel"
    rois = rois.to(torch.float32) * spatial_scale - (0.5 if half else 0.0)
    height, width = x.shape[2:]
    rows = _samples(rois[:, 1], rois[:, 3], output_height, height, sampling_ratio, half)
    columns = _samples(rois[:, 0], rois[:, 2], output_width, width, sampling_ratio, half)
    images = torch.index_select(x, 0, batch_indices.to(torch.int64))
    if mode == "avg":
        down, across = _averages(rows, height), _averages(columns, width)
        y = torch.einsum("nph,nchw->ncpw", down.to(x.dtype), images)
        return torch.einsum("nqw,ncpw->ncpq", across.to(x.dtype), y)
    if mode != "max":
        raise Unsupported(f"RoiAlign with mode {mode!r}")
    return _largest(images, rows, columns)


def _samples(start: Any, end: Any, bins: Any, size: Any, ratio: Any, half: Any) -> Any:
    """Return the neighbours of the samples along one axis, their weights, and a mask: each [rois, bins, samples]."""
    extent = end - start
    extent = extent if half else torch.clamp(extent, min=1.0)
    each = extent / bins
    own = torch.full_like(start, ratio).to(torch.int64) if ratio > 0 else torch.ceil(each).to(torch.int64)
    most = ratio
    if ratio <= 0:
        most = torch.clamp(torch.amax(own), min=1).item()
        check(most >= 1)
    number = torch.arange(most)
    counted = (number[None] < own[:, None])[:, None, :].expand([start.shape[0], bins, most])
    fraction = (number.to(torch.float32)[None] + 0.5) / torch.clamp(own, min=1).to(torch.float32)[:, None]
    place = torch.arange(bins).to(torch.float32)[None, :, None] + fraction[:, None, :]
    place = start[:, None, None] + place * each[:, None, None]
    last = size - 1
    inside = (place >= -1.0) & (place <= last + 1)
    place = torch.clamp(place, 0.0, last)
    low = torch.floor(place)
    upper = place - low
    zero = torch.zeros_like(upper)
    weights = [torch.where(inside & counted, w, zero) for w in (1 - upper, upper)]
    low = low.to(torch.int64)
    return [low, torch.clamp(low + 1, max=last)], weights, counted


def _averages(sampled: Any, size: Any) -> Any:
    """Return the weight of each input element in each bin along one axis: [rois, bins, size]."""
    places, weights, counted = sampled
    total = counted.to(torch.float32).sum(-1, True)
    marks = torch.arange(size)
    share = sum((p[..., None] == marks).to(torch.float32) * w[..., None] for p, w in zip(places, weights, strict=True))
    return share.sum(2) / torch.clamp(total, min=1.0)


def _largest(images: Any, rows: Any, columns: Any) -> Any:
    """Return the maximum over all weighted neighbours of a bin's samples, as ONNX's reference and onnxruntime do."""
    best, counted = None, rows[2][:, :, None, :, None] & columns[2][:, None, :, None, :]
    n, channels, _, width = images.shape
    flat = images.reshape(n, channels, -1)
    lowest = torch.full((), torch.finfo(images.dtype).min, dtype=images.dtype)
    pairs = itertools.product(zip(rows[0], rows[1], strict=True), zip(columns[0], columns[1], strict=True))
    for (py, wy), (px, wx) in pairs:
        index = py[:, :, None, :, None] * width + px[:, None, :, None, :]
        spread = index.reshape(n, 1, -1)
        value = torch.gather(flat, 2, spread.expand([n, channels, spread.shape[2]])).reshape(
            [n, channels, *index.shape[1:]]
        )
        weight = (wy[:, :, None, :, None] * wx[:, None, :, None, :]).to(value.dtype)
        value = torch.where(counted[:, None], value * weight[:, None], lowest)
        value = torch.amax(value, [4, 5])
        best = value if best is None else torch.maximum(best, value)
    return best


@onnx_op("MaxRoiPool")
def max_roi_pool(t, x, rois, *, pooled_shape, spatial_scale):
    height, width = x.shape[2:]
    # Rows of `rois` are batch index, x1, y1, x2, y2; ties are rounded away from zero.
    scaled = rois[:, 1:] * spatial_scale
    corners = (torch.sign(scaled) * torch.floor(torch.abs(scaled) + 0.5)).to(torch.int64)
    down = _bins(corners[:, 1], corners[:, 3], pooled_shape[0], height)
    across = _bins(corners[:, 0], corners[:, 2], pooled_shape[1], width)
    lowest = torch.full((), torch.finfo(x.dtype).min, dtype=x.dtype)
    images = torch.index_select(x, 0, rois[:, 0].to(torch.int64))
    y = torch.amax(torch.where(across[:, None, None], images[:, :, :, None], lowest), -1)
    y = torch.amax(torch.where(down[:, None, :, :, None], y[:, :, None], lowest), 3)
    filled = down.any(2)[:, :, None] & across.any(2)[:, None]
    return torch.where(filled[:, None], y, torch.zeros_like(y))


def _bins(start: Any, end: Any, bins: Any, size: Any) -> Any:
    """Return which elements along one axis lie in each bin of each region: booleans [regions, bins, size]."""
    extent = torch.clamp(end - start + 1, min=1).to(torch.float32) / bins
    number = torch.arange(bins).to(torch.float32)[None]
    first = start[:, None] + torch.floor(number * extent[:, None]).to(torch.int64)
    after = start[:, None] + torch.ceil((number + 1) * extent[:, None]).to(torch.int64)
    place = torch.arange(size)[None, None]
    return (place >= first[..., None]) & (place < after[..., None])
