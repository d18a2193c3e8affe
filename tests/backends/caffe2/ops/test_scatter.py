"""The rules of `backends/caffe2/ops/scatter.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import boolean, case, f32, f64, i32, i64

SQUARE = f32(4, 5)
PLACES = np.array([[0, 2, -1], [1, -2, 0]])

ROWS = both(
    [
        *(
            (
                case("ScatterElements", x, PLACES, x[:2, :3] + x.dtype.type(1), axis=1, reduction=r).named(
                    f"{r} {x.dtype}"
                ),
                RUNTIME,
            )
            for x in (SQUARE, i64(4, 5))
            for r in ("none", "add", "mul", "max", "min")
        ),
        (case("ScatterElements", f64(3, 4), np.array([[0, 2, 1, 0]]), f64(1, 4)).named("float64"), RUNTIME),
        (case("ScatterElements", boolean(3, 4), np.array([[0, 2, 1, 0]]), boolean(1, 4)).named("bool"), RUNTIME),
        *(
            (case("ScatterND", f32(4, 3, 2), np.array([[1], [3]]), f32(2, 3, 2), reduction=r).named(r), RUNTIME)
            for r in ("none", "add", "mul", "max", "min")
        ),
        (case("ScatterND", i32(4, 3), np.array([[1, 2], [-1, 0]]), i32(2)).named("cells"), RUNTIME),
        (case("GatherND", f32(3, 4, 2), np.array([[0, 1], [2, -1]])), RUNTIME),
        (case("GatherND", f32(2, 4, 3), np.array([[1], [3]]), batch_dims=1).named("batch"), RUNTIME),
        (case("GatherND", i64(2, 4), weight(np.array([[1], [0]]))).named("constant"), RUNTIME),
        (
            case("MaxUnpool", f32(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2], strides=[2, 2]),
            RUNTIME,
        ),
        (
            case(
                "MaxUnpool",
                f32(1, 1, 2, 2),
                np.array([[[[5, 7], [13, 15]]]]),
                weight(1, 1, 5, 5),
                kernel_shape=[2, 2],
                strides=[2, 2],
            ).named("larger"),
            RUNTIME,
        ),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
