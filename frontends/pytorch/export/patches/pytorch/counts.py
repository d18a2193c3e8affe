"""Counts of a known length: the result of `torch.bincount(x, minlength=n)` if no number in x reaches n.

A program that sorts tokens by expert turns such counts into a list, whose length capture must know. A larger number has
no bin, which is an error at run time, not ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


@contextmanager
def fixed_counts() -> Iterator[list[int]]:
    """Give counts with a `minlength` exactly that length, and keep arrays made of tensors as tensors; yield the
    lengths.
    """
    mode = _FixedCounts()
    with mode:
        yield mode.met


class _FixedCounts(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.met: list[int] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.numpy:
            return args[0]
        found = _count(*args, **kwargs) if func in (torch.bincount, Tensor.bincount) else None
        if found is None:
            return func(*args, **kwargs)
        self.met.append(len(found))
        return found


def _count(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor | None:
    if not minlength:
        return None
    share = torch.ones_like(input, dtype=torch.int64) if weights is None else weights
    share = share if share.dtype in (torch.int64, torch.float32) else share.double()
    return share.new_zeros(minlength).scatter_add(0, input.long(), share)
