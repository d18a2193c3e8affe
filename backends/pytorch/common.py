"""Helpers that rules of several topics share."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from .dtypes import FLOAT8, SCARCE
from .torch_internals import LOGGERS


def wide(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor in a dtype that PyTorch computes with, if it can only store the tensor's dtype."""
    if x.dtype in SCARCE:
        return x.to(torch.int64)
    return x.to(torch.float32) if x.dtype in FLOAT8 else x


def in_float32(x: torch.Tensor) -> torch.Tensor:
    """Return a half-precision tensor in float32, in which squares do not overflow; return other tensors unchanged."""
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def halves_in_float32(rule: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Wrap a rule so that it computes a half-precision first input in float32 and rounds the result."""

    @wraps(rule)
    def widened(t: Any, x: torch.Tensor, *others: Any, **attributes: Any) -> torch.Tensor:
        y = rule(t, in_float32(x), *others, **attributes)
        return y if y.dtype == x.dtype else y.to(x.dtype)

    return widened


def own_tensor(x: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy that is no view, because operators of control flow compare strides."""
    return x.clone(memory_format=torch.contiguous_format)


def plain(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Return the rule of an operator that is a single PyTorch function."""

    def rule(t: Any, *inputs: Any) -> Any:
        return function(*map(wide, inputs))

    return rule


def counted_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Return axes as non-negative indices."""
    return [a % rank if rank else 0 for a in axes]


def move_axis(x: torch.Tensor, source: int, target: int) -> torch.Tensor:
    """Return x with one axis moved."""
    return torch.movedim(x, source, target)


def along(x: torch.Tensor, axis: int, rank: int) -> torch.Tensor:
    """Return a vector reshaped to broadcast along one axis of a tensor of this rank."""
    return x.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


@contextmanager
def quiet() -> Iterator[None]:
    """Silence PyTorch's warnings, which are meant for authors of modules."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [(logger, logger.level) for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)  # an error is raised as well
            yield
        finally:
            for logger, level in levels:
                logger.setLevel(level)
