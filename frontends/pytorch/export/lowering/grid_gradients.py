"""The gradients of grid_sample by other operators; PyTorch has kernels but no decomposition for them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from convert.errors import Unsupported

from ...rules import torch_op

_LINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2

_CUBIC = torch_op.limit("grid_sampler_2d", "the gradient of bicubic sampling")


def grid_sampler_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool] = (True, True),
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the input [N, C, *lengths] and of the grid [N, *out, dims].

    As in `aten/src/ATen/native/GridSampler.cpp`: each corner around a coordinate is weighted by its proximity; a corner
    outside has weight zero.
    """
    if interpolation_mode not in (_LINEAR, _NEAREST):
        raise Unsupported(_CUBIC)
    lengths = list(input.shape[2:])
    dims, batch, channels = len(lengths), input.shape[0], input.shape[1]
    pairs = [_places(grid[..., dims - 1 - i], n, padding_mode, align_corners) for i, n in enumerate(lengths)]
    count = grad_output[0, 0].numel()
    grad = grad_output.reshape(batch, channels, count)
    flat = input.reshape(batch, channels, -1)
    grad_flat = torch.zeros_like(flat)
    slopes: list[Any] = [torch.zeros_like(place) for place, _ in pairs]
    nearest = interpolation_mode == _NEAREST
    for corner in itertools.product((0,) if nearest else (0, 1), repeat=dims):
        at, inside, near = _corner([place for place, _ in pairs], lengths, corner, nearest)
        at, inside = at.reshape(batch, 1, count), inside.reshape(batch, 1, count)
        weight = _product(near).reshape(batch, 1, count)
        share = torch.where(inside, grad * weight, 0.0)
        grad_flat = grad_flat.scatter_add(2, at.expand(batch, channels, count), share)
        if not nearest:
            read = torch.where(inside, flat.gather(2, at.expand(batch, channels, count)), 0.0)
            seen = (read * grad).sum(1).reshape(grid.shape[:-1])
            for i, end in enumerate(corner):
                others = _product([n for k, n in enumerate(near) if k != i] or [torch.ones_like(seen)])
                slopes[i] = slopes[i] + (seen if end else -seen) * others
    along = [slope * factor for slope, (_, factor) in zip(slopes, pairs, strict=True)]
    return grad_flat.reshape(input.shape), torch.stack(along[::-1], -1)


def _product(factors: Sequence[Tensor]) -> Tensor:
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


def _corner(
    places: Sequence[Tensor], lengths: Sequence[int], corner: Sequence[int], nearest: bool
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return a corner's flat index in the input, whether it is inside, and its weight along each dim."""
    at: Any = 0
    inside: Any = None
    near = []
    for place, length, end in zip(places, lengths, corner, strict=True):
        first = torch.round(place) if nearest else torch.floor(place)
        near.append(torch.ones_like(place) if nearest else place - first if end else 1 - (place - first))
        where = first + end
        within = (where >= 0) & (where < length)
        inside = within if inside is None else inside & within
        at = at * length + torch.where(within, where, 0.0).to(torch.int64)
    return at, inside, near


def _places(x: Tensor, length: int, padding_mode: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Return the positions among `length` elements for -1 … 1, and their derivatives."""
    scale = (length - 1) / 2 if align_corners else length / 2
    place = (x + 1) * scale if align_corners else (x + 1) * scale - 0.5
    slope = torch.ones_like(x) * scale
    if padding_mode == _REFLECTION:
        low, high = (0.0, length - 1.0) if align_corners else (-0.5, length - 0.5)
        place, slope = _reflected(place, slope, low, high)
    if padding_mode in (_BORDER, _REFLECTION):
        slope = torch.where((place <= 0) | (place >= length - 1), 0.0, slope)
        place = torch.minimum(place.clamp(min=0), torch.ones_like(place) * (length - 1))
    return place, slope


def _reflected(place: Tensor, slope: Tensor, low: Any, high: Any) -> tuple[Tensor, Tensor]:
    span = high - low
    gap = (place - low).abs()
    slope = torch.where(place < low, -slope, slope)
    flips = torch.floor(gap / span)
    extra = gap - flips * span
    even = torch.remainder(flips, 2) == 0
    return torch.where(even, extra + low, span - extra + low), torch.where(even, slope, -slope)


DECOMPOSITIONS = {
    torch.ops.aten.grid_sampler_2d_backward.default: grid_sampler_backward,
    torch.ops.aten.grid_sampler_3d_backward.default: grid_sampler_backward,
}
