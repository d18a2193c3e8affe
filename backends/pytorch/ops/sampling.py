"""Sampling at coordinates that are computed at run time, and bounding boxes."""

from __future__ import annotations

import itertools
from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F

from convert.errors import Unsupported
from convert.graph.values import known_dims

from ..rules import onnx_op
from ..torch_internals import check


def _is_own(node: ir.Node) -> bool:
    """Return whether PyTorch's function computes the node.

    Nearest is left out: PyTorch computes and rounds its coordinates in another order.
    """
    x, grid = node.inputs
    assert x is not None
    assert grid is not None
    dims, mode = known_dims(x), node.attributes.get_string("mode", "linear").removeprefix("bi")
    images = dims is None or len(dims) == 4 or (len(dims) == 5 and mode == "linear")
    return images and mode != "nearest" and x.dtype == grid.dtype


@onnx_op("GridSample", when=_is_own)
def grid_sample(t, x, grid, *, align_corners, mode, padding_mode):
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, name, padding_mode, bool(align_corners))


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
