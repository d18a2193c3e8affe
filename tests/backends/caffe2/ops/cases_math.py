"""Rows of the Caffe2 table: elementwise operators, matrix products and reductions."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tests.support.caffe2_support import RUNTIME, weight
from tests.support.cases import boolean, case, f32, f64, i32, i64

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 88.0, -88.0, np.inf, -np.inf, np.nan], np.float32)
HALF = f32(3, 4).astype(np.float16)
UNIT = f32(2, 5, low=-1, high=1)
POSITIVE = f32(2, 5, low=0.1, high=9)

ELEMENTWISE = [
    *(case(name, UNIT) for name in ("Acos", "Asin", "Atan", "Cos", "Sin", "Tan", "Erf", "Softsign", "Sinh", "Cosh")),
    *(case(name, f32(2, 5)) for name in ("Abs", "Ceil", "Exp", "Floor", "Neg", "Sign", "Sigmoid", "Tanh")),
    *(case(name, SPECIAL).named("special") for name in ("Abs", "Neg", "Relu", "Sign", "Softplus", "Floor", "Ceil")),
    *(case(name, UNIT * 1e-3).named("small") for name in ("Asinh", "Atanh", "Softplus")),
    *(case(name, UNIT) for name in ("Asinh", "Atanh")),
    *(case(name, np.array([1, 1.0001, 2, 50, 1e8, 1e12, 1e30, np.inf], np.float32)) for name in ("Acosh", "Asinh")),
    case("Log", POSITIVE),
    case("Reciprocal", POSITIVE),
    case("Sqrt", POSITIVE),
    case("Sqrt", f64(3, 3, low=0, high=4)),
    case("Abs", i64(3, 4)),
    case("Abs", f64(3, 4)),
    case("Neg", i32(3, 4).astype(np.int8)),
    case("Exp", HALF).named("float16"),
    case("Exp", f64(2, 2)).xfail("Caffe2 has no float64 kernel"),
    case("Round", np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.2, 4194305.5, 1e30, 0.49999997], np.float32)),
    case("Round", np.array([-2.5, 0.5, 1.5, 4503599627370497.5], np.float64)),
    case("Relu", f32(2, 3, 4)),
    case("Relu", i32(2, 3)),
    case("LeakyRelu", f32(2, 3), alpha=0.2),
    case("LeakyRelu", f32(2, 3)),
    case("ThresholdedRelu", f32(2, 9), alpha=0.7),
    case("Elu", f32(2, 9), alpha=0.7),
    case("Selu", f32(2, 9)),
    case("Selu", f32(2, 9), alpha=2.0, gamma=3.0),
    case("Celu", f32(2, 9), alpha=2.0),
    case("PRelu", f32(2, 3, 4), weight(f32(3, 1))),
    case("PRelu", f32(2, 3, 4, 5), weight(f32(3, 1, 1))),
    case("HardSigmoid", f32(2, 9)),
    case("HardSigmoid", f32(2, 9), alpha=0.5, beta=0.6),
    case("HardSwish", f32(4, 9, low=-5, high=5)),
    case("Gelu", f32(4, 9, low=-5, high=5)),
    case("Gelu", f32(4, 9, low=-5, high=5), approximate="tanh"),
    case("Softplus", f32(4, 9, low=-30, high=30)),
    case("Mish", f32(4, 9, low=-5, high=5)),
    case("Shrink", f32(4, 9), lambd=1.0, bias=0.5),
    case("Softmax", f32(2, 3, 4)),
    case("Softmax", f32(2, 3, 4), axis=1),
    case("Softmax", f32(2, 3), axis=0),
    case("LogSoftmax", f32(2, 10), axis=1),
    case("LogSoftmax", f32(2, 3, 4, low=-200, high=200), axis=1),
    case("Clip", f32(3, 4), weight(np.float32(-1)), weight(np.float32(1))),
    case("Clip", f32(3, 4), None, weight(np.float32(0.5))),
    case("Clip", SPECIAL, None, weight(np.float32(0.5))).named("special"),
    case("Clip", SPECIAL, weight(np.float32(-1))).named("special least"),
    case("Celu", SPECIAL).named("special"),
    case("Clip", f32(3, 4), np.float32(-0.5), np.float32(0.25)).named("computed"),
    case("Clip", i64(3, 4), weight(np.int64(-1)), weight(np.int64(2))).named("int64"),
    case("IsNaN", SPECIAL),
    case("IsInf", SPECIAL),
    case("IsInf", SPECIAL, detect_negative=0),
    case("Identity", f32(2, 3)),
    case("Dropout", f32(2, 3)),
    case("Dropout", f32(2, 3), outputs=2).named("mask"),
    case("Cast", f32(3, 4), to=ir.DataType.INT64),
    case("Cast", i64(3, 4), to=ir.DataType.FLOAT),
    case("Cast", f32(3, 4), to=ir.DataType.FLOAT16),
    case("Cast", HALF, to=ir.DataType.INT32),
    case("Cast", i64(3, 4), to=ir.DataType.BOOL),
    case("Cast", boolean(5), to=ir.DataType.UINT8),
    case("Cast", f32(3), to=ir.DataType.BFLOAT16).xfail("Caffe2 has no bfloat16"),
    case("CastLike", f32(3, 4), i32(1)),
    case("Not", boolean(3, 4)),
    case("BitwiseNot", i64(3, 4)),
    case("BitwiseNot", i64(3, 4, low=0, high=200).astype(np.uint8)),
]

NONZERO = i64(3, 4, low=1, high=6)

BINARY = [
    *(case(name, f32(2, 3, 4), f32(3, 1)) for name in ("Add", "Sub", "Mul", "Div")),
    *(case(name, f32(2, 3), f32(4, 1, 3)).named("rank") for name in ("Add", "Max", "Min")),
    *(case(name, i64(3, 4), NONZERO).named("int64") for name in ("Add", "Sub", "Mul", "Div")),
    *(case(name, f64(3, 4), f64(4)).named("float64") for name in ("Add", "Sub", "Mul", "Div")),
    *(case(name, HALF, HALF[:1]).named("float16") for name in ("Add", "Sub", "Mul")),
    case("Add", i32(3, 4).astype(np.int8), np.full((3, 4), 125, np.int8)).named("wraps"),
    case("Add", f32(3, 4), weight(np.float32(2))).named("scalar"),
    case("Div", i64(3), weight(0, 1, 2)).xfail("an integer division by zero"),
    *(case(name, f32(3, 4), f32(3, 4)).named("equal") for name in ("Max", "Min")),
    *(case(name, f32(3, 4), f32(4), f32(2, 1, 1)).named("three") for name in ("Max", "Min", "Sum", "Mean")),
    *(case(name, i64(3, 4), i64(4)).named("int64") for name in ("Max", "Min")),
    case("Sum", f32(3)),
    case("Pow", POSITIVE, weight(np.float32(2.5))),
    case("Pow", f32(3, 4), weight(np.float32(2))),
    case("Pow", f32(3, 4), weight(np.float32(3))),
    case("Pow", f32(3, 4), weight(np.float32(1))),
    case("Pow", POSITIVE, weight(np.float32(0.5))),
    case("Pow", POSITIVE, f32(5)),
    case("Pow", i64(3, 4), weight(np.int64(3))),
    case("Pow", i64(3, 4, low=0), i64(4, low=0)).named("computed"),
    case("Mod", i64(3, 4), NONZERO),
    case("Mod", i64(3, 4), weight(-NONZERO)),
    case("Mod", i64(3, 4), NONZERO, fmod=1),
    case("Mod", f64(3), f64(3), fmod=1).xfail("a remainder of float64"),
    *(case(name, f32(3, 4), f32(4)) for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")),
    *(case(name, i64(3, 4), i64(4)).named("int64") for name in ("Equal", "Greater", "LessOrEqual")),
    case("Equal", boolean(3, 4), boolean(4)).named("bool"),
    *(case(name, boolean(3, 4), boolean(4)) for name in ("And", "Or", "Xor")),
    *(case(name, i64(3, 4), i64(4)) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    case("BitwiseXor", i64(3, low=0, high=99).astype(np.uint8), i64(3, low=0, high=255).astype(np.uint8)),
    case("Where", boolean(3, 4), f32(3, 4), f32(3, 4)),
    case("Where", boolean(3, 1), f32(4), weight(np.float32(-np.inf))),
    case("Where", boolean(4), SPECIAL.reshape(3, 4), f32(1)).named("special"),
    case("Where", boolean(3, 1), i64(4), i64(2, 1, 1)).named("int64"),
    case("Where", boolean(3, 1), HALF, HALF[:1]).named("float16"),
    case("Where", boolean(3, 1), boolean(4), boolean(3, 4)).named("bool"),
]

LINEAR = [
    case("MatMul", f32(3, 4), weight(f32(4, 5))),
    case("MatMul", f32(2, 3, 4), weight(f32(4, 5))),
    case("MatMul", f32(2, 3, 4), f32(2, 4, 5)),
    case("MatMul", f32(2, 3, 4, 5), f32(3, 5, 6)).named("broadcast"),
    case("MatMul", f32(4), f32(4)).named("dot"),
    case("MatMul", f32(4), f32(2, 4, 3)).named("vector left"),
    case("MatMul", f32(2, 3, 4), f32(4)).named("vector right"),
    case("MatMul", weight(f32(3, 4)), f32(4, 5)).named("weight left"),
    case("MatMul", HALF, weight(HALF.T.copy())).named("float16"),
    case("MatMul", i64(2, 2), i64(2, 2)).xfail("Caffe2 has float32's only"),
    case("Gemm", f32(3, 4), weight(f32(5, 4)), weight(f32(5)), transB=1),
    case("Gemm", f32(3, 4), weight(f32(4, 5)), weight(f32(5))),
    case("Gemm", f32(3, 4), weight(f32(4, 5))),
    case("Gemm", f32(3, 4), weight(f32(4, 5)), weight(f32(1))).named("one bias"),
    case("Gemm", f32(4, 3), f32(5, 4), f32(3, 5), transA=1, transB=1, alpha=0.5, beta=2.0),
    case("Gemm", f32(4, 3), f32(3, 5)),
]

AXES = weight(1)

REDUCTIONS = [
    *(
        case(name, f32(2, 3, 4, low=0.1), AXES, keepdims=0)
        for name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                     "ReduceLogSum", "ReduceLogSumExp")
    ),
    *(case(name, f32(2, 3, 4, 5), weight(-1, -2)).named("keep") for name in ("ReduceSum", "ReduceMean", "ReduceMax")),
    *(case(name, f32(2, 3, 4)).named("all") for name in ("ReduceSum", "ReduceMean", "ReduceLogSumExp")),
    case("ReduceSum", f32(2, 3), keepdims=0).named("scalar"),
    case("ReduceSum", i64(2, 3, 4), AXES).named("int64"),
    case("ReduceMin", f64(2, 3, 4), AXES).named("float64"),
    case("ReduceSumSquare", f32(2, 3), noop_with_empty_axes=1).named("noop"),
    case("ReduceSum", f32(2, 3), i64(1, low=1, high=2)).xfail("the axes are computed"),
    *(case(name, f32(2, 3, 4), axis=1, keepdims=0) for name in ("ArgMax", "ArgMin")),
    *(case(name, f32(2, 3, 4), axis=-1) for name in ("ArgMax", "ArgMin")),
    (case("ArgMax", i64(3, 9), axis=1, select_last_index=1).named("last"), RUNTIME),
]  # fmt: skip

MATH_CASES = [*ELEMENTWISE, *BINARY, *LINEAR, *REDUCTIONS]
