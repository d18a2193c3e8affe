"""Keeps recurrent layers whole during capture, so that the number of steps may be dynamic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from ....torch_internals import is_fake
from ..kernels import KEYS, with_kernels


def infer_rnn_shapes() -> AbstractContextManager[None]:
    """Infer shapes of `lstm`, `gru` and `rnn` from their inputs' shapes alone.

    Otherwise torch.export decomposes the layer for its shapes, step by step, which fixes the number of steps and is
    slow.
    """
    aten = torch.ops.aten
    operators = [packet.input for packet in (aten.lstm, aten.gru, aten.rnn_tanh, aten.rnn_relu)]
    return with_kernels({
        operator: {key: _shape_kernel(kernel) for key, kernel in operator.py_kernels.items() if key in KEYS}
        for operator in operators
    })  # fmt: skip


def _shape_kernel(decomposed: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that returns fake tensors of the right shapes for fake tensors, and decomposes others as
    before.
    """

    def kernel(input: Tensor, hx: Tensor | Sequence[Tensor], params: Sequence[Tensor], has_biases: bool,
               num_layers: int, dropout: float, train: bool, bidirectional: bool,
               batch_first: bool) -> tuple[Tensor, ...]:  # fmt: skip
        if not is_fake(input):
            return decomposed(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        states = [hx] if isinstance(hx, Tensor) else list(hx)
        width = states[0].shape[2] * (2 if bidirectional else 1)
        return input.new_empty((*input.shape[:2], width)), *(torch.empty_like(state) for state in states)

    return kernel
