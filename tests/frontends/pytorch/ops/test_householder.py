"""The rules of `frontends/pytorch/ops/householder.py` against PyTorch."""

from __future__ import annotations

import pytest
import torch

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

TALL = f32(2, 5, 3)
FLAT = f32(2, 3, 5)
STORED, TAU = (t.numpy() for t in torch.geqrf(torch.from_numpy(TALL)))

ROWS = [
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
    case("ormqr", f32(0, 5), f32(0), f32(0, 5)).named("nothing"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
