"""The rules of `frontends/pytorch/ops/lu_cholesky.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params
from tests.support.pytorch_tools import Calling, read, run

SQUARE = f32(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)[::-1]
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) / 8 + np.eye(4, dtype=np.float32)
TALL = f32(2, 5, 3)
FLAT = f32(2, 3, 5)
LU, PIVOTS = (t.numpy() for t in torch.linalg.lu_factor(torch.from_numpy(SQUARE)))

ROWS = [
    *(case(name, SQUARE) for name in ("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex")),
    *(case("linalg_lu_factor", x).named(label) for x, label in ((TALL, "tall"), (FLAT, "flat"))),
    case("lu_unpack", LU, PIVOTS),
    *(case(name, POSITIVE) for name in ("linalg_cholesky", "linalg_cholesky_ex", "cholesky")),
    case("linalg_cholesky", POSITIVE, upper=True).named("upper"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


def test_info_is_the_first_pivot_that_fails() -> None:
    x = torch.tensor([[[1.0, 2.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]])
    model = read(Calling(lambda x: torch.linalg.cholesky_ex(x).info), "tensors_0:float32[3,2,2]")
    np.testing.assert_array_equal(run(model, x.numpy())[0], torch.linalg.cholesky_ex(x).info)
