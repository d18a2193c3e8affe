"""Counts of a known length: what `torch.bincount(x, minlength=n)` gives where no number in x reaches n.

A program that sorts tokens by their expert makes a list of such counts, and a list has a length while it is captured.
A larger number has no place to be counted at, which is an error when the graph runs, and is not left out.
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
    """Inside, counts with a `minlength` are that long, and arrays made of tensors are tensors; lengths met."""
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
