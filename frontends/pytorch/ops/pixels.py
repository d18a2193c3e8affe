"""Operators that move pixels to channels and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..common.sizes import reshape, size
from ..rules import torch_op
from .cat_split import _static_length


@torch_op("pixel_shuffle")
def pixel_shuffle(g, x, upscale_factor):
    return _apply_to_images(g, x, lambda p: g.DepthToSpace(p, blocksize=upscale_factor, mode="CRD"))


@torch_op("pixel_unshuffle")
def pixel_unshuffle(g, x, downscale_factor):
    """SpaceToDepth orders the position in a block before the channel, PyTorch after it: reorder the channels."""

    def lower(p: ir.Value) -> ir.Value:
        channels = _static_length(g, p, 1, "pixel_unshuffle")
        blocks = g.SpaceToDepth(p, blocksize=downscale_factor)
        if channels == 1:
            return blocks
        places = downscale_factor**2
        order = np.arange(places * channels, dtype=np.int64).reshape(places, channels).T.ravel()
        return g.Gather(blocks, order, axis=1)

    return _apply_to_images(g, x, lower)


@torch_op("channel_shuffle")
def channel_shuffle(g, x, groups):
    channels = _static_length(g, x, 1, "channel_shuffle")
    order = np.arange(channels, dtype=np.int64).reshape(groups, channels // groups).T.ravel()
    return g.Gather(x, order, axis=1)


def _apply_to_images(g: Graph, x: ir.Value, lower: Any) -> ir.Value:
    """Apply `lower`, which takes [N, C, H, W], to [..., C, H, W]."""
    rank = g.rank(x)
    if rank == 4:
        return lower(x)
    if rank == 3:
        return g.Squeeze(lower(g.Unsqueeze(x, [0])), [0])
    outer = [size(g, x, d) for d in range(rank - 3)]
    out = lower(reshape(g, x, [-1, *(size(g, x, d) for d in (-3, -2, -1))]))
    return reshape(g, out, [*outer, *(size(g, out, d) for d in (1, 2, 3))])
