"""Kernels that PyTorch's operators are captured with, in the place of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from .ops.pool import max_of_lines
from .torch_internals import DispatchKey, OpOverload, kernel_table

_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
"""Where torch.export looks for what an operator is made of."""


@contextmanager
def with_kernels(added: Mapping[OpOverload, Callable[..., Any]]) -> Iterator[None]:
    """Inside, the operators are made of these."""
    before = {operator: dict(kernel_table(operator).kernels) for operator in added}
    try:
        for operator, kernel in added.items():
            _set_kernels(operator, before[operator] | dict.fromkeys(_KEYS, kernel))
        yield
    finally:
        for operator, kernels in before.items():
            _set_kernels(operator, kernels)


def any_length() -> AbstractContextManager[None]:
    """Inside, `max_pool1d` of tensors without content is what it comes to in two dims: its own kernel fixes lengths."""
    return with_kernels({torch.ops.aten.max_pool1d.default: max_of_lines})


def _set_kernels(operator: OpOverload, kernels: dict[DispatchKey, Callable[..., Any]]) -> None:
    table = kernel_table(operator)
    table.kernels.clear()
    table.kernels.update(kernels)
    table.looked_up.clear()
