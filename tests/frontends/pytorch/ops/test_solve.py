"""The rules of `frontends/pytorch/ops/solve.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

SQUARE = f32(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)[::-1]
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) / 8 + np.eye(4, dtype=np.float32)
ROOT = np.linalg.cholesky(POSITIVE).astype(np.float32)
RIGHT = f32(2, 4, 3)
LU, PIVOTS = (t.numpy() for t in torch.linalg.lu_factor(torch.from_numpy(SQUARE)))

ROWS = [
    *(case(name, SQUARE) for name in ("linalg_inv", "inverse", "linalg_inv_ex", "logdet", "_linalg_det")),
    *(case(name, SQUARE) for name in ("_linalg_slogdet", "linalg_slogdet", "slogdet")),
    *(case(name, SQUARE, RIGHT) for name in ("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")),
    case("linalg_solve", SQUARE, f32(2, 3, 4), left=False).named("right"),
    case("linalg_solve", SQUARE[0], f32(4)).named("vector"),
    *(case("linalg_lu_solve", LU, PIVOTS, RIGHT, adjoint=adjoint).named(f"{adjoint}") for adjoint in (False, True)),
    case("linalg_lu_solve", LU, PIVOTS, f32(2, 3, 4), left=False).named("right"),
    case("lu_solve", RIGHT, LU, PIVOTS),
    case("linalg_tensorinv", SQUARE[0].reshape(4, 2, 2), 1),
    case("cholesky_solve", RIGHT, ROOT),
    case("cholesky_solve", RIGHT, np.ascontiguousarray(ROOT.swapaxes(-1, -2)), True).named("upper"),
    case("cholesky_inverse", ROOT),
    case("linalg_solve_triangular", ROOT, RIGHT, upper=False),
    case("linalg_solve_triangular", POSITIVE, f32(2, 3, 4), upper=True, left=False).named("right"),
    case("linalg_solve_triangular", POSITIVE / 9, RIGHT, upper=True, unitriangular=True).named("unit"),
    *(case("triangular_solve", RIGHT, POSITIVE, True, turned).named(f"{turned}") for turned in (False, True)),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
