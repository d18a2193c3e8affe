"""Cases of the TensorFlow frontend: elementwise arithmetic, reductions and searches.

Arrays are inputs; numbers and lists are constants, int32 unless they are floats.
"""

from __future__ import annotations

import numpy as np

from tests.support.cases import boolean, case, f32, i32, i64

POSITIVE = f32(2, 5, low=0.1, high=3.0)
TINY = f32(2, 5, low=-1e-4, high=1e-4)
PAIR = (f32(2, 3), f32(3))
INTS = (i32(3, 4, low=-9), i32(4, low=1))

UNARY = [
    *(
        case(name, f32(2, 3))
        for name in [
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
            "Relu",
            "Relu6",
            "Elu",
            "Selu",
            "Rint",
            "Round",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sinh",
            "Softplus",
            "Softsign",
            "Square",
            "Tan",
            "Tanh",
            "LogSoftmax",
            "Softmax",
            "Identity",
            "StopGradient",
            "PreventGradient",
            "Snapshot",
            "L2Loss",
            "ZerosLike",
            "OnesLike",
            "Expm1",
        ]
    ),
    *(case(name, f32(2, 3, low=-0.9, high=0.9)) for name in ["Acos", "Asin", "Atanh", "Log1p"]),
    *(case(name, POSITIVE) for name in ["Log", "Sqrt", "Rsqrt", "Reciprocal", "Inv"]),
    *(case(name, TINY).named("tiny") for name in ["Log1p", "Expm1"]),
    case("Log1p", np.array([-1, -2, 0, np.inf, 1e30], np.float32)).named("edges"),
    case("Expm1", np.array([-np.inf, -100, 0, 50, np.inf], np.float32)).named("edges"),
    case("Acosh", f32(2, 3, low=1.1, high=4.0)),
    case("Round", np.array([0.5, 1.5, 2.5, -0.5], np.float32)).named("half"),
    *(case(name, np.array([1, np.nan, np.inf, -np.inf], np.float32)) for name in ["IsNan", "IsInf", "IsFinite"]),
    case("LogicalNot", boolean(2, 3)),
    case("Invert", i32(2, 3)),
    case("Abs", i64(2, 3)).named("int64"),
    case("LeakyRelu", f32(2, 3), alpha=0.3),
    case("DebugGradientIdentity", f32(2, 3)),
    case("CheckNumerics", f32(2, 3), message="x"),
    case("EnsureShape", f32(2, 3), shape=[2, None]),
    case("PlaceholderWithDefault", f32(2, 3), shape=[2, 3]),
    case("IdentityN", [f32(2, 3), i32(4)]),
    case("Cast", f32(2, 3), DstT="int32"),
    case("Cast", f32(2, 3), DstT="bool").named("bool"),
    case("Cast", i64(2, 3), DstT="float64").named("double"),
    case("Cast", f32(2, 3), DstT="float16").named("half"),
    case("Cast", f32(2, 3), DstT="bfloat16", Truncate=True).named("truncated").xfail("ONNX rounds"),
]
BINARY = [
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
    *(
        case(name, np.array([3, 200, 7], np.uint8), np.array([1, 2, 3], np.uint8))
        for name in ["LeftShift", "RightShift"]
    ),
    case("ApproximateEqual", f32(2, 3), f32(2, 3) + np.float32(0.01), tolerance=0.02),
    case("AddN", [f32(2, 3), f32(2, 3, low=0), f32(2, 3, low=1)]),
    case("AccumulateNV2", [f32(2, 3), f32(2, 3, low=0)], shape=[2, 3]),
    case("ClipByValue", f32(2, 3), -0.5, 0.5),
    case("SelectV2", boolean(2, 1), f32(2, 3), f32(3)),
    case("Select", boolean(2, 3), f32(2, 3), f32(2, 3, low=0)),
    case("Select", boolean(2), f32(2, 3), f32(2, 3, low=0)).named("rows"),
]
REDUCE = [
    *(
        case(name, f32(2, 3, 4), [0, -1], keep_dims=keep).named(f"keep {keep}")
        for keep in (False, True)
        for name in ["Sum", "Prod", "Max", "Min", "Mean", "EuclideanNorm"]
    ),
    *(case(name, boolean(3, 4), [1]) for name in ("All", "Any")),
    case("Sum", i32(2, 3), 1).named("int32"),
    case("Mean", f32(2, 3), np.zeros(0, np.int32).tolist()).named("none"),
    *(
        case(name, f32(3, 5), -1, output_type=kind).named(kind)
        for name in ("ArgMax", "ArgMin")
        for kind in ("int32", "int64")
    ),
    case("TopKV2", f32(3, 5), 2),
    *(case("Cumprod", f32(3, 5), 1, exclusive=e, reverse=r) for e in (False, True) for r in (False, True)),
    case("InTopKV2", f32(3, 5), np.array([0, 3, 9], np.int32), 2),
    *(case("Cumsum", f32(3, 5), 1, exclusive=e, reverse=r) for e in (False, True) for r in (False, True)),
]
MATH = [*UNARY, *BINARY, *REDUCE]
