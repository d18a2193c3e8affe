"""Kernels for the compiled operators of torchvision, which has no build for the CPU-only PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

SCHEMA = (
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor"
)


@cache
def give_kernels() -> None:
    """Make torchvision's detectors run: define `nms` and `roi_align` in PyTorch, as they are published."""
    import torchvision.ops.boxes

    regions = importlib.import_module("torchvision.ops.roi_align")  # the package has a function of that name
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define(SCHEMA)
    library.impl("nms", nms, "CPU")
    # Use the module's own description of the operator, without compilation at run time, and with the kernel's edges.
    regions._bilinear_interpolate = _with_edges(regions._bilinear_interpolate)
    library.impl("roi_align", regions._roi_align.__wrapped__, "CPU")
    _kept.append(library)
    torch.library.register_fake("torchvision::nms", _nms_shape, lib=library)
    torch.library.register_fake("torchvision::roi_align", _roi_align_shape, lib=library)
    torchvision.ops.boxes._assert_has_ops = regions._assert_has_ops = _nothing_missing
    regions._has_ops = _there


# Functions instead of lambdas, because torchvision scripts their callers.
def _nothing_missing() -> None:
    return None


def _there() -> bool:
    return True


_kept: list[torch.library.Library] = []


def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Return the boxes to keep, best first: those that overlap no better box by more than the threshold."""
    order = scores.argsort(descending=True, stable=True)
    kept: list[int] = []
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for index in order.tolist():
        if kept:
            others = boxes[kept]
            low, high = torch.maximum(others[:, :2], boxes[index, :2]), torch.minimum(others[:, 2:], boxes[index, 2:])
            shared = (high - low).clamp(min=0).prod(1)
            if (shared / (areas[kept] + areas[index] - shared) > iou_threshold).any():
                continue
        kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


def _with_edges(interpolate: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Read zeros beyond the map as the compiled kernel does (roi_align_common.h); the documentation repeats the edge.

    A region smaller than a cell counts as one cell, so its samples at the border do lie beyond the map.
    """

    def sampled(
        input: torch.Tensor, place: torch.Tensor, y: torch.Tensor, x: torch.Tensor, *masks: Any
    ) -> torch.Tensor:
        height, width = input.shape[-2:]
        rows, columns = (y >= -1) & (y <= height), (x >= -1) & (x <= width)
        inside = rows[:, None, :, None, :, None] & columns[:, None, None, :, None, :]
        return torch.where(inside, interpolate(input, place, y, x, *masks), 0)

    return sampled


def _nms_shape(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def _roi_align_shape(input: torch.Tensor, rois: torch.Tensor, spatial_scale: float, pooled_height: int,
                     pooled_width: int, sampling_ratio: int, aligned: bool) -> torch.Tensor:  # fmt: skip
    return input.new_empty((rois.shape[0], input.shape[1], pooled_height, pooled_width))
