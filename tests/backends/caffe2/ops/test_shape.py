"""The rules of `backends/caffe2/ops/shape.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import boolean, case, f32, i64

HALF = f32(3, 4).astype(np.float16)

ROWS = both(
    [
        case("Identity", f32(2, 3)),
        case("Dropout", f32(2, 3)),
        case("Dropout", f32(2, 3), outputs=2).named("mask"),
        case("Reshape", f32(2, 3, 4), weight(0, -1)),
        case("Reshape", f32(2, 3, 4), weight(4, 6)),
        case("Reshape", i64(2, 3, 4), np.array([3, 2, -1])).named("computed"),
        case("Reshape", f32(1, 1), weight(np.zeros(0, np.int64))).named("scalar"),
        case("Reshape", f32(0, 3), weight(3, 0), allowzero=1).named("zero"),
        case("Flatten", f32(2, 3, 4)),
        case("Flatten", f32(2, 3, 4), axis=2),
        case("Flatten", i64(2, 3, 4), axis=0),
        case("Flatten", f32(2, 3, 4), axis=-1),
        case("Squeeze", f32(1, 3, 1), weight(0, -1)),
        (case("Squeeze", f32(1, 3, 1)), RUNTIME),
        case("Unsqueeze", f32(2, 3), weight(0, -1)),
        case("Unsqueeze", boolean(2, 3), weight(1)),
        case("Transpose", f32(2, 3, 4)),
        case("Transpose", f32(2, 3, 4, 5), perm=[0, 2, 3, 1]),
        *(case("Transpose", x) for x in (i64(2, 3), boolean(2, 3), HALF, i64(2, 3, low=0).astype(np.uint8))),
        case("Concat", f32(2, 3), f32(2, 1), axis=1),
        case("Concat", i64(2, 3), i64(1, 3), weight(i64(2, 3)), axis=-2),
        case("Concat", f32(2, 3), axis=0),
        (case("Split", f32(2, 7), axis=1, num_outputs=3, outputs=3), "Caffe2 divides a dynamic axis evenly only"),
        case("Split", f32(6, 2), axis=0, num_outputs=3, outputs=3).named("even"),
        case("Split", i64(2, 7), weight(2, 5), axis=-1, outputs=2),
        case("Shape", f32(2, 3, 4)),
        case("Shape", f32(2, 3, 4), start=1),
        case("Shape", f32(2, 3, 4), start=-2, end=-1),
        case("Size", f32(2, 3, 4)),
        case("Expand", f32(3, 1), weight(2, 1, 4)),
        case("Expand", f32(3, 1), np.array([2, 3, 4])).named("computed"),
        case("Expand", boolean(3, 1), weight(3, 4)),
        case("Tile", f32(2, 3), weight(1, 2)),
        case("Tile", i64(2, 3), np.array([2, 2])),
        case("ConstantOfShape", weight(2, 3), value=np.array([1.5], np.float32)),
        case("ConstantOfShape", np.array([2, 3]), value=np.array([7], np.int64)),
        case("ConstantOfShape", np.array([2, 3])),
        case("ConstantOfShape", np.array([2]), value=np.array([0.1], np.float64)).named("float64"),
        case("Range", np.int64(2), np.int64(9), weight(np.int64(3))),
        case("Range", np.float32(2), np.float32(-1), np.float32(-0.5)),
        case("Range", np.float32(0), np.float32(0.3), np.float32(0.1)).named("of three steps and a little more"),
        case("Range", np.float32(1), np.float32(-0.2), np.float32(-0.4)).named("of three steps back"),
        case("Range", np.int64(9), np.int64(2), weight(np.int64(-3))).named("downwards"),
        *(case("DepthToSpace", f32(2, 12, 2, 3), blocksize=2, mode=mode) for mode in ("DCR", "CRD")),
        case("SpaceToDepth", f32(2, 3, 4, 6), blocksize=2),
        case("Range", np.int64(9), np.int64(2), weight(np.int64(-3))),
        case("Range", np.int32(1), np.int32(8), np.int32(2)).named("computed"),
        case("Range", np.int64(2), np.int64(9), np.int64(-3)).named("nothing"),
        case("Dropout", f32(3, 4), weight(np.float32(0.0)), weight(np.bool_(True)), outputs=2).named("training"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
