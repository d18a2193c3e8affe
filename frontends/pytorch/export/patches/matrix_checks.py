"""Checks of the matrices that distributions are given, in a form that torch.export can capture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.distributions import constraints


@contextmanager
def matrix_checks_without_shortcuts() -> Iterator[None]:
    """Inside, a constraint on matrices says in one expression whether they meet it.

    PyTorch's (torch/distributions/constraints.py) look at their data to leave the rest out where a first question is
    answered with no; the answer is the same, with their tolerance, and what it leads to is an exception.
    """
    classes: Any = constraints  # those of the matrices have no public names
    with ExitStack() as stack:
        for name, check in (
            ("_Symmetric", _symmetric),
            ("_PositiveDefinite", _positive_definite),
            ("_PositiveSemidefinite", _positive_semidefinite),
        ):
            stack.enter_context(mock.patch.object(getattr(classes, name), "check", check))
        yield


def _symmetric(self: Any, value: Tensor) -> Tensor:
    if value.shape[-2] != value.shape[-1]:
        return torch.zeros(value.shape[:-2], dtype=torch.bool)
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def _positive_definite(self: Any, value: Tensor) -> Tensor:
    found = _symmetric(self, value)
    return found if value.shape[-2] != value.shape[-1] else found & torch.linalg.cholesky_ex(value).info.eq(0)


def _positive_semidefinite(self: Any, value: Tensor) -> Tensor:
    found = _symmetric(self, value)
    return found if value.shape[-2] != value.shape[-1] else found & torch.linalg.eigvalsh(value).ge(0).all(-1)
