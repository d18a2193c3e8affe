"""Cases of the TensorFlow frontend: special functions and solvers of matrices, in several dtypes and at their ends."""

from __future__ import annotations

import numpy as np

from tests.support.cases import case, f32, f64

INF, NAN = np.inf, np.nan
BOTH = np.array([-3.5, -3, -1, -0.5, 0, 1e-3, 1, 2.5, 30, INF, NAN], np.float32)
POSITIVE = np.array([1e-3, 0.5, 1, 2.5, 7, 8.5, 30], np.float32)
UNIT = np.array([-1, -0.999, -0.8, -0.3, 0, 0.1, 0.69, 0.71, 0.9999, 1, 1.5], np.float32)
SHARES = np.array([0, 1e-30, 1e-5, 0.1, 0.5, 0.87, 0.99, 1, 1.5], np.float32)
ORDERS = np.repeat(np.array([0, 1e-3, 0.7, 1, 12, 300, -1]), 7)
POINTS = np.tile(np.array([0, 1e-4, 0.9, 13, 290, INF, -1]), 7)
BOUNDS = (np.array([1.0, 1, -1, 2, 200]), np.array([2.0, 2, 2, 2, 1]), np.array([0, 1, 0.5, 1.5, 0.99]))
MILD = (f32(2, 5, low=0.5, high=9.0), f32(5, low=0.1, high=9.0))
PAIR = (f64(2, 3, low=0.1, high=20.0), f64(3, low=0.1, high=20.0))
HALF = f32(2, 3, low=0.1, high=2.0).astype(np.float16)

SPECIAL = [
    *(case(name, BOTH[:10]) for name in ("Lgamma", "Digamma")),
    *(case(name, f64(2, 3, low=0.1, high=20.0)).named("float64") for name in ("Lgamma", "Digamma")),
    *(case(name, HALF).named("float16") for name in ("Lgamma", "Digamma")),
    case("Erfinv", UNIT),
    case("Erfinv", f64(2, 3, low=-0.99, high=0.99)).named("float64"),
    case("Ndtri", SHARES),
    case("Ndtri", f64(2, 3, low=0.01, high=0.99)).named("float64"),
    *(case(f"Bessel{name}", f32(3, 5, low=-20, high=20)) for name in ("I0e", "I1e", "J0", "J1")),
    *(case(f"Bessel{name}", f32(3, 5, low=-9, high=9)) for name in ("I0", "I1")),
    *(case(f"Bessel{name}", POSITIVE) for name in ("Y0", "Y1", "K0", "K1", "K0e", "K1e")),
    *(case(f"Bessel{name}", f64(2, 3, low=0.1, high=20.0)).named("float64") for name in ("I0e", "I1e", "J0", "K1")),
    *(case(name, *MILD) for name in ("Igamma", "Igammac")),
    *(case(name, *PAIR).named("float64") for name in ("Igamma", "Igammac")),
    *(case(name, ORDERS, POINTS).named("ends") for name in ("Igamma", "Igammac")),
    case("Zeta", np.array([1.5, 2, 5, 30, 1, 2, 0.5], np.float32), np.array([0.5, 3, 1, 2, 2, -1, 2], np.float32)),
    case("Polygamma", np.array([0, 1, 2, 3, 1.5, 6], np.float32), np.array([1.5, 0.5, 2, 10, 1, 3], np.float32)),
    case("Betainc", f32(3, 4, low=0.1, high=9), f32(3, 4, low=0.1, high=5), f32(3, 4, low=0, high=1)),
    case("Betainc", *BOUNDS).named("ends"),
    case("Betainc", f64(4, low=0.1, high=90), f64(4, low=0.1, high=50), f64(4, low=0, high=1)).named("float64"),
]  # fmt: skip


def _positive(n: int, *lead: int) -> np.ndarray:
    """Symmetric and far from singular."""
    a = f64(*lead, n, n)
    return (a @ a.swapaxes(-1, -2) + n * np.eye(n)).astype(np.float32)


REGULAR = (f64(2, 4, 4) + 3 * np.eye(4)).astype(np.float32)
RIGHT = f32(2, 4, 3)
SOLVERS = [
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
    *(case("Qr", f32(2, *shape), full_matrices=full) for shape in ((4, 3), (3, 4)) for full in (False, True)),
    case("Svd", f32(2, 4, 3), compute_uv=False),
    case("Svd", f64(1, 3, 4), compute_uv=False).named("float64"),
    case("SelfAdjointEigV2", _positive(4, 2), compute_v=False),
    case("SelfAdjointEigV2", f64(2, 3, 3), compute_v=False).named("lower triangle"),
    case("Cholesky", _positive(65)).named("65 columns").xfail("64 is the most that is unrolled"),
]
WHOLE = [*SPECIAL, *SOLVERS]
