"""The rules of `backends/caffe2/ops/math.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from tests.support.caffe2_support import Nets, Row, both, check, weight
from tests.support.cases import boolean, case, f32, f64, i32, i64

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 88.0, -88.0, np.inf, -np.inf, np.nan], np.float32)
WIDE = np.array([np.nan, -3.0, 0.5, 7.0])
HALF = f32(3, 4).astype(np.float16)
UNIT = f32(2, 5, low=-1, high=1)
POSITIVE = f32(2, 5, low=0.1, high=9)
NONZERO = i64(3, 4, low=1, high=6)

ROWS = both(
    [
        *(case(name, UNIT) for name in ("Acos", "Asin", "Atan", "Cos", "Sin", "Tan", "Erf", "Sinh", "Cosh")),
        *(case(name, f32(2, 5)) for name in ("Abs", "Ceil", "Exp", "Floor", "Neg", "Sign")),
        *(case(name, SPECIAL).named("special") for name in ("Abs", "Neg", "Sign", "Floor", "Ceil")),
        *(case(name, UNIT * 1e-3).named("small") for name in ("Asinh", "Atanh")),
        *(case(name, UNIT) for name in ("Asinh", "Atanh")),
        case("Atanh", np.array([1, -1, 0.5, np.nan], np.float32)).named("ends"),
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
        case("Clip", f32(3, 4), weight(np.float32(-1)), weight(np.float32(1))),
        case("Clip", f32(3, 4), None, weight(np.float32(0.5))),
        case("Clip", SPECIAL, None, weight(np.float32(0.5))).named("special"),
        case("Clip", SPECIAL, weight(np.float32(-1))).named("special least"),
        case("Clip", f32(3, 4), np.float32(-0.5), np.float32(0.25)).named("computed"),
        case("Clip", i64(3, 4), weight(np.int64(-1)), weight(np.int64(2))).named("int64"),
        case("Cast", f32(3, 4), to=ir.DataType.INT64),
        case("Cast", i64(3, 4), to=ir.DataType.FLOAT),
        case("Cast", f32(3, 4), to=ir.DataType.FLOAT16),
        case("Cast", HALF, to=ir.DataType.INT32),
        case("Cast", i64(3, 4), to=ir.DataType.BOOL),
        case("Cast", boolean(5), to=ir.DataType.UINT8),
        case("Cast", f32(3), to=ir.DataType.BFLOAT16).xfail("Caffe2 has no bfloat16"),
        case("CastLike", f32(3, 4), i32(1)),
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
        *(case(name, WIDE, WIDE[::-1].copy()).named("float64 with NaN") for name in ("Max", "Min")),
        case("Clip", WIDE, weight(np.float64(-1)), weight(np.float64(1))).named("float64 with NaN"),
        case("Sum", f32(3)),
        case("Pow", POSITIVE, weight(np.float32(2.5))),
        case("Pow", f32(3, 4), weight(np.float32(2))),
        case("Pow", f32(3, 4), weight(np.float32(3))),
        case("Pow", f32(3, 4), weight(np.float32(1))),
        *(case("Pow", POSITIVE, weight(np.float32(e))).named(f"{e}") for e in (np.inf, -np.inf, np.nan)),
        case("Pow", POSITIVE, weight(np.float32(0.5))),
        case("Pow", POSITIVE, f32(5)),
        case("Pow", i64(3, 4), weight(np.int64(3))),
        case("Pow", i64(3, 4, low=0), i64(4, low=0)).named("computed"),
        case("Mod", i64(3, 4), NONZERO),
        case("Mod", i64(3, 4), weight(-NONZERO)),
        case("Mod", i64(3, 4), NONZERO, fmod=1),
        case("Mod", f64(3), f64(3), fmod=1).xfail("a remainder of float64"),
        case("Pow", i64(2, 5), np.array([0, 1, 2, 5, 20])),
        case("Pow", i32(6), np.array([0, 1, 2, 3, 5, 9], np.int32)),
        case("Pow", i64(6), np.array([0, 1, 2, 3, 5, 9], np.float32)).named("float exponent"),
        case("Mod", f32(3, 4, low=-50, high=50), f32(4), fmod=1).named("float"),
        case("Mod", f32(3, 4).astype(np.float16), f32(4).astype(np.float16), fmod=1).named("float16"),
        case(
            "Mod",
            np.array([1e30, -1e30, 5, 5, np.inf, 3], np.float32),
            np.array([3, 7.7, np.inf, 0, 1, np.nan], np.float32),
            fmod=1,
        ).named("far"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
