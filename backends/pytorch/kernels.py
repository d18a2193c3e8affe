"""Kernels that PyTorch's operators are captured with, in the place of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

from .ops.pool import max_of_lines

KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
"""Where torch.export looks for what an operator is made of."""


@contextmanager
def any_length() -> Iterator[None]:
    """Inside, `max_pool1d` of tensors without content is what it comes to in two dims: its own kernel fixes lengths."""
    operator = torch.ops.aten.max_pool1d.default
    kernels = dict(operator.py_kernels)
    set_kernels(operator, kernels | dict.fromkeys(KEYS, max_of_lines))
    try:
        yield
    finally:
        set_kernels(operator, kernels)


def set_kernels(operator: OpOverload, kernels: dict[DispatchKey, Callable[..., Any]]) -> None:
    """Let an operator be made of these, and of nothing else."""
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()
