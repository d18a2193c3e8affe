"""The rules of `frontends/pytorch/ops/gamma.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

WIDE = np.linspace(-12, 12, 49, dtype=np.float32)
ABOVE = np.linspace(0.05, 12, 24, dtype=np.float32)
UNIT = np.linspace(-0.999, 0.999, 21, dtype=np.float32)

ROWS = [
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
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
