"""Keeps attention from reading a mask's content during capture, and the lengths of keys and values equal."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from ....torch_internals import DispatchKey, check, kernel_caller
from ..kernels import with_kernels


def declared_causal(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return whether the caller declares a mask causal, without checking its content."""
    return is_causal is True


def equal_lengths_of_keys_and_values() -> AbstractContextManager[None]:
    """Tell capture that there are as many values as keys, which attention multiplies with each other.

    PyTorch infers the result's shape only: 2.13 treats the two lengths as different in four dims with equal feature
    sizes, 2.14 in three dims too.
    """
    operator, key = torch.ops.aten.scaled_dot_product_attention.default, DispatchKey.CompositeImplicitAutograd
    own = operator.py_kernels.get(key)

    def kernel(query: Tensor, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any) -> Any:
        if keys.dim() > 1 and values.dim() > 1:
            check(keys.shape[-2] == values.shape[-2])
        given = query, keys, values, *args
        return own(*given, **kwargs) if own is not None else kernel_caller(operator)(key, *given, **kwargs)

    return with_kernels({operator: {key: kernel}})
