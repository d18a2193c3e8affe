"""Kernels that PyTorch's operators are captured with, in the place of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

from .ops.pool import max_of_lines

_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
"""Where torch.export looks for what an operator is made of."""


@contextmanager
def with_kernels(added: Mapping[OpOverload, Callable[..., Any]]) -> Iterator[None]:
    """Inside, the operators are made of these."""
    before = {operator: dict(operator.py_kernels) for operator in added}
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
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()
