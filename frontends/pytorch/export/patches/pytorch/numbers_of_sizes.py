"""Constructors that create a tensor of Python numbers, rewritten so that they keep symbolic sizes among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ....torch_internals import tensor_with_sizes as _tensor


def new_tensor(input: Tensor, data: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    if holds_sizes(data):
        return _tensor(data, dtype=dtype or input.dtype, device=device or input.device)
    return input.new_tensor(data, dtype=dtype, device=device, **options)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    if holds_sizes(data):
        return _tensor(data, dtype=dtype, device=device)
    return torch.as_tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    if holds_sizes(obj):
        return _tensor(obj, dtype=dtype, device=device)
    return torch.asarray(obj, dtype=dtype, device=device, **options)


def holds_sizes(data: Any) -> bool:
    """Return whether nested lists of numbers include one that is computed from sizes."""
    if isinstance(data, (list, tuple)):
        return any(map(holds_sizes, data))
    return isinstance(data, (torch.SymInt, torch.SymFloat, torch.SymBool))


REPLACED: dict[Any, Callable[..., Any]] = {
    Tensor.new_tensor: new_tensor,
    torch.as_tensor: as_tensor,
    torch.asarray: asarray,
}
