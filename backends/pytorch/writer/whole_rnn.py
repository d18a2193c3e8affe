"""Keeps recurrent layers whole during capture; torch.export would unroll their steps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from ..kernels import with_kernels


def whole_rnn() -> AbstractContextManager[None]:
    """Capture `torch.lstm`, `gru` and `rnn` as one call with any number of steps inside the context."""
    aten = torch.ops.aten
    return with_kernels({p.input: _shapes for p in (aten.lstm, aten.gru, aten.rnn_tanh, aten.rnn_relu)})


def _shapes(input: Tensor, hx: Tensor | Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int,
            dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """Return tensors of the shapes that a layer returns: [time, batch, directions · hidden], and each state's shape."""
    states = [hx] if isinstance(hx, Tensor) else list(hx)
    width = states[0].shape[2] * (2 if bidirectional else 1)
    return input.new_empty((*input.shape[:2], width)), *(torch.empty_like(s) for s in states)
