"""Rows of the Caffe2 table: cells by their coordinates, searches, integers, quantisation, products of many dims."""

from __future__ import annotations

import numpy as np

from tests.support.caffe2_support import RUNTIME, weight
from tests.support.cases import boolean, case, f32, f64, i32, i64

SQUARE = f32(4, 5)
PLACES = np.array([[0, 2, -1], [1, -2, 0]])
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]], [[0.2, 0.8, 0.7, 0.1, 0.4, 0.9]]], np.float32)
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1],
                   [0, 100, 1, 101]], [[0, 1, 1, 0], [0, 0.6, 1, 1.6], [1, 1, 0, 2], [3, 3, 4, 4], [3, 3, 4, 4.2],
                                       [9, 9, 9, 9]]], np.float32)  # fmt: skip


def u8(*shape: int) -> np.ndarray:
    return i64(*shape, low=0, high=256).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return i64(*shape, low=-128, high=128).astype(np.int8)


SCATTERED = [
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

SEARCHES = [
    case("Compress", f32(3, 4), boolean(3) | (np.arange(3) == 1), axis=0),
    case("Compress", f32(3, 4, 2), np.array([False, True, True]), axis=1).named("short"),
    (case("Compress", i64(3, 4), boolean(12) | (np.arange(12) == 5)).named("flat"), RUNTIME),
    (case("NonZero", i64(3, 4, low=-1, high=2)), RUNTIME),
    (case("NonZero", boolean(2, 3, 4) | (np.arange(4) == 1)), RUNTIME),
    (case("NonZero", f32(6).round()), RUNTIME),
    (case("ReverseSequence", f32(5, 3, 2), weight(5, 1, 3)), RUNTIME),
    (case("ReverseSequence", i64(3, 5), np.array([5, 1, 3]), batch_axis=0, time_axis=1), RUNTIME),
    *((case("Unique", i64(9, low=0, high=4), sorted=s, outputs=4).named(f"sorted {s}"), RUNTIME) for s in (0, 1)),
    (case("Unique", f32(4, 3).round(), outputs=4).named("flat"), RUNTIME),
    (case("Unique", i64(6, 3, low=0, high=2), axis=0, outputs=4).named("rows"), RUNTIME),
    (case("Unique", i64(2, 6, low=0, high=2), axis=1, outputs=4).named("columns"), RUNTIME),
    *(
        (
            case(
                "NonMaxSuppression",
                BOXES,
                SCORES,
                weight(np.int64(most)),
                weight(np.float32(0.5)),
                weight(np.float32(0.25)),
            ),
            RUNTIME,
        )
        for most in (1, 3, 9)
    ),
    (case("NonMaxSuppression", BOXES, SCORES, np.array(2), np.array(0.3, np.float32)).named("computed"), RUNTIME),
    (case("NonMaxSuppression", BOXES, SCORES, weight(np.int64(3)), center_point_box=1).named("centre"), RUNTIME),
]

SHIFTS = np.array([0, 1, 3, 7, 9, 2], np.uint8)

INTEGERS = [
    *(case("BitShift", u8(6), SHIFTS, direction=d).named(d) for d in ("LEFT", "RIGHT")),
    *(
        case("BitShift", u8(6).astype(np.uint16) * 200, SHIFTS.astype(np.uint16), direction=d)
        for d in ("LEFT", "RIGHT")
    ),
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
    case("Range", np.int64(9), np.int64(2), weight(np.int64(-3))),
    case("Range", np.int32(1), np.int32(8), np.int32(2)).named("computed"),
    case("Range", np.int64(2), np.int64(9), np.int64(-3)).named("nothing"),
]

SCALE, ZERO = weight(np.float32(0.05)), weight(np.uint8(120))
ROWS = [weight(np.array([0.05, 0.1, 0.02], np.float32)), weight(np.array([0, 128, 7], np.uint8))]

QUANTISED = [
    case("QuantizeLinear", f32(3, 40, low=-9, high=9), SCALE, ZERO),
    case("QuantizeLinear", f32(3, 40, low=-9, high=9), SCALE),
    case("QuantizeLinear", f32(3, 5, low=-9, high=9), weight(np.float32(0.5)), weight(np.int16(3))).named("int16"),
    case("QuantizeLinear", f32(4, 3, 2), *ROWS).named("axis"),
    case("DequantizeLinear", u8(3, 4), SCALE, ZERO),
    case("DequantizeLinear", i8(3, 4), SCALE),
    case("DequantizeLinear", u8(4, 3, 2), *ROWS).named("axis"),
    (case("DequantizeLinear", u8(4, 6), weight(f32(4, 3, low=0.1)), axis=1, block_size=2).named("blocks"), RUNTIME),
    case("DynamicQuantizeLinear", f32(3, 4), outputs=3),
    case("MatMulInteger", u8(3, 4), u8(4, 2), fixed=(1,)),
    case("MatMulInteger", u8(3, 700), weight(i8(700, 2)), weight(np.uint8(128)), fixed=(1,)).named("long"),
    case(
        "QLinearMatMul", u8(3, 4), SCALE, ZERO, weight(u8(4, 2)), SCALE, ZERO, weight(np.float32(0.5)), ZERO, fixed=(1,)
    ),
    case("ConvInteger", u8(1, 2, 5, 5), weight(u8(3, 2, 3, 3)), weight(np.uint8(10)), pads=[1] * 4),
    case("ConvInteger", u8(1, 90, 4, 4), weight(u8(3, 90, 2, 2))).named("deep"),
    case("QLinearConv", u8(1, 2, 5, 5), SCALE, ZERO, weight(u8(3, 2, 3, 3)), SCALE, ZERO, weight(np.float32(2)), ZERO),
    case(
        "QLinearConv",
        u8(1, 2, 5, 5),
        SCALE,
        ZERO,
        weight(i8(3, 2, 3, 3)),
        ROWS[0],
        weight(np.zeros(3, np.int8)),
        weight(np.float32(2)),
        ZERO,
        weight(i32(3)),
        pads=[1] * 4,
    ).named("channels"),
]

PRODUCTS = [
    (case("ReduceProd", f32(3, 7, 2), weight(1)), RUNTIME),
    (case("ReduceProd", i64(3, 5), keepdims=0), RUNTIME),
    (case("CumSum", f64(3, 5), weight(np.int64(1)), exclusive=1).named("float64"), RUNTIME),
    (case("CumSum", i32(3, 5), weight(np.int64(0)), reverse=1).named("int32"), RUNTIME),
    case("Einsum", f32(2, 3, 4), f32(2, 4, 5), equation="bij,bjk->bik"),
    case("Einsum", f32(3, 4), equation="ij->ji").named("transpose"),
    case("Einsum", f32(3, 4), equation="ij->").named("sum"),
    case("Einsum", f32(3), f32(4), equation="i,j->ij").named("outer"),
    case("Einsum", i64(3, 4), i64(4), equation="ij,j").named("integers"),
    case("Einsum", f64(2, 3, 4), f64(4, 5), equation="...ij,jk->...ik").named("float64"),
    (case("Einsum", f32(4, 4), equation="ii->i").named("diagonal"), RUNTIME),
    case("Einsum", f32(2, 3, 4, 5), f32(2, 6, 4, 5), equation="bqhd,bkhd->bhqk").named("heads"),
    case("Einsum", f32(2, 3, 4), f32(3, 4, 5), f32(5, 2), equation="aij,ijk,kb->ab").named("three"),
    *((case("Det", f32(2, n, n)).named(f"{n}"), RUNTIME) for n in (1, 2, 3, 6)),
    (case("Det", np.array([[0, 2, 1], [3, 0, 1], [0, 0, 5]], np.float32)).named("exchanged"), RUNTIME),
    (case("Det", np.zeros((3, 3), np.float32)).named("singular"), RUNTIME),
]

DATA_CASES = [*SCATTERED, *SEARCHES, *INTEGERS, *QUANTISED, *PRODUCTS]
