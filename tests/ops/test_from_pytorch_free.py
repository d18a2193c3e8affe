"""Rules of the PyTorch frontend whose results PyTorch leaves free: random numbers and the signs of singular vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from cases import Case, case, f32, params
from pytorch_support import expected, lowered, run

WEIGHTS = np.tile(np.array([0.0, 1.0, 3.0], np.float32), (2000, 1))
BASE = np.zeros(4000, np.float32)
SYMMETRIC = f32(2, 4, 4) + f32(2, 4, 4).swapaxes(-1, -2)

# An operator, and the mean that its numbers have.
DRAWN = [
    (case("rand", [4000]), 0.5),
    (case("randn", [4000]), 0.0),
    (case("rand_like", BASE), 0.5),
    (case("randn_like", BASE), 0.0),
    (case("randint", 9, [4000]), 4.0),
    (case("randint.low", 3, 6, [4000]), 4.0),
    (case("randint_like", BASE, 9), 4.0),
    (case("randint_like.low_dtype", BASE, 3, 6), 4.0),
    (case("randperm", 99), 49.0),
    (case("bernoulli", BASE + 0.25), 0.25),
    (case("bernoulli.p", BASE, 0.25), 0.25),
    (case("bernoulli.Tensor", BASE, BASE + 0.25), 0.25),
    (case("uniform", BASE, 2.0, 4.0), 3.0),
    (case("normal_functional", BASE, 2.0, 3.0), 2.0),
    (case("normal.Tensor_float", BASE + 2, 3.0), 2.0),
    (case("normal.Tensor_Tensor", BASE + 2, BASE + 3), 2.0),
    (case("normal.float_Tensor", 2.0, BASE + 3), 2.0),
    (case("normal.float_float", 2.0, 3.0, [4000]), 2.0),
    (case("log_normal", BASE, 0.0, 0.25), np.exp(1 / 32)),
    (case("exponential", BASE, 2.0), 0.5),
    (case("geometric", BASE, 0.5), 2.0),
    (case("multinomial", WEIGHTS, 1), 1.75),
    (case("multinomial", WEIGHTS, 2, True).named("again"), 1.75),
    (case("cauchy", BASE), None),
]

FACTORED: list[tuple[Case, Callable[..., np.ndarray]]] = [
    (case("linalg_svd", f32(2, 5, 3), False), lambda u, s, v: u * s[..., None, :] @ v),
    (case("linalg_svd", f32(2, 3, 5)).named("full"), lambda u, s, v: u * s[..., None, :] @ v[..., :3, :]),
    (case("_linalg_svd", f32(5, 3)), lambda u, s, v: u * s @ v),
    (case("svd", f32(2, 5, 3)), lambda u, s, v: u * s[..., None, :] @ v.swapaxes(-1, -2)),
    (case("linalg_eigh", SYMMETRIC), lambda s, v: v * s[..., None, :] @ v.swapaxes(-1, -2)),
    (case("_linalg_eigh", SYMMETRIC), lambda s, v: v * s[..., None, :] @ v.swapaxes(-1, -2)),
]


@pytest.mark.parametrize("row", params(row for row, _ in DRAWN))
def test_numbers_are_drawn_from_the_distribution(row: Case) -> None:
    torch.manual_seed(0)
    (want,) = expected(row)
    (got,) = run(lowered(row)[0], row)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    mean = next(m for r, m in DRAWN if r is row)
    assert np.unique(got).size > 1
    assert got.min() >= want.min() - 5 * want.std()
    if mean is not None:
        assert abs(got.mean() - mean) < 6 * max(float(want.std()), 0.1) / np.sqrt(want.size)


@pytest.mark.parametrize("row", params(row for row, _ in FACTORED))
def test_factors_multiply_to_the_matrix(row: Case) -> None:
    """The values are PyTorch's; the vectors are orthonormal and give the matrix back."""
    product = next(p for r, p in FACTORED if r is row)
    want, got = expected(row), run(lowered(row)[0], row)
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.ndim == row.inputs[0].ndim - 1:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        else:
            square = a.swapaxes(-1, -2) @ a if a.shape[-2] >= a.shape[-1] else a @ a.swapaxes(-1, -2)
            np.testing.assert_allclose(square, np.broadcast_to(np.eye(square.shape[-1]), square.shape), atol=1e-5)
    np.testing.assert_allclose(product(*got), row.inputs[0], rtol=1e-4, atol=1e-5)
