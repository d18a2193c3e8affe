"""The rules of `frontends/pytorch/ops/polynomial.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

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

ENDS = np.array([np.nan, np.inf, -np.inf, 0.5], np.float32)

ROWS = [
    *(case(name, f32(12, low=-1.0, high=1.0), DEGREES) for name in POLYNOMIALS),
    *(
        case(name, ENDS, np.array(degree, np.float32)).named(f"ends {degree}")
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
