"""The rules of `backends/tensorflow/ops/binary.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import SPECIAL, const, f16, ints, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, i32, i64, params

ENDS = np.array([2**31 - 1, -(2**31), -(2**31) + 1, 7, -7, 0], np.int32)
BY = np.array([3, 3, -2, -2, 2, 5], np.int32)
FAR = np.array([2**63 - 1, -(2**63) + 1, 10**18 + 7, -(10**17) - 1, 2**62, 2**53 + 1, -(2**63), 8], np.int64)
BY_FAR = np.array([1, -1, 3, -7, 2**40 + 1, -(2**31), 2**63 - 1, -1], np.int64)

ROWS = [
    case("Add", f32(1, 1), const(f32(1, 1), np.float32)).named("of one"),
    case("Add", f32(1, 4), f32(1, 4)).named("rows"),
    *(case("Div", ENDS.astype(kind), BY.astype(kind)).named(f"ends {kind.__name__}") for kind in (np.int32, np.int64)),
    case("Mod", ENDS, BY, fmod=1).named("ends"),
    *(case("Div", FAR[1:] // size, BY_FAR[1:]).named(f"far ends over {size}") for size in (1, 2**20, 2**40)),
    case("Div", FAR, BY_FAR).named("far ends"),
    case("Div", ENDS[:5], const([-1], np.int32)).named("opposites"),
    case("Mod", FAR, BY_FAR, fmod=1).named("far ends"),
    case("Mod", SPECIAL[:, None], np.array([0.75, -0.75, 3e38, np.inf], np.float32), fmod=1).named("special"),
    *(case(name, f32(2, 3, 4), f32(3, 1)) for name in ("Add", "Sub", "Mul", "Div")),
    *(case(name, i64(2, 3), i64(2, 3, low=1)) for name in ("Add", "Sub", "Mul", "Div", "Mod")),
    *(
        case("Sub", const(np.zeros((), dtype)), np.array([0, 1, 200], dtype)).named(f"of {dtype.__name__} to zero")
        for dtype in (np.uint8, np.uint16, np.uint32)
    ),
    *(
        case(name, np.array([1, 2**40, 2**63 + 7], np.uint64), np.array([3, 2**33, 5], np.uint64)).named("of 64 bits")
        for name in ("Add", "Sub", "Mul", "Div", "Max", "Greater", "Equal")
    ),
    *(case(name, f32(2, 3), f32(3)) for name in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")),
    *(
        case(name, np.array([3, 0, 100, 7], dtype), np.array([3, 1, 99, 7], dtype)).named(f"of {dtype.__name__}")
        for name, dtypes in {
            **dict.fromkeys(("Equal", "Less"), (np.uint8, np.int8, np.uint16, np.int16, np.uint32)),
            **dict.fromkeys(("Greater", "GreaterOrEqual", "LessOrEqual"), (np.uint8, np.int16)),
        }.items()
        for dtype in dtypes
    ),
    *(case(name, boolean(2, 3), boolean(3)) for name in ("And", "Or", "Xor", "Equal")),
    *(case(name, i32(6), i32(6, low=0)) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    case("Add", f32(4, 5), f32(1, 5)),
    case("Add", f32(1, 5), f32(4, 5)),
    case("Div", i32(8, low=-9), i32(8, low=2)),
    case("Div", f16(4), f16(4)),
    case("Equal", i64(6), i64(6)),
    case("Mod", f32(6), f32(6, low=0.5), fmod=1),
    case("Mod", i32(9), number(3, np.int32), fmod=1),
    case("Mod", i32(9), number(-3, np.int32)),
    case("Mod", i64(9).astype(np.int8), number(3, np.int8)),
    case("Pow", f32(5, low=0.1), f32(5)),
    case("Pow", f32(5), number(2)),
    case("Pow", f32(5), number(2, np.int64)),
    case("Pow", i64(5), number(2, np.float32)),
    case("Pow", i32(5), number(3, np.int32)),
    *(
        case("Pow", np.array([2, 1, -1, -1, 3, -7], a), np.array([-1, -2, -3, -4, 2, -1], b)).named(
            f"{a.__name__} to negative {b.__name__}"
        )
        for a in (np.int32, np.int64)
        for b in (np.int32, np.int64)
    ),
    case("BitShift", i64(5, low=0).astype(np.uint8), ints(0, 1, 2, 3, 7).astype(np.uint8), direction="LEFT"),
    case("BitShift", i64(5, low=0).astype(np.uint32), ints(0, 1, 2, 3, 4).astype(np.uint32), direction="RIGHT"),
    *(case(name, f32(2, 3), f32(3), f32(2, 1)) for name in ("Max", "Min", "Sum", "Mean")),
    *(case(name, f32(2, 3)) for name in ("Max", "Min", "Sum", "Mean")),
    case("Max", SPECIAL, f32(7)),
    case("Min", SPECIAL, f32(7)),
    case("Max", i64(5), i64(1)),
    case("Where", boolean(2, 1), f32(2, 3), f32(3)),
    case("Where", boolean(3), i64(3), i64(1)),
    case("Where", boolean(3), const(2), const(3)).named("of integers"),
    case("Where", boolean(3), const(2.0, np.float64), const(0.1, np.float64)).named("of float64"),
    *(case(name, i64(3), const(6)).named("number") for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    case("BitwiseXor", const(1, np.int32), i32(3)).named("number first"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
