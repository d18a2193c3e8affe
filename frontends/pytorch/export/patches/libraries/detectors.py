"""Rewrites parts of torchvision's detectors that loop over boxes, or ask whether there are any, as tensor operations.

The number of boxes is known at run time only: a graph cannot skip what follows if there are none, nor loop over them in
Python. These functions return what torchvision's own return, for any number of boxes.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from ....torch_internals import check, map_impl


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """Non-maximum suppression within each class: boxes [n, 4], scores [n], classes [n]; returns the kept indices.

    Boxes of different classes are shifted apart by more than the largest coordinate, which is undefined for no boxes.
    """
    largest = torch.cat((boxes.flatten(), boxes.new_full((1,), float("-inf")))).max()
    offsets = idxs.to(boxes) * (largest + torch.tensor(1).to(boxes))
    return torch.ops.torchvision.nms(boxes + offsets[:, None], scores, iou_threshold)


def paste_masks(masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int = 1) -> Tensor:
    """Paste masks [n, 1, m, m] at their boxes [n, 4] into images [n, 1, height, width] of zeros, scaled bilinearly.

    An image is a matrix product: row weights times the mask times column weights.
    """
    roi_heads: Any = sys.modules["torchvision.models.detection.roi_heads"]
    masks, scale = roi_heads.expand_masks(masks, padding=padding)
    corners = roi_heads.expand_boxes(boxes, scale).to(dtype=torch.int64)
    height, width = img_shape
    rows = _bilinear_weights(corners[:, 1], corners[:, 3], height, masks.shape[-2], masks.dtype)
    columns = _bilinear_weights(corners[:, 0], corners[:, 2], width, masks.shape[-1], masks.dtype)
    return (rows @ masks[:, 0] @ columns.transpose(1, 2))[:, None]


def _bilinear_weights(low: Tensor, high: Tensor, length: Any, cells: int, dtype: torch.dtype) -> Tensor:
    """Return the weight of each mask element in each pixel: [n, length, cells], zero for pixels outside low … high.

    As torch.nn.functional.interpolate with align_corners=False, from `cells` to high - low + 1 pixels.
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


def heatmaps_to_keypoints(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """Return positions [n, k, 3] of the largest scores in maps [n, k, h, w] over the boxes [n, 4], and the scores [n,
    k].

    Each map is scaled bicubically to the pixels of its box. This is a product of matrices of one common size, in which
    pixels outside a box have weight zero.
    """
    low, sizes = rois[:, :2], (rois[:, 2:] - rois[:, :2]).clamp(min=1)
    # Add a box of one pixel, because maps over no pixels are rejected.
    pixels = torch.cat((sizes.ceil(), sizes.new_ones(1, 2)))
    maps = torch.cat((maps, maps.new_zeros(1, *maps.shape[1:])))
    lengths = pixels.amax(0).to(torch.int64).tolist()
    for length in lengths:
        check(length >= 1)
    columns, rows = (torch.arange(length, dtype=maps.dtype) for length in lengths)

    def place(scores: Tensor, size: Tensor, columns: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        width, height = size.unbind()
        scaled = _bicubic_weights(height, rows, scores.shape[1]) @ scores
        scaled = scaled @ _bicubic_weights(width, columns, scores.shape[2]).mT
        inside = (rows < height)[:, None] & (columns < width)
        best, at = torch.where(inside, scaled, float("-inf")).flatten(1).max(1)
        return at, best

    at, best = map_impl(place, (maps, pixels), (columns, rows))
    at, best = at[:-1], best[:-1]
    x, y = at % lengths[0], at // lengths[0]
    scale = (sizes / pixels[:-1])[:, None]
    found = (torch.stack((x, y), 2).to(maps.dtype) + 0.5) * scale + low[:, None]
    return torch.cat((found, torch.ones_like(found[..., :1])), 2), best


def _bicubic_weights(size: Tensor, pixel: Tensor, cells: int) -> Tensor:
    """Return the weight of each of `cells` in each pixel of `size`: [pixels, cells].

    As torch.nn.functional.interpolate with align_corners=False: Keys' kernel with -0.75, and repeated edge elements.
    """
    place = (pixel + 0.5) * (cells / size) - 0.5
    first = place.floor()
    part, cell = place - first, torch.arange(cells, dtype=pixel.dtype)
    weights = pixel.new_zeros(())
    for tap in range(-1, 3):
        away = (part - tap).abs()
        near = (1.25 * away - 2.25) * away * away + 1
        far = ((-0.75 * away + 3.75) * away - 6) * away + 3
        at = (first + tap).clamp(0, cells - 1)
        weights = weights + (cell == at[:, None]) * torch.where(away <= 1, near, far)[:, None]
    return weights
