"""The rules of `frontends/tensorflow/ops/math.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, boolean, case, f32, i32, i64, params

POSITIVE = f32(2, 5, low=0.1, high=3.0)
TINY = f32(2, 5, low=-1e-4, high=1e-4)
PAIR = (f32(2, 3), f32(3))
EDGES = (0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan)
INTS = (i32(3, 4, low=-9), i32(4, low=1))

ROWS = [
    *(
        case(name, f32(2, 3))
        for name in (
            "Abs",
            "Asinh",
            "Atan",
            "Ceil",
            "Cos",
            "Cosh",
            "Erf",
            "Erfc",
            "Exp",
            "Floor",
            "Neg",
            "Rint",
            "Round",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sinh",
            "Square",
            "Tan",
            "Tanh",
            "Expm1",
        )
    ),
    *(case(name, f32(2, 3, low=-0.9, high=0.9)) for name in ["Acos", "Asin", "Atanh", "Log1p"]),
    *(case(name, POSITIVE) for name in ["Log", "Sqrt", "Rsqrt", "Reciprocal", "Inv"]),
    *(case(name, TINY).named("tiny") for name in ["Log1p", "Expm1"]),
    case("Log1p", np.array([-1, -2, 0, np.inf, 1e30, -np.inf, np.nan], np.float32)).named("edges"),
    *(
        case("FloorDiv", np.array([np.iinfo(d).min, np.iinfo(d).max, -7, 7, 6], d), np.array([5, 5, 2, -2, -3], d))
        for d in (np.int8, np.int16, np.int32, np.int64)
    ),
    case("FloorDiv", np.array([0, 255, 7], np.uint8), np.array([5, 2, 255], np.uint8)).named("uint8"),
    case("Atan2", *(np.array(v, np.float32).ravel() for v in np.meshgrid(EDGES, EDGES))).named("edges"),
    case("Expm1", np.array([-np.inf, -100, 0, 50, np.inf], np.float32)).named("edges"),
    *(
        case("Pow", np.array([-3, 0, 5, 46341, 3], np.int32), power).named(f"integers, {power}")
        for power in (0, 1, 3, 64, [0, 1, 2, 31, 39], [0, 0, 0, 0, 0], [[6], [7]])
    ),
    case("Acosh", f32(2, 3, low=1.1, high=4.0)),
    case("Round", np.array([0.5, 1.5, 2.5, -0.5], np.float32)).named("half"),
    *(case(name, np.array([1, np.nan, np.inf, -np.inf], np.float32)) for name in ["IsNan", "IsInf", "IsFinite"]),
    case("LogicalNot", boolean(2, 3)),
    case("Invert", i32(2, 3)),
    case("Abs", i64(2, 3)).named("int64"),
    case("Cast", f32(2, 3), DstT="int32"),
    case("Cast", f32(2, 3), DstT="bool").named("bool"),
    case("Cast", i64(2, 3), DstT="float64").named("double"),
    case("Cast", f32(2, 3), DstT="float16").named("half"),
    case("Cast", f32(2, 3), DstT="bfloat16", Truncate=True).named("truncated").xfail("ONNX rounds"),
    *(
        case(name, *PAIR)
        for name in [
            "Add",
            "AddV2",
            "Sub",
            "Mul",
            "RealDiv",
            "Div",
            "Maximum",
            "Minimum",
            "SquaredDifference",
            "Less",
            "LessEqual",
            "Greater",
            "GreaterEqual",
            "Equal",
            "NotEqual",
            "FloorDiv",
            "FloorMod",
            "Atan2",
            "Mod",
            "TruncateMod",
        ]
    ),
    *(
        case(name, *INTS).named("int32")
        for name in [
            "Add",
            "AddV2",
            "Sub",
            "Mul",
            "Div",
            "Maximum",
            "Minimum",
            "SquaredDifference",
            "Less",
            "Equal",
            "FloorDiv",
            "FloorMod",
            "Mod",
            "TruncateMod",
        ]
    ),
    case("TruncateDiv", *INTS),
    case("Pow", POSITIVE, f32(5)),
    case("Atan2", np.array([0, 1, -1, 1, -1, 0], np.float32), np.array([-1, 0, 0, -1, -1, 1], np.float32)).named(
        "axes"
    ),
    *(
        case(name, np.array([0, 1, 2, 0], np.float32), np.array([0, 0, 4, 3], np.float32))
        for name in ["DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py"]
    ),
    *(case(name, boolean(2, 3), boolean(3)) for name in ["LogicalAnd", "LogicalOr"]),
    *(case(name, i32(2, 3), i32(3)) for name in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]),
    case("ApproximateEqual", f32(2, 3), f32(2, 3) + np.float32(0.01), tolerance=0.02),
    case("AddN", [f32(2, 3), f32(2, 3, low=0), f32(2, 3, low=1)]),
    case("AccumulateNV2", [f32(2, 3), f32(2, 3, low=0)], shape=[2, 3]),
    case("ClipByValue", f32(2, 3), -0.5, 0.5),
    case("ClipByValue", f32(2, 3), 0.5, -0.5).named("crossed"),
    *(
        case("Erfc", np.float32(far)).named(f"{far}")
        for far in ([0.4, 0.5, 0.6, 1.2], [4, 4.5], [9.1], [np.inf, np.nan])
    ),
    case("SelectV2", boolean(2, 1), f32(2, 3), f32(3)),
    case("Select", boolean(2, 3), f32(2, 3), f32(2, 3, low=0)),
    case("Select", boolean(2), f32(2, 3), f32(2, 3, low=0)).named("rows"),
    case("Add", np.array(["a", "b"], object), np.array(["x", ""], object)).named("strings"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
