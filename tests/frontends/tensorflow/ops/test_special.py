"""The rules of `frontends/tensorflow/ops/special.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, f64, params

INF = np.inf
NAN = np.nan
BOTH = np.array([-3.5, -3, -1, -0.5, 0, 1e-3, 1, 2.5, 30, INF, NAN], np.float32)
POSITIVE = np.array([1e-3, 0.5, 1, 2.5, 7, 8.5, 30], np.float32)
UNIT = np.array([-1, -0.999, -0.8, -0.3, 0, 0.1, 0.69, 0.71, 0.9999, 1, 1.5], np.float32)
SHARES = np.array([0, 1e-30, 1e-5, 0.1, 0.5, 0.87, 0.99, 1, 1.5], np.float32)
ORDERS = np.repeat(np.array([0, 1e-3, 0.7, 1, 12, 300, -1]), 7)
POINTS = np.tile(np.array([0, 1e-4, 0.9, 13, 290, INF, -1]), 7)
BOUNDS = (np.array([1.0, 1, -1, 2, 200]), np.array([2.0, 2, 2, 2, 1]), np.array([0, 1, 0.5, 1.5, 0.99]))
MILD = (f32(2, 5, low=0.5, high=9.0), f32(5, low=0.1, high=9.0))
PAIR = (f64(2, 3, low=0.1, high=20.0), f64(3, low=0.1, high=20.0))
BELOW = np.array([-1.5, -INF, 0], np.float32)
ZETA_ENDS = (
    np.array([INF, INF, INF, INF, 2.5, 4, 5, NAN, 2.5, INF, 0, -2, 1, NAN], np.float32),
    np.array([2.5, 1, 0.5, NAN, INF, -1, -1, 0, -2, -INF, -1, 0, -1, -1.5], np.float32),
)
GAMMA_ENDS = (np.array([NAN, INF, INF, NAN, 2, 2]), np.array([INF, NAN, INF, 0, NAN, 3]))
BETA_ENDS = (np.array([NAN, NAN, 2, NAN, 0, NAN]), np.array([2, NAN, NAN, 2, NAN, -1]), np.array([0, 1, 0, 0.5, 0, 0]))
HALF = f32(2, 3, low=0.1, high=2.0).astype(np.float16)

ROWS = [
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
    *(case(f"Bessel{name}", BELOW).named("below") for name in ("Y0", "K0", "K1", "K0e", "K1e")),
    case("BesselY1", BELOW[:2]).named("below"),
    *(case(name, *MILD) for name in ("Igamma", "Igammac")),
    *(case(name, *PAIR).named("float64") for name in ("Igamma", "Igammac")),
    *(case(name, ORDERS, POINTS).named("ends") for name in ("Igamma", "Igammac")),
    case("Zeta", np.array([1.5, 2, 5, 30, 1, 2, 0.5], np.float32), np.array([0.5, 3, 1, 2, 2, -1, 2], np.float32)),
    *(case(name, *GAMMA_ENDS).named("no number") for name in ("Igamma", "Igammac")),
    case("Zeta", *ZETA_ENDS).named("ends"),
    case("Polygamma", np.array([INF, INF, 3e38, 1], np.float32), np.array([0.5, -1, 0.5, INF], np.float32)).named(
        "ends"
    ),
    case("Betainc", *BETA_ENDS).named("no number"),
    case("Polygamma", np.array([0, 1, 2, 3, 1.5, 6], np.float32), np.array([1.5, 0.5, 2, 10, 1, 3], np.float32)),
    case("Betainc", f32(3, 4, low=0.1, high=9), f32(3, 4, low=0.1, high=5), f32(3, 4, low=0, high=1)),
    case("Betainc", *BOUNDS).named("ends"),
    case("Betainc", f64(4, low=0.1, high=90), f64(4, low=0.1, high=50), f64(4, low=0, high=1)).named("float64"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
