"""What rules of several topics share."""

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
    """A tensor of a dtype that PyTorch stores and does not compute with, in one that it does."""
    if x.dtype in SCARCE:
        return x.to(torch.int64)
    return x.to(torch.float32) if x.dtype in FLOAT8 else x


def in_float32(x: torch.Tensor) -> torch.Tensor:
    """Half precision in float32, in which squares do not overflow."""
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def halves_in_float32(rule: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A rule that computes half precision of its first input in float32, and rounds its result."""

    @wraps(rule)
    def widened(t: Any, x: torch.Tensor, *others: Any, **attributes: Any) -> torch.Tensor:
        y = rule(t, in_float32(x), *others, **attributes)
        return y if y.dtype == x.dtype else y.to(x.dtype)

    return widened


def own_tensor(x: torch.Tensor) -> torch.Tensor:
    """A copy that is no view and has the strides of its shape, which operators of control flow compare."""
    return x.clone(memory_format=torch.contiguous_format)


def plain(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """The rule of an operator that is one function of PyTorch's."""

    def rule(t: Any, *inputs: Any) -> Any:
        return function(*map(wide, inputs))

    return rule


def counted_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the first."""
    return [a % rank if rank else 0 for a in axes]


def move_axis(x: torch.Tensor, source: int, target: int) -> torch.Tensor:
    """One axis moved to another place."""
    return torch.movedim(x, source, target)


def along(x: torch.Tensor, axis: int, rank: int) -> torch.Tensor:
    """A vector shaped to broadcast along one axis of `rank`."""
    return x.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


@contextmanager
def quiet() -> Iterator[None]:
    """Without what PyTorch says to those who wrote the module themselves."""
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
