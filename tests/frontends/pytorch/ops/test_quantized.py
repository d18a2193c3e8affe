"""The rules of `frontends/pytorch/ops/quantized.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, params

# Halves at and next to the zero point, both ends, and numbers beyond them; a scale that is a power of two is exact.
TIES = np.array([-40.0, -16.0, -0.625, -0.375, -0.125, 0.0, 0.125, 0.375, 0.625, 15.75, 31.75, 40.0], np.float32)

ROWS = [
    case("dequantize", TIES),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
