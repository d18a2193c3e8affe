"""Keeps recurrent layers whole while a program is captured, so that the number of steps may be dynamic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._subclasses.fake_tensor import is_fake

# Where torch.export looks for the decomposition that it infers shapes with.
_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)


@contextmanager
def infer_rnn_shapes() -> Iterator[None]:
    """Inside, shapes of `lstm`, `gru` and `rnn` are inferred from their inputs' shapes alone.

    Otherwise torch.export decomposes the layer only for its shapes, a step at a time: that fixes the number of steps,
    and takes long. `torch.export._patches` exchanges the same kernels, for loops.
    """
    operators = (torch.ops.aten.lstm, torch.ops.aten.gru, torch.ops.aten.rnn_tanh, torch.ops.aten.rnn_relu)
    before = {packet.input: dict(packet.input.py_kernels) for packet in operators}
    try:
        for operator, kernels in before.items():
            set_kernels(operator, kernels | {key: _shape_kernel(kernels[key]) for key in _KEYS if key in kernels})
        yield
    finally:
        for operator, kernels in before.items():
            set_kernels(operator, kernels)


def set_kernels(operator: Any, kernels: dict[Any, Callable[..., Any]]) -> None:
    """Give an operator other Python kernels, by dispatch key."""
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()


def _shape_kernel(decomposed: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that gives tensors of the right shapes for tensors without content, and decomposes others as before."""

    def kernel(input: Tensor, hx: Tensor | Sequence[Tensor], params: Sequence[Tensor], has_biases: bool,
               num_layers: int, dropout: float, train: bool, bidirectional: bool,
               batch_first: bool) -> tuple[Tensor, ...]:  # fmt: skip
        if not is_fake(input):
            return decomposed(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        states = [hx] if isinstance(hx, Tensor) else list(hx)
        width = states[0].shape[2] * (2 if bidirectional else 1)
        return input.new_empty((*input.shape[:2], width)), *(torch.empty_like(state) for state in states)

    return kernel
