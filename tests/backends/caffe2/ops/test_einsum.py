"""The rules of `backends/caffe2/ops/einsum.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check
from tests.support.cases import case, f32, f64, i64

ROWS = both(
    [
        case("Einsum", f32(2, 3, 4), f32(2, 4, 5), equation="bij,bjk->bik"),
        case("Einsum", f32(3, 4), equation="ij->ji").named("transpose"),
        case("Einsum", f32(3, 4), equation="ij->").named("sum"),
        case("Einsum", f32(3), f32(4), equation="i,j->ij").named("outer"),
        case("Einsum", i64(3, 4), i64(4), equation="ij,j").named("integers"),
        case("Einsum", f64(2, 3, 4), f64(4, 5), equation="...ij,jk->...ik").named("float64"),
        (case("Einsum", f32(4, 4), equation="ii->i").named("diagonal"), RUNTIME),
        case("Einsum", f32(2, 3, 4, 5), f32(2, 6, 4, 5), equation="bqhd,bkhd->bhqk").named("heads"),
        case("Einsum", f32(2, 3, 4), f32(3, 4, 5), f32(5, 2), equation="aij,ijk,kb->ab").named("three"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
