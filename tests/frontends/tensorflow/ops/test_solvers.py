"""The rules of `frontends/tensorflow/ops/solvers.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, f64, params


def _positive(n: int, *lead: int) -> np.ndarray:
    """Symmetric and far from singular."""
    a = f64(*lead, n, n)
    return (a @ a.swapaxes(-1, -2) + n * np.eye(n)).astype(np.float32)


def _diagonals(n: int, *lead: int) -> np.ndarray:
    """Return the diagonals of matrices far from singular; entries outside the matrix are NaN."""
    found = f32(*lead, 3, n)
    found[..., 1, :] += 4
    found[..., 0, -1] = found[..., 2, 0] = np.nan
    return found


REGULAR = (f64(2, 4, 4) + 3 * np.eye(4)).astype(np.float32)
RIGHT = f32(2, 4, 3)

ROWS = [
    case("Cholesky", _positive(4, 2)),
    case("Cholesky", _positive(1, 1).astype(np.float64)).named("float64"),
    case("Lu", f32(2, 4, 4)),
    case("Lu", f64(2, 3, 3), output_idx_type="int64").named("float64"),
    *(case("MatrixInverse", REGULAR, adjoint=adjoint).named(f"{adjoint}") for adjoint in (False, True)),
    *(case("MatrixSolve", REGULAR, RIGHT, adjoint=adjoint).named(f"{adjoint}") for adjoint in (False, True)),
    *(
        case("MatrixTriangularSolve", REGULAR, RIGHT, lower=lower, adjoint=adjoint).named(f"{lower} {adjoint}")
        for lower in (False, True)
        for adjoint in (False, True)
    ),
    case("MatrixTriangularSolve", REGULAR[:1], RIGHT[:1]).named("one of them"),
    *(
        case("TridiagonalSolve", _diagonals(5, 2), f32(2, 5, 3), partial_pivoting=pivoting).named(f"{pivoting}")
        for pivoting in (False, True)
    ),
    case("TridiagonalSolve", _diagonals(1, 2).astype(np.float64), f64(2, 1, 2)).named("one row, float64"),
    case("TridiagonalMatMul", *(f32(2, 1, 4, low=-1 - k / 9) for k in range(3)), f32(2, 4, 3)),
    case("TridiagonalMatMul", *(f32(2, 1, 1, low=-1 - k / 9) for k in range(3)), f32(2, 1, 3)).named("one row"),
    *(case("Qr", f32(2, *shape), full_matrices=full) for shape in ((4, 3), (3, 4)) for full in (False, True)),
    case("Svd", f32(2, 4, 3), compute_uv=False),
    case("Svd", f64(1, 3, 4), compute_uv=False).named("float64"),
    case("SelfAdjointEigV2", _positive(4, 2), compute_v=False),
    case("SelfAdjointEigV2", f64(2, 3, 3), compute_v=False).named("lower triangle"),
    case("Cholesky", _positive(65)).named("65 columns").xfail("64 is the most that is unrolled"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
