"""The rules of `backends/tensorflow/ops/shape.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.backends.tensorflow.ops.onnx_cases import const, ints, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, f64, i32, i64, params

ROWS = [
    case("Shape", f32(2, 3, 4)),
    case("Shape", f32(2, 3, 4), start=1),
    case("Shape", f32(2, 3, 4), start=-2, end=-1),
    case("Size", f32(2, 3)),
    case("Reshape", f32(2, 3, 4), const([4, -1])),
    case("Reshape", f32(2, 3, 4), const([0, -1])),
    case("Reshape", f32(2, 3, 4), ints(0, 2, -1)),
    case("Reshape", f32(2, 3), ints(1, 1, 6)),
    case("Reshape", f32(0, 3), const([3, 0]), allowzero=1),
    case("Reshape", f32(1), const([])),
    *(case("Flatten", f32(2, 3, 4, 5), axis=axis) for axis in (0, 1, 2, 4, -1)),
    case("Squeeze", f32(1, 2, 1), const([0, -1])),
    case("Squeeze", f32(1, 2, 1), ints(2)),
    case("Squeeze", f32(1, 2, 1)),
    case("Squeeze", f32(1, 2, 1), np.zeros(0, np.int64)).named("no axes"),
    case("Unsqueeze", f32(2, 3), const([0, -1])),
    case("Unsqueeze", f32(2, 3), ints(1, 3)),
    case("Transpose", f32(2, 3, 4)),
    case("Transpose", f32(2, 3, 4), perm=[1, 0, 2]),
    case("Transpose", f32(1, 3, 1, 4), perm=[0, 2, 3, 1]),
    case("Expand", f32(3, 1), const([2, 1, 4])),
    case("Expand", f32(3, 1), ints(2, 3, 4)),
    case("Expand", f32(3, 4), const([1])),
    case("Expand", f32(1, 4), ints(0, 1)).named("one of which there is none"),
    case("Expand", f32(3, 1, 4, 1, 2, 1, 2), const([1, 2, 4, 3, 2, 2, 2])).named("seven dims"),
    case("Expand", f32(2, 1, 2, 1, 2, 1, 2, 1), const([1, 2, 1, 2, 1, 2, 1, 2])).named("eight dims"),
    case("Expand", f32(3, 4), const([2, 1, 1, 1])).named("dims in front"),
    case("Tile", f32(2, 3), const([2, 1])),
    case("Tile", f32(2, 3), ints(1, 3)),
    case("ConstantOfShape", ints(2, 3)),
    case("ConstantOfShape", const([2, 3])),
    case("ConstantOfShape", ints(2), value=helper.make_tensor("v", TensorProto.INT64, [1], [7])),
    case("Range", number(1), number(5), number(1.5)),
    case("Range", *(number(n, np.int64) for n in (10, 3, -2))),
    case("Range", number(0.0), number(1.0), number(0.1)),
    case("Range", number(0.0), number(0.3), number(0.1)).named("of three steps and a little more"),
    case("Range", number(1.0), number(-0.2), number(-0.4)).named("of three steps back"),
    case("Range", number(0.0), number(0.6), number(0.3)).named("of two steps"),
    case("Range", number(0.0), number(0.7), number(0.1)).named("of seven steps but for a little"),
    case("Range", number(3.0), number(1.0), number(0.25)).named("of no step"),
    case("Range", *(number(n, np.int16) for n in (1, 9, 3))),
    *(
        case("Range", *(number(n, kind) for n in bounds)).named(f"none of {kind.__name__}, {bounds[2]:+}")
        for kind in (np.int16, np.int32, np.int64)
        for bounds in ((5, 3, 2), (3, 5, -1))
    ),
    case("Range", number(7, np.int64), number(3, np.int64), const(1)).named("none, by a known step"),
    case("EyeLike", f32(3, 4)),
    case("EyeLike", i32(3, 4), k=1, dtype=TensorProto.DOUBLE),
    case("Trilu", f32(2, 3, 4)),
    case("Trilu", f32(3, 4), const(1), upper=0),
    case("Trilu", i64(4, 3), number(-1, np.int64)),
    *(
        case("Trilu", f32(3, 4), number(k, np.int64), upper=u).named(f"{k} {u}")
        for k in (-(2**63), 2**63 - 1)
        for u in (0, 1)
    ),
    *(case("DepthToSpace", f32(2, 8, 2, 3), blocksize=2, mode=mode) for mode in ("DCR", "CRD")),
    case("DepthToSpace", f32(2, 4, 2, 3), blocksize=2, mode="CRD"),
    case("DepthToSpace", f64(2, 8, 2, 3), blocksize=2),
    case("SpaceToDepth", f32(2, 3, 4, 6), blocksize=2),
    case("SpaceToDepth", f64(2, 3, 4, 6), blocksize=2),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
