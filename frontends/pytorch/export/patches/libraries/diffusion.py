"""Lets the upsampling layers of diffusers be captured as one graph for all sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional

_COUNT = "num_upsamplers"


def upsample(layer: Any, hidden_states: torch.Tensor, output_size: Sequence[int] | None = None) -> torch.Tensor:
    """Compute what `Upsample2D.forward` of diffusers does, without its conditions on sizes.

    They choose a memory layout for large batches and images, because PyTorch's kernels for others fail.
    """
    if layer.norm is not None:
        hidden_states = layer.norm(hidden_states.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    if layer.use_conv_transpose:
        return layer.conv(hidden_states)
    if layer.interpolate:
        scale = 2.0 if output_size is None else None
        hidden_states = functional.interpolate(hidden_states, output_size, scale, mode="nearest")
    if layer.use_conv:
        hidden_states = (layer.conv if layer.name == "conv" else layer.Conv2d_0)(hidden_states)
    return hidden_states


class _DividesNothing(int):
    """A number of upsamplings by whose factor no size is divisible."""

    def __rpow__(self, base: Any, modulo: Any = None) -> _DividesNothing:
        return self

    def __rmod__(self, size: Any) -> int:
        return 1


@contextmanager
def sizes_handed_on(module: nn.Module | None) -> Iterator[None]:
    """Let UNets hand the sizes of their skip connections on to their upsamplers for every size of a sample.

    They do so only where a size is no multiple of the factor of all upsamplers; for multiples the results are the same.
    """
    nets = [m for m in module.modules() if isinstance(vars(m).get(_COUNT), int)] if module is not None else []
    before = [(net, vars(net)[_COUNT]) for net in nets]
    for net, count in before:
        vars(net)[_COUNT] = _DividesNothing(count)
    try:
        yield
    finally:
        for net, count in before:
            vars(net)[_COUNT] = count
