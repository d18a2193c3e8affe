"""The rules of `backends/caffe2/ops/linear.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import case, f32, i64

HALF = f32(3, 4).astype(np.float16)

ROWS = both(
    [
        case("MatMul", f32(3, 4), weight(f32(4, 5))),
        case("MatMul", f32(2, 3, 4), weight(f32(4, 5))),
        case("MatMul", f32(2, 3, 4), f32(2, 4, 5)),
        case("MatMul", f32(2, 3, 4, 5), f32(3, 5, 6)).named("broadcast"),
        case("MatMul", f32(4), f32(4)).named("dot"),
        case("MatMul", f32(4), f32(2, 4, 3)).named("vector left"),
        case("MatMul", f32(2, 3, 4), f32(4)).named("vector right"),
        case("MatMul", weight(f32(3, 4)), f32(4, 5)).named("weight left"),
        case("MatMul", HALF, weight(HALF.T.copy())).named("float16"),
        case("MatMul", f32(3, 4), weight(f32(4, 0))).named("no columns"),
        case("MatMul", f32(2, 3, 0), weight(f32(0, 4))).named("sums of nothing"),
        case("Gemm", f32(3, 4), weight(f32(4, 0)), weight(f32(0))).named("no columns"),
        case("Gemm", f32(3, 0), weight(f32(0, 4)), weight(f32(4))).named("sums of nothing"),
        case("Gemm", f32(3, 0), f32(0, 4), f32(4)).named("computed sums of nothing"),
        case("MatMul", i64(2, 2), i64(2, 2)).xfail("Caffe2 has float32's only"),
        case("Gemm", f32(3, 4), weight(f32(5, 4)), weight(f32(5)), transB=1),
        case("Gemm", f32(3, 4), weight(f32(4, 5)), weight(f32(5))),
        case("Gemm", f32(3, 4), weight(f32(4, 5))),
        case("Gemm", f32(3, 4), weight(f32(4, 5)), weight(f32(1))).named("one bias"),
        case("Gemm", f32(4, 3), f32(5, 4), f32(3, 5), transA=1, transB=1, alpha=0.5, beta=2.0),
        case("Gemm", f32(4, 3), f32(3, 5)),
        *((case("Det", f32(2, n, n)).named(f"{n}"), RUNTIME) for n in (1, 2, 3, 6)),
        (case("Det", np.array([[0, 2, 1], [3, 0, 1], [0, 0, 5]], np.float32)).named("exchanged"), RUNTIME),
        (case("Det", np.zeros((3, 3), np.float32)).named("singular"), RUNTIME),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
