"""The rules of `frontends/pytorch/ops/special.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

WIDE = np.linspace(-12, 12, 49, dtype=np.float32)

ABOVE = np.linspace(0.05, 12, 24, dtype=np.float32)

UNIT = np.linspace(-0.999, 0.999, 21, dtype=np.float32)

LARGE = np.array([1.01e8, 1e9, 1e10, 1e15])

NEAR = np.array([0.5, 0.98, 1 - 3e-5, 1 - 1e-8, 1, 1 + 1e-8, 1 + 3e-5, 1.02, 2])

ENDS = np.array([0, 1, -1, 9, -9, 200, np.inf, -np.inf, np.nan], np.float32)

ORDERS = np.array([0, 0.01, 1, 300, np.inf, np.nan], np.float32)

DEGREES = np.arange(12, dtype=np.float32)

POLYNOMIALS = (
    "special_chebyshev_polynomial_t",
    "special_chebyshev_polynomial_u",
    "special_chebyshev_polynomial_v",
    "special_chebyshev_polynomial_w",
    "special_shifted_chebyshev_polynomial_t",
    "special_shifted_chebyshev_polynomial_u",
    "special_shifted_chebyshev_polynomial_v",
    "special_shifted_chebyshev_polynomial_w",
    "special_hermite_polynomial_h",
    "special_hermite_polynomial_he",
    "special_laguerre_polynomial_l",
    "special_legendre_polynomial_p",
)

POINTS = np.array([np.nan, np.inf, -np.inf, 0.5], np.float32)

ROWS = [
    *(
        case(name, WIDE)
        for name in (
            "special_bessel_j0",
            "special_bessel_j1",
            "i0",
            "special_i0",
            "special_i0e",
            "special_i1",
            "special_i1e",
            "special_modified_bessel_i0",
            "special_modified_bessel_i1",
            "special_spherical_bessel_j0",
            "special_airy_ai",
        )
    ),
    *(
        case(name, ABOVE)
        for name in (
            "special_bessel_y0",
            "special_bessel_y1",
            "special_modified_bessel_k0",
            "special_modified_bessel_k1",
            "special_scaled_modified_bessel_k0",
            "special_scaled_modified_bessel_k1",
        )
    ),
    *(case(name, WIDE) for name in ("lgamma", "special_gammaln")),
    *(case(name, ABOVE) for name in ("digamma", "special_digamma", "special_psi")),
    case("digamma", f32(9, low=-3.9, high=-0.1)).named("negative"),
    case("lgamma", np.array([-2, -1, 0, 1, 2, np.inf, -np.inf, np.nan], np.float32)).named("odd"),
    *(
        case(name, order, ABOVE).named(f"{order}")
        for name in ("polygamma", "special_polygamma")
        for order in (0, 1, 2, 3)
    ),
    case("special_zeta", 1 + ABOVE, ABOVE),
    case("special_zeta", np.full(2, np.inf, np.float32), np.array([0.5, 1.0], np.float32)).named("infinite"),
    *(case(name, UNIT) for name in ("erfinv", "special_erfinv")),
    case("special_ndtri", np.linspace(0, 1, 21, dtype=np.float32)),
    *(case(name, WIDE) for name in ("special_erfcx", "special_log_ndtr")),
    *(case(name, ENDS).named("ends") for name in ("special_erfcx", "special_log_ndtr")),
    *(
        case(name, np.repeat(ABOVE, 24), np.tile(4 * ABOVE, 24))
        for name in ("igamma", "igammac", "special_gammainc", "special_gammaincc")
    ),
    *(case(name, ORDERS[:, None], ENDS).named("ends") for name in ("igamma", "igammac")),
    *(case(name, LARGE[:, None], LARGE[:, None] * NEAR).named("large") for name in ("igamma", "igammac")),
    *(case(name, f32(12, low=-1.0, high=1.0), DEGREES) for name in POLYNOMIALS),
    *(
        case(name, POINTS, np.array(degree, np.float32)).named(f"ends {degree}")
        for name in POLYNOMIALS
        for degree in (
            (0, 1, 2) if name.endswith(("_t", "_v", "_h", "_he")) else (0, 1)
        )  # elsewhere the results for NaN are PyTorch's own
    ),
    *(case(name, f32(3, 1, low=-2.0, high=2.0), 4).named("number") for name in POLYNOMIALS),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
