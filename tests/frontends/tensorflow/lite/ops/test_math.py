"""The rules of `frontends/tensorflow/lite/ops/math.py` against ai-edge-litert."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.lite.ops.lite_files import Result, densified, handmade, schema
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case, lite_case
from tests.support.cases import Case, f32, i32, params

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


X = f32(2, 3, 4)
POSITIVE = f32(2, 3, 4, low=0.1)
INTEGERS = i32(2, 3, 4)
BEYOND = np.float32(
    [-1e19, -3e9, -70000, -250, -1.5, -0.5, 0.5, 127.5, 300.7, 70000, 3e9, 1e19, np.inf, -np.inf, np.nan]
)
Q = "int8"

ROWS = [
    lite_case("ABS", tf.abs, X),
    lite_case("CEIL", tf.math.ceil, X),
    lite_case("COS", tf.cos, X),
    lite_case("EXP", tf.exp, X),
    lite_case("FLOOR", tf.floor, X),
    lite_case("LOG", tf.math.log, POSITIVE),
    lite_case("NEG", tf.negative, X),
    lite_case("ROUND", tf.round, X),
    lite_case("RSQRT", tf.math.rsqrt, POSITIVE),
    lite_case("SIGN", tf.sign, X),
    lite_case("SIN", tf.sin, X),
    lite_case("SQRT", tf.sqrt, POSITIVE),
    lite_case("SQUARE", tf.square, X),
    lite_case("SELECT", tf.nn.selu, X),
    lite_case("LOGICAL_NOT", tf.logical_not, X > 0),
    lite_case("CAST", lambda x: tf.cast(x, tf.int32), X),
    lite_case("CAST", lambda x: tf.cast(x, tf.bool), X),
    *(
        lite_case("CAST", lambda x, kind=kind: tf.cast(x, kind), BEYOND).named(f"beyond {kind}")
        for kind in ("int8", "uint8", "int16", "uint16", "int32", "int64")
    ),
    lite_case("CAST", lambda x: tf.cast(x, tf.float32), INTEGERS),
    *(
        file_case(
            "CAST",
            handmade(
                "CAST",
                [Result((1, 4), before, scale=[0.5], zero=[1])],
                [Result((1, 4), after)],
                ("Cast", {"inDataType": getattr(schema.TensorType, before.upper()), "outDataType": number}),
            ),
            np.array([[3, 0, 5, 100]], before),
        ).named(f"{before} with a scale to {after}")
        for before in ("int8", "uint8")
        for after, number in (("float32", schema.TensorType.FLOAT32), ("int32", schema.TensorType.INT32))
    ),
    lite_case("ADD", tf.add, X, f32(4)),
    lite_case("ADD", tf.add, INTEGERS, i32(3, 1)),
    lite_case("ADD", lambda x, y: tf.nn.relu(x + y), X, f32(4)),
    lite_case("SUB", tf.subtract, X, f32(3, 4)),
    lite_case("SUB", lambda x, y: tf.nn.relu6(x - y), X, f32(3, 4)),
    lite_case("MUL", tf.multiply, X, f32(1, 3, 1)),
    lite_case("DIV", tf.divide, X, POSITIVE),
    lite_case("MAXIMUM", tf.maximum, X, f32(4)),
    lite_case("MINIMUM", tf.minimum, X, f32(4)),
    lite_case("POW", tf.pow, POSITIVE, f32(4)),
    lite_case("FLOOR_DIV", tf.math.floordiv, X, POSITIVE),
    lite_case("FLOOR_DIV", tf.math.floordiv, INTEGERS, i32(4, low=1, high=4)),
    lite_case("FLOOR_MOD", tf.math.floormod, INTEGERS, i32(4, low=1, high=4)),
    lite_case("FLOOR_MOD", tf.math.floormod, X, POSITIVE),
    lite_case("SQUARED_DIFFERENCE", tf.math.squared_difference, X, f32(4)),
    lite_case("ATAN2", tf.atan2, X, f32(2, 3, 4, low=-1)),
    lite_case("EQUAL", tf.equal, INTEGERS, i32(4)),
    lite_case("NOT_EQUAL", tf.not_equal, INTEGERS, i32(4)),
    lite_case("LESS", tf.less, X, f32(4)),
    lite_case("LESS_EQUAL", tf.less_equal, INTEGERS, i32(4)),
    lite_case("GREATER", tf.greater, X, f32(4)),
    lite_case("GREATER_EQUAL", tf.greater_equal, INTEGERS, i32(4)),
    lite_case("LOGICAL_AND", tf.logical_and, X > 0, X > 1),
    lite_case("LOGICAL_OR", tf.logical_or, X > 0, X > 1),
    lite_case("BITWISE_XOR", tf.bitwise.bitwise_xor, INTEGERS, i32(4)),
    lite_case("RIGHT_SHIFT", tf.bitwise.right_shift, np.uint8([200, 7]), np.uint8([3, 1])),
    lite_case("ADD_N", lambda *x: tf.add_n(list(x)), X, f32(2, 3, 4, low=1), f32(2, 3, 4, low=0)),
    lite_case("SELECT", lambda c, x, y: tf.raw_ops.Select(condition=c, x=x, y=y), X > 0, X, f32(2, 3, 4, low=1)),
    lite_case("SELECT", lambda c, x, y: tf.raw_ops.Select(condition=c, x=x, y=y), f32(2) > 0, X, f32(2, 3, 4, low=1)),
    lite_case("SELECT_V2", tf.where, f32(3, 1) > 0, X, f32(4)),
    lite_case("ADD", tf.add, X, f32(2, 3, 4, low=-1), quantized=Q),
    lite_case("MUL", tf.multiply, X, f32(4), quantized=Q),
    lite_case("COMPLEX_ABS", lambda x: tf.abs(tf.signal.rfft2d(x)), f32(2, 4, 8)),
    lite_case("REAL", lambda x: tf.math.real(tf.signal.rfft2d(x)), f32(2, 4, 8)),
    lite_case("IMAG", lambda x: tf.math.imag(tf.signal.rfft2d(x)), f32(2, 4, 8)),
    file_case("DENSIFY", densified(), f32(2, 6)),
    file_case(
        "FAKE_QUANT",
        handmade("FAKE_QUANT", [X], [Result(X.shape)], ("FakeQuant", {"min": -1.0, "max": 1.5, "numBits": 8})),
        X,
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)
