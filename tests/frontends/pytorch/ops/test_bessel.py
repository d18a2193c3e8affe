"""The rules of `frontends/pytorch/ops/bessel.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, params

WIDE = np.linspace(-12, 12, 49, dtype=np.float32)
ABOVE = np.linspace(0.05, 12, 24, dtype=np.float32)

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
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
