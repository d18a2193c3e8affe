"""The rules of `frontends/pytorch/ops/svd_eigh.py` against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, expected, lowered, run
from tests.support.cases import Case, case, f32, params

SQUARE = f32(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)[::-1]
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) / 8 + np.eye(4, dtype=np.float32)
TALL = f32(2, 5, 3)
FLAT = f32(2, 3, 5)
HALF = np.array(0.5)
TENTH = np.array(0.1)

ROWS = [
    *(
        case(name, x).named(f"{x.shape}")
        for name in ("linalg_svdvals", "linalg_pinv", "pinverse")
        for x in (TALL, FLAT)
    ),
    case("linalg_pinv.atol_rtol_float", TALL, atol=1e-4, rtol=1e-3),
    case("linalg_pinv.atol_rtol_tensor", TALL, atol=HALF, rtol=TENTH),
    case("linalg_pinv.rcond_tensor", POSITIVE, TENTH, True),
    case("linalg_pinv.default", TALL, 0.1),
    *(case("linalg_eigvalsh", POSITIVE, half).named(half) for half in "LU"),
    *(case(name, SQUARE / 3) for name in ("linalg_matrix_exp", "matrix_exp")),
]

SYMMETRIC = f32(2, 4, 4) + f32(2, 4, 4).swapaxes(-1, -2)
# The signs of the vectors are arbitrary.
FACTORED: list[tuple[Case, Callable[..., np.ndarray]]] = [
    (case("linalg_svd", f32(2, 5, 3), False), lambda u, s, v: u * s[..., None, :] @ v),
    (case("linalg_svd", f32(2, 3, 5)).named("full"), lambda u, s, v: u * s[..., None, :] @ v[..., :3, :]),
    (case("_linalg_svd", f32(5, 3)), lambda u, s, v: u * s @ v),
    (case("svd", f32(2, 5, 3)), lambda u, s, v: u * s[..., None, :] @ v.swapaxes(-1, -2)),
    (case("linalg_eigh", SYMMETRIC), lambda s, v: v * s[..., None, :] @ v.swapaxes(-1, -2)),
    (case("_linalg_eigh", SYMMETRIC), lambda s, v: v * s[..., None, :] @ v.swapaxes(-1, -2)),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


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
