"""Keeps recurrent layers whole while the module is captured: torch.export would write their steps out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ..kernels import KEYS, set_kernels


@contextmanager
def whole_rnn() -> Iterator[None]:
    """Inside, tensors without content go through `torch.lstm`, `gru` and `rnn` as one call, of any number of steps."""
    operators = [p.input for p in (torch.ops.aten.lstm, torch.ops.aten.gru, torch.ops.aten.rnn_tanh,
                                   torch.ops.aten.rnn_relu)]  # fmt: skip
    before = [dict(operator.py_kernels) for operator in operators]
    try:
        for operator, kernels in zip(operators, before, strict=True):
            set_kernels(operator, kernels | dict.fromkeys(KEYS, _shapes))
        yield
    finally:
        for operator, kernels in zip(operators, before, strict=True):
            set_kernels(operator, kernels)


def _shapes(input: Tensor, hx: Tensor | Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int,
            dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """Tensors of the shapes that a layer gives: [time, batch, directions · hidden], and each state as it was."""
    states = [hx] if isinstance(hx, Tensor) else list(hx)
    width = states[0].shape[2] * (2 if bidirectional else 1)
    return input.new_empty((*input.shape[:2], width)), *(torch.empty_like(s) for s in states)
