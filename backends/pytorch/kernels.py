"""Replacements for the kernels with which PyTorch's operators are captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from .ops.pool import max_of_lines
from .torch_internals import DispatchKey, OpOverload, kernel_table

_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
"""The keys under which torch.export looks up the decomposition of an operator."""


@contextmanager
def with_kernels(added: Mapping[OpOverload, Callable[..., Any]]) -> Iterator[None]:
    """Use these kernels for the operators inside the context."""
    before = {operator: dict(kernel_table(operator).kernels) for operator in added}
    try:
        for operator, kernel in added.items():
            _set_kernels(operator, before[operator] | dict.fromkeys(_KEYS, kernel))
        yield
    finally:
        for operator, kernels in before.items():
            _set_kernels(operator, kernels)


def any_length() -> AbstractContextManager[None]:
    """Capture `max_pool1d` as a two-dimensional pool inside the context, because its own kernel fixes lengths."""
    return with_kernels({torch.ops.aten.max_pool1d.default: max_of_lines})


def _set_kernels(operator: OpOverload, kernels: dict[DispatchKey, Callable[..., Any]]) -> None:
    table = kernel_table(operator)
    table.kernels.clear()
    table.kernels.update(kernels)
    table.looked_up.clear()
