"""Checks of matrices, in a form that torch.export can capture.

The constraints of torch/distributions/constraints.py read data after each test to skip further tests if it fails. Here
a constraint is one expression. Its answer and tolerance are the same, and it only leads to an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from ....torch_internals import matrix_check_effect


def is_symmetric(self: Any, value: Tensor) -> Tensor:
    """Return whether matrices are symmetric, one answer for each."""
    if value.shape[-2] != value.shape[-1]:
        return torch.zeros(value.shape[:-2], dtype=torch.bool)
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def is_positive_definite(self: Any, value: Tensor) -> Tensor:
    """Return whether matrices are symmetric and have a Cholesky factor."""
    found = is_symmetric(self, value)
    return found if value.shape[-2] != value.shape[-1] else found & torch.linalg.cholesky_ex(value).info.eq(0)


def is_positive_semidefinite(self: Any, value: Tensor) -> Tensor:
    """Return whether matrices are symmetric and have no negative eigenvalue."""
    found = is_symmetric(self, value)
    return found if value.shape[-2] != value.shape[-1] else found & torch.linalg.eigvalsh(value).ge(0).all(-1)


@contextmanager
def singular_matrices_without_effect() -> Iterator[None]:
    """Do not treat the exception for a singular matrix as an effect, which torch.export would thread through the
    program.
    """
    with mock.patch.object(*matrix_check_effect(), None):
        yield
