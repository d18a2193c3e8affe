"""Writes the parts of torchvision's detectors that loop over boxes, or ask whether there are any, as tensors.

How many boxes there are is known when the model runs: a graph cannot skip what follows where there are none, nor go
through them one by one in Python. The functions here give what torchvision's own give, for any number of boxes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


@contextmanager
def detectors_as_tensors() -> Iterator[None]:
    """Inside, torchvision's functions have their replacements, where it is imported."""
    before: list[tuple[Any, str, Any]] = []
    for place, functions in _REPLACED.items():
        module = sys.modules.get(place)
        for name, function in functions.items() if module is not None else ():
            if hasattr(module, name):
                before.append((module, name, getattr(module, name)))
                setattr(module, name, function)
    try:
        yield
    finally:
        for module, name, original in before:
            setattr(module, name, original)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """Non-maximum suppression within each class: boxes [n, 4], scores [n], classes [n] give the places that are kept.

    Boxes of different classes are moved apart by more than the largest coordinate, which no boxes do not have.
    """
    largest = torch.cat((boxes.flatten(), boxes.new_full((1,), float("-inf")))).max()
    offsets = idxs.to(boxes) * (largest + torch.tensor(1).to(boxes))
    return torch.ops.torchvision.nms(boxes + offsets[:, None], scores, iou_threshold)


def paste_masks(masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int = 1) -> Tensor:
    """Masks [n, 1, m, m] at their boxes [n, 4] in pictures [n, 1, height, width] of zeros, scaled bilinearly.

    A picture is a product of matrices: of each of its rows with the rows of the mask, and of columns.
    """
    roi_heads: Any = sys.modules["torchvision.models.detection.roi_heads"]
    masks, scale = roi_heads.expand_masks(masks, padding=padding)
    corners = roi_heads.expand_boxes(boxes, scale).to(dtype=torch.int64)
    height, width = img_shape
    rows = _bilinear_weights(corners[:, 1], corners[:, 3], height, masks.shape[-2], masks.dtype)
    columns = _bilinear_weights(corners[:, 0], corners[:, 2], width, masks.shape[-1], masks.dtype)
    return (rows @ masks[:, 0] @ columns.transpose(1, 2))[:, None]


def _bilinear_weights(low: Tensor, high: Tensor, length: Any, cells: int, dtype: torch.dtype) -> Tensor:
    """What each cell of a mask adds to each pixel: [n, length, cells], zero for pixels outside of low … high.

    As torch.nn.functional.interpolate has it with align_corners=False, from `cells` to high - low + 1 pixels.
    """
    size = (high - low + 1).clamp(min=1)[:, None]
    pixel = torch.arange(length)[None, :] - low[:, None]
    inside = (pixel >= 0) & (pixel < size)
    place = ((pixel.to(dtype) + 0.5) * (cells / size.to(dtype)) - 0.5).clamp(min=0)
    first = place.floor().clamp(max=cells - 1)
    second = (first + 1).clamp(max=cells - 1)
    share = (place - first).clamp(max=1)
    cell = torch.arange(cells).to(dtype)
    weights = (cell == first[:, :, None]) * (1 - share)[:, :, None] + (cell == second[:, :, None]) * share[:, :, None]
    return weights * inside[:, :, None]


_REPLACED: dict[str, dict[str, Any]] = {
    "torchvision.ops.boxes": {"_batched_nms_coordinate_trick": batched_nms, "_batched_nms_vanilla": batched_nms},
    "torchvision.models.detection.roi_heads": {"paste_masks_in_image": paste_masks},
    "torchvision.models.detection.transform": {"paste_masks_in_image": paste_masks},
}
