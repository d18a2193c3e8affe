"""Cases of the PyTorch frontend's rules for linear algebra whose results are defined to the last sign."""

from __future__ import annotations

import numpy as np
import torch

from tests.support.cases import case, f32

SQUARE = f32(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)[::-1]
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) / 8 + np.eye(4, dtype=np.float32)
ROOT = np.linalg.cholesky(POSITIVE).astype(np.float32)
TALL, FLAT = f32(2, 5, 3), f32(2, 3, 5)
RIGHT = f32(2, 4, 3)
LU, PIVOTS = (t.numpy() for t in torch.linalg.lu_factor(torch.from_numpy(SQUARE)))
STORED, TAU = (t.numpy() for t in torch.geqrf(torch.from_numpy(TALL)))
HALF, TENTH = np.array(0.5), np.array(0.1)

LINALG = [
    *(case(name, SQUARE) for name in ("linalg_inv", "inverse", "linalg_inv_ex", "logdet", "_linalg_det")),
    *(case(name, SQUARE) for name in ("_linalg_slogdet", "linalg_slogdet", "slogdet")),
    *(case(name, SQUARE) for name in ("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex")),
    *(case("linalg_lu_factor", x).named(label) for x, label in ((TALL, "tall"), (FLAT, "flat"))),
    case("lu_unpack", LU, PIVOTS),
    *(case(name, SQUARE, RIGHT) for name in ("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")),
    case("linalg_solve", SQUARE, f32(2, 3, 4), left=False).named("right"),
    case("linalg_solve", SQUARE[0], f32(4)).named("vector"),
    *(case("linalg_lu_solve", LU, PIVOTS, RIGHT, adjoint=adjoint).named(f"{adjoint}") for adjoint in (False, True)),
    case("linalg_lu_solve", LU, PIVOTS, f32(2, 3, 4), left=False).named("right"),
    case("lu_solve", RIGHT, LU, PIVOTS),
    case("_grouped_mm", f32(6, 4), f32(3, 4, 8), np.array([2, 2, 6], np.int32)),
    case("linalg_tensorinv", SQUARE[0].reshape(4, 2, 2), 1),
    *(case(name, POSITIVE) for name in ("linalg_cholesky", "linalg_cholesky_ex", "cholesky")),
    case("linalg_cholesky", POSITIVE, upper=True).named("upper"),
    case("cholesky_solve", RIGHT, ROOT),
    case("cholesky_solve", RIGHT, np.ascontiguousarray(ROOT.swapaxes(-1, -2)), True).named("upper"),
    case("cholesky_inverse", ROOT),
    case("linalg_solve_triangular", ROOT, RIGHT, upper=False),
    case("linalg_solve_triangular", POSITIVE, f32(2, 3, 4), upper=True, left=False).named("right"),
    case("linalg_solve_triangular", POSITIVE / 9, RIGHT, upper=True, unitriangular=True).named("unit"),
    *(case("triangular_solve", RIGHT, POSITIVE, True, turned).named(f"{turned}") for turned in (False, True)),
    *(
        case("linalg_qr", x, how).named(f"{how} {x.shape}")
        for x in (TALL, FLAT)
        for how in ("reduced", "complete", "r")
    ),
    *(case("qr", TALL, some).named(f"{some}") for some in (True, False)),
    *(case("geqrf", x).named(f"{x.shape}") for x in (TALL, FLAT)),
    *(case(name, STORED, TAU) for name in ("linalg_householder_product", "orgqr")),
    *(
        case("ormqr", STORED, TAU, f32(2, 5, 5), left, turned).named(f"{left} {turned}")
        for left in (True, False)
        for turned in (True, False)
    ),
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
