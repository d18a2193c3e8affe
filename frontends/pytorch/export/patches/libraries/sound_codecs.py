"""Lets transformers' audio codecs (EnCodec, Mimi) pad by numbers during capture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ....torch_internals import own_buffers

_METHOD = "_get_extra_padding_for_conv1d"
_NEEDED = ("kernel_size", "stride", "padding_total")


@contextmanager
def pads_as_numbers(module: nn.Module | None) -> Iterator[None]:
    """Give convolutions that store their sizes as one-element integer tensors Python numbers instead.

    Their padding is arithmetic on these and on a length, and forward decides on it; with tensors, that would depend on
    data.
    """
    layers = [m for m in module.modules() if _is_padded(m)] if module is not None else []
    before = [(m, dict(own_buffers(m)), dict(vars(m))) for m in layers]
    try:
        for m in layers:
            for name, value in [*own_buffers(m).items(), *vars(m).items()]:
                if _is_number(value):
                    own_buffers(m).pop(name, None)
                    vars(m)[name] = int(value)
            vars(m)[_METHOD] = partial(extra_padding, m)
        yield
    finally:
        for m, buffers, attributes in before:
            vars(m).clear()
            vars(m).update(attributes)
            own_buffers(m).clear()
            own_buffers(m).update(buffers)


def extra_padding(layer: Any, hidden_states: Tensor) -> int:
    """Return how many elements the last window of a convolution lacks after those of `hidden_states`."""
    length = hidden_states.shape[-1]
    steps = -((layer.kernel_size - length - layer.padding_total) // layer.stride)
    return steps * layer.stride + layer.kernel_size - layer.padding_total - length


def _is_padded(module: nn.Module) -> bool:
    return hasattr(type(module), _METHOD) and all(_is_number(own_buffers(module).get(name)) for name in _NEEDED)


def _is_number(value: Any) -> bool:
    """Return whether a value is an integer in a tensor, with content: transformers loads Mimi's padding_left, which is
    no buffer, without.
    """
    return isinstance(value, Tensor) and not value.is_meta and value.dim() == 0 and value.dtype == torch.int64
