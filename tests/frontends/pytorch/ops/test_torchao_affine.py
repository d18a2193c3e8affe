"""The rules of `frontends/pytorch/ops/torchao_affine.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, params

BYTES = np.arange(-128, 128, dtype=np.int16).astype(np.int8)

ROWS = [
    case("_int_mm", BYTES[:160].reshape(20, 8), BYTES[-64:].reshape(8, 8)),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
