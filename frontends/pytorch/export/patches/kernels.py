"""Exchanges the Python kernels that torch.export infers shapes with, for the time of a capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...torch_internals import DispatchKey, kernel_table

KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
"""Where torch.export looks for the decomposition that it infers shapes with."""

Kernels = Mapping[Any, Callable[..., Any]]
"""By dispatch key."""


@contextmanager
def with_kernels(added: Mapping[Any, Kernels]) -> Iterator[None]:
    """Inside, the operators have these kernels besides, or instead of, their own.

    `torch.export._patches` exchanges the same ones, for loops.
    """
    before = {operator: dict(kernel_table(operator).kernels) for operator in added}
    try:
        for operator, kernels in added.items():
            _set_kernels(operator, before[operator] | dict(kernels))
        yield
    finally:
        for operator, own in before.items():
            _set_kernels(operator, own)


def _set_kernels(operator: Any, kernels: dict[Any, Callable[..., Any]]) -> None:
    table = kernel_table(operator)
    table.kernels.clear()
    table.kernels.update(kernels)
    table.looked_up.clear()
