"""Replaces the Python kernels with which torch.export infers shapes, during a capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...torch_internals import DispatchKey, kernel_table

KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
"""The keys under which torch.export looks up the decomposition for shape inference."""

Kernels = Mapping[Any, Callable[..., Any]]
"""Kernels by dispatch key."""


@contextmanager
def with_kernels(added: Mapping[Any, Kernels]) -> Iterator[None]:
    """Give the operators these kernels in addition to, or instead of, their own.

    `torch.export._patches` replaces the same ones, for loops.
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
