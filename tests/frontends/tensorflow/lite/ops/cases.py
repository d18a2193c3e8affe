"""Rows for TensorFlow Lite's operators on real numbers: functions that the converter writes with each."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.lite.ops.lite_support import lite_case
from tests.support.cases import f32, i32

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")

X = f32(2, 3, 4)
POSITIVE = f32(2, 3, 4, low=0.1)
PICTURE = f32(2, 7, 6, 3)
INTEGERS = i32(2, 3, 4)


def _unary(operator, function, x=X):
    return lite_case(operator, function, x)


UNARY = [
    _unary("ABS", tf.abs),
    _unary("CEIL", tf.math.ceil),
    _unary("COS", tf.cos),
    _unary("EXP", tf.exp),
    _unary("FLOOR", tf.floor),
    _unary("LOG", tf.math.log, POSITIVE),
    _unary("NEG", tf.negative),
    _unary("ROUND", tf.round),
    _unary("RSQRT", tf.math.rsqrt, POSITIVE),
    _unary("SIGN", tf.sign),
    _unary("SIN", tf.sin),
    _unary("SQRT", tf.sqrt, POSITIVE),
    _unary("SQUARE", tf.square),
    _unary("RELU", tf.nn.relu),
    _unary("RELU6", tf.nn.relu6, f32(2, 3, 4, low=-9, high=9)),
    _unary("ELU", tf.nn.elu),
    _unary("SELECT", tf.nn.selu),
    _unary("LOGISTIC", tf.sigmoid),
    _unary("TANH", tf.tanh),
    _unary("LOG_SOFTMAX", tf.nn.log_softmax),
    _unary("SOFTMAX", tf.nn.softmax),
    _unary("LEAKY_RELU", lambda x: tf.nn.leaky_relu(x, 0.3)),
    _unary("GELU", tf.nn.gelu),
    _unary("GELU", lambda x: tf.nn.gelu(x, approximate=True)),
    _unary("RELU_N1_TO_1", lambda x: tf.minimum(tf.maximum(x, -1.0), 1.0)),
    _unary("HARD_SWISH", lambda x: x * tf.nn.relu6(x + np.float32(3)) * np.float32(1 / 6), 2 * X),
    lite_case("ZEROS_LIKE", tf.zeros_like, X, dynamic=True),
    _unary("LOGICAL_NOT", tf.logical_not, X > 0),
    _unary("CAST", lambda x: tf.cast(x, tf.int32)),
    _unary("CAST", lambda x: tf.cast(x, tf.bool)),
    _unary("CAST", lambda x: tf.cast(x, tf.float32), INTEGERS),
    _unary("L2_NORMALIZATION", lambda x: tf.math.l2_normalize(x, -1)),
]

BINARY = [
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
]

REDUCE = [
    lite_case("SUM", lambda x: tf.reduce_sum(x, [0, 2]), X),
    lite_case("SUM", lambda x: tf.reduce_sum(x), INTEGERS),
    lite_case("MEAN", lambda x: tf.reduce_mean(x, [1, 2], keepdims=True), PICTURE),
    lite_case("REDUCE_MAX", lambda x: tf.reduce_max(x, -1), X),
    lite_case("REDUCE_MIN", lambda x: tf.reduce_min(x, 1), X),
    lite_case("REDUCE_PROD", lambda x: tf.reduce_prod(x, 2, keepdims=True), X),
    lite_case("REDUCE_ANY", lambda x: tf.reduce_any(x, 1), X > 1),
    lite_case("REDUCE_ALL", lambda x: tf.reduce_all(x, 1), X > -1),
    lite_case("ARG_MAX", lambda x: tf.argmax(x, 1, output_type=tf.int32), X),
    lite_case("ARG_MAX", lambda x: tf.argmax(x, -1), X),
    lite_case("ARG_MIN", lambda x: tf.argmin(x, 0), X),
    lite_case("CUMSUM", lambda x: tf.cumsum(x, 1, exclusive=True, reverse=True), X),
    lite_case("CUMSUM", lambda x: tf.cumsum(x, -1), X),
    lite_case("TOPK_V2", lambda x: tuple(tf.math.top_k(x, 2)), X),
    lite_case("BUCKETIZE", lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.5]), X),
    lite_case("UNIQUE", lambda x: tuple(tf.unique(x)), np.int32([4, 1, 4, 4, 2, 1])),
    lite_case("SEGMENT_SUM", lambda x: tf.math.segment_sum(x, np.int32([0, 0, 1])), f32(3, 2)),
    lite_case(
        "UNSORTED_SEGMENT_SUM", lambda x, i: tf.math.unsorted_segment_sum(x, i, 3), f32(4, 2), np.int32([2, 0, 0, 2])
    ),
    lite_case(
        "UNSORTED_SEGMENT_PROD", lambda x, i: tf.math.unsorted_segment_prod(x, i, 3), f32(4, 2), np.int32([2, 0, 0, 2])
    ),
    lite_case(
        "UNSORTED_SEGMENT_MAX", lambda x, i: tf.math.unsorted_segment_max(x, i, 3), f32(4, 2), np.int32([2, 0, 0, 1])
    ),
    lite_case(
        "UNSORTED_SEGMENT_MIN", lambda x, i: tf.math.unsorted_segment_min(x, i, 3), f32(4, 2), np.int32([2, 0, 0, 1])
    ),
    lite_case("BATCH_MATMUL", tf.matmul, f32(2, 3, 4), f32(2, 4, 5)),
    lite_case("BATCH_MATMUL", lambda x, y: tf.matmul(x, y, adjoint_b=True), f32(2, 3, 4), f32(2, 5, 4)),
    lite_case("BATCH_MATMUL", lambda x, y: tf.matmul(x, y, adjoint_a=True), f32(2, 4, 3), f32(2, 4, 5)),
]

K, BIAS = f32(3, 3, 3, 4), f32(4)
CONV = [
    lite_case("CONV_2D", lambda x: tf.nn.relu(tf.nn.conv2d(x, K, 1, "SAME") + BIAS), PICTURE),
    lite_case("CONV_2D", lambda x: tf.nn.conv2d(x, K, (2, 2), "SAME"), PICTURE),
    lite_case("CONV_2D", lambda x: tf.nn.conv2d(x, K, (2, 1), "VALID") + BIAS, PICTURE, dynamic=True),
    lite_case("CONV_2D", lambda x: tf.nn.conv2d(x, K, 1, "SAME", dilations=2), PICTURE),
    lite_case("CONV_2D", lambda x: tf.nn.conv2d(x, f32(3, 3, 2, 6), 1, "SAME"), f32(1, 5, 5, 4)).named("groups"),
    lite_case(
        "DEPTHWISE_CONV_2D",
        lambda x: tf.nn.relu6(tf.nn.depthwise_conv2d(x, f32(3, 3, 3, 2), (1, 2, 2, 1), "SAME")),
        PICTURE,
    ),
    lite_case(
        "DEPTHWISE_CONV_2D",
        lambda x: tf.nn.depthwise_conv2d(x, f32(2, 3, 3, 1), (1, 1, 1, 1), "VALID") + BIAS[:3],
        PICTURE,
    ),
    lite_case(
        "CONV_3D", lambda x: tf.nn.conv3d(x, f32(2, 2, 2, 3, 4), (1, 1, 2, 1, 1), "SAME") + BIAS, f32(1, 4, 5, 6, 3)
    ),
    lite_case(
        "CONV_3D_TRANSPOSE",
        lambda x: tf.nn.conv3d_transpose(x, f32(2, 2, 2, 4, 3), (1, 8, 10, 12, 4), (1, 2, 2, 2, 1), "SAME"),
        f32(1, 4, 5, 6, 3),
    ),
    lite_case(
        "TRANSPOSE_CONV",
        lambda x: tf.nn.conv2d_transpose(x, f32(3, 3, 4, 3), (2, 14, 12, 4), 2, "SAME") + BIAS,
        PICTURE,
    ),
    lite_case(
        "TRANSPOSE_CONV", lambda x: tf.nn.conv2d_transpose(x, f32(2, 3, 4, 3), (2, 14, 13, 4), 2, "VALID"), PICTURE
    ),
    lite_case("MAX_POOL_2D", lambda x: tf.nn.max_pool2d(x, (2, 3), (2, 1), "SAME"), PICTURE),
    lite_case("MAX_POOL_2D", lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), PICTURE, dynamic=True),
    lite_case("AVERAGE_POOL_2D", lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), PICTURE),
    lite_case("FULLY_CONNECTED", lambda x: tf.nn.relu(tf.matmul(x, f32(4, 5)) + f32(5)), f32(3, 4)),
    lite_case("FULLY_CONNECTED", lambda x: tf.matmul(x, f32(4, 5)) + f32(5), f32(3, 4), dynamic=True),
    lite_case("FULLY_CONNECTED", lambda x: tf.tensordot(x, f32(4, 5), 1) + f32(5), X),
    lite_case("FULLY_CONNECTED", lambda x, y: tf.matmul(x, y, transpose_b=True), f32(3, 4), f32(5, 4)),
    lite_case(
        "LOCAL_RESPONSE_NORMALIZATION",
        lambda x: tf.nn.local_response_normalization(x, 2, 1.5, 0.3, 0.6),
        f32(1, 3, 3, 8),
    ),
]
ROWS = [*UNARY, *BINARY, *REDUCE, *CONV]
