"""Rows for TensorFlow Lite's operators that move elements, and for those whose file is made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, densified, handmade
from tests.frontends.tensorflow.lite.ops.lite_support import file_case, lite_case
from tests.support.cases import f32

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")

X = f32(2, 3, 4)
PICTURE = f32(2, 7, 6, 3)
EVEN = f32(2, 4, 6, 8)
RAW = tf.raw_ops

ARRAY = [
    lite_case("RESHAPE", lambda x: tf.reshape(x, [3, -1]), X),
    lite_case("RESHAPE", lambda x: tf.reshape(x, [-1, 12]), X, dynamic=True),
    lite_case("RESHAPE", lambda x: tf.reshape(x, [tf.shape(x)[0], 2, 6]), X, dynamic=True).named("computed"),
    lite_case("SHAPE", lambda x: tf.shape(x), X, dynamic=True),
    lite_case("SHAPE", lambda x: tf.shape(x, tf.int64), X, dynamic=True),
    lite_case("EXPAND_DIMS", lambda x: tf.expand_dims(x, 1), X, dynamic=True),
    lite_case("TRANSPOSE", lambda x: tf.transpose(x, [2, 0, 1]), X),
    lite_case("CONCATENATION", lambda x, y: tf.concat([x, y, x], -1), X, f32(2, 3, 2)),
    lite_case("PACK", lambda x, y: tf.stack([x, y], 1), X, f32(2, 3, 4, low=0)),
    lite_case("UNPACK", lambda x: tuple(tf.unstack(x, axis=1)), X),
    lite_case("SPLIT", lambda x: tuple(tf.split(x, 2, -1)), X),
    lite_case("SPLIT_V", lambda x: tuple(tf.split(x, [1, 3], -1)), X),
    lite_case("SLICE", lambda x: tf.slice(x, [0, 1, 1], [-1, 2, 2]), X),
    lite_case("STRIDED_SLICE", lambda x: x[:, ::-2, 1], X),
    lite_case("STRIDED_SLICE", lambda x: x[0, ..., tf.newaxis, 1:3], X),
    lite_case("STRIDED_SLICE", lambda x: x[:1, 1:], X, dynamic=True),
    lite_case("GATHER", lambda x: tf.gather(x, [2, 0], axis=1), X),
    lite_case("GATHER", lambda x, i: tf.gather(x, i, axis=2, batch_dims=1), X, np.int32([[3, 0], [1, 1]])),
    lite_case("GATHER_ND", lambda x, i: tf.gather_nd(x, i), X, np.int32([[1, 2], [0, 0]])),
    lite_case("SCATTER_ND", lambda i, u: tf.scatter_nd(i, u, [5, 2]), np.int32([[3], [0], [3]]), f32(3, 2)),
    lite_case("TILE", lambda x: tf.tile(x, [1, 2, 3]), X),
    lite_case("BROADCAST_TO", lambda x: tf.broadcast_to(x, [3, 2, 4]), f32(2, 1)),
    lite_case("BROADCAST_ARGS", lambda a, b: RAW.BroadcastArgs(s0=a, s1=b), np.int32([3, 1]), np.int32([2, 1, 4])),
    lite_case("FILL", lambda n, v: tf.fill(n, v), np.int32([2, 3]), np.float32(1.5)),
    lite_case("RANGE", lambda n: tf.range(1, n, 2), np.int32(8)),
    lite_case("ONE_HOT", lambda i: tf.one_hot(i, 4, 2.0, -1.0, axis=1), np.int32([[0, 5], [3, 1]])),
    lite_case("PAD", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1]]), X),
    lite_case("PADV2", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1]], constant_values=1.5), X),
    lite_case("MIRROR_PAD", lambda x: tf.pad(x, [[0, 0], [1, 2], [2, 1]], "REFLECT"), X),
    lite_case("MIRROR_PAD", lambda x: tf.pad(x, [[0, 0], [1, 2], [2, 1]], "SYMMETRIC"), X),
    lite_case("REVERSE_V2", lambda x: tf.reverse(x, [1]), X),
    lite_case("REVERSE_SEQUENCE", lambda x: tf.reverse_sequence(x, [2, 3], 1, 0), X),
    lite_case("WHERE", lambda x: tf.where(x), X > 0),
    lite_case("MATRIX_DIAG", lambda x: tf.linalg.diag(x), f32(2, 3)),
    lite_case("MATRIX_SET_DIAG", lambda x, d: tf.linalg.set_diag(x, d), X, f32(2, 3)),
    lite_case(
        "SPARSE_TO_DENSE",
        lambda i, v: RAW.SparseToDense(sparse_indices=i, output_shape=[4, 3], sparse_values=v, default_value=-1.0),
        np.int32([[0, 1], [2, 2]]),
        f32(2),
    ),
    lite_case("SPACE_TO_DEPTH", lambda x: tf.nn.space_to_depth(x, 2), EVEN),
    lite_case("DEPTH_TO_SPACE", lambda x: tf.nn.depth_to_space(x, 2), EVEN),
    lite_case("SPACE_TO_BATCH_ND", lambda x: tf.space_to_batch(x, [2, 3], [[0, 0], [1, 2]]), f32(1, 4, 6, 2)),
    lite_case("BATCH_TO_SPACE_ND", lambda x: tf.batch_to_space(x, [2, 2], [[0, 1], [1, 0]]), f32(4, 3, 3, 2)),
    lite_case("RESIZE_BILINEAR", lambda x: tf.image.resize(x, [9, 4]), PICTURE),
    lite_case(
        "RESIZE_BILINEAR", lambda x: tf.compat.v1.image.resize_bilinear(x, [13, 11], align_corners=True), PICTURE
    ),
    lite_case("RESIZE_NEAREST_NEIGHBOR", lambda x: tf.image.resize(x, [14, 4], "nearest"), PICTURE),
    lite_case("RESIZE_NEAREST_NEIGHBOR", lambda x: tf.compat.v1.image.resize_nearest_neighbor(x, [5, 13]), PICTURE),
    lite_case("COMPLEX_ABS", lambda x: tf.abs(tf.signal.rfft2d(x)), f32(2, 4, 8)),
    lite_case("RFFT2D", lambda x: tf.abs(tf.signal.rfft2d(x)), f32(2, 4, 8)),
    lite_case("REAL", lambda x: tf.math.real(tf.signal.rfft2d(x)), f32(2, 4, 8)),
    lite_case("IMAG", lambda x: tf.math.imag(tf.signal.rfft2d(x)), f32(2, 4, 8)),
]

BOXES = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0.1, 0, 1.1, 1], [0, 2.2, 1, 3], [5, 5, 6, 6]])
LIMITS = [constant(np.array(5, np.int32)), constant(np.float32(0.4)), constant(np.float32(0.1))]
POOL = {"strideH": 2, "strideW": 1, "filterHeight": 3, "filterWidth": 2}
ONE = f32(1, 5, 4, 3)
HAND = [
    file_case("RELU_0_TO_1", handmade("RELU_0_TO_1", [X], [Result(X.shape)]), X),
    file_case("PRELU", handmade("PRELU", [X, constant(f32(1, 4))], [Result(X.shape)]), X),
    file_case("L2_POOL_2D", handmade("L2_POOL_2D", [ONE], [Result((1, 3, 4, 3))], ("Pool2D", POOL)), ONE),
    file_case(
        "EMBEDDING_LOOKUP",
        handmade("EMBEDDING_LOOKUP", [np.int32([4, 0]), constant(f32(6, 3))], [Result((2, 3))]),
        np.int32([4, 0]),
    ),
    file_case(
        "SQUEEZE",
        handmade("SQUEEZE", [X[:1, :, :1]], [Result((3,))], ("Squeeze", {"squeezeDims": [0, -1]})),
        X[:1, :, :1],
    ),
    file_case("SQUEEZE", handmade("SQUEEZE", [X[:1, :, :1]], [Result((3,))]), X[:1, :, :1]),
    file_case(
        "NON_MAX_SUPPRESSION_V4",
        handmade(
            "NON_MAX_SUPPRESSION_V4",
            [BOXES, f32(6, low=0, high=1), *LIMITS],
            [Result((5,), "int32"), Result((), "int32")],
        ),
        BOXES,
        f32(6, low=0, high=1),
    ),
    file_case("DENSIFY", densified(), f32(2, 6)),
    file_case(
        "CONV_2D",
        handmade(
            "CONV_2D",
            [PICTURE, constant(f32(4, 3, 3, 3)), constant(f32(4))],
            [Result((2, 7, 6, 4))],
            ("Conv2D", {"strideH": 1, "strideW": 1, "fusedActivationFunction": 2}),
        ),
        PICTURE,
    ),
    file_case(
        "FAKE_QUANT",
        handmade("FAKE_QUANT", [X], [Result(X.shape)], ("FakeQuant", {"min": -1.0, "max": 1.5, "numBits": 8})),
        X,
    ),
    file_case("RANK", handmade("RANK", [X], [Result((), "int32")]), X),
    file_case("SOFTMAX", handmade("SOFTMAX", [X], [Result(X.shape)], ("Softmax", {"beta": 0.5})), X),
    file_case(
        "DYNAMIC_UPDATE_SLICE",
        handmade("DYNAMIC_UPDATE_SLICE", [X, f32(1, 2, 2), np.int32([1, 0, 3])], [Result(X.shape)]),
        X,
        f32(1, 2, 2),
        np.int32([1, 0, 3]),
    ),
    file_case(
        "CONCATENATION", handmade("CONCATENATION", [X, X], [Result((4, 3, 4))], ("Concatenation", {"axis": 0})), X, X
    ),
]

T, B, N, H = 3, 2, 4, 5


def _lstm(time_major: bool, *, coupled: bool = False, peepholes: bool = False) -> object:
    """An LSTM layer, of which the input gate may be one minus the forget gate."""
    steps = f32(T, B, N) if time_major else f32(B, T, N)
    gates = [None if coupled and k == 0 else constant(f32(H, N, low=-1 - k / 9)) for k in range(4)]
    gates += [None if coupled and k == 0 else constant(f32(H, H, low=-1 - k / 9)) for k in range(4)]
    looks = [constant(f32(H, low=-1 - k / 9)) if peepholes else None for k in range(3)]
    biases = [None if coupled and k == 0 else constant(f32(H, low=-1 - k / 9)) for k in range(4)]
    states = [Result((B, H), variable=True), Result((B, H), variable=True)]
    inputs = [steps, *gates, *looks, *biases, None, None, *states]
    options = {"fusedActivationFunction": 4, "timeMajor": time_major}
    make = handmade("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [Result((*steps.shape[:2], H))],
                    ("UnidirectionalSequenceLSTM", options))  # fmt: skip
    return file_case("UNIDIRECTIONAL_SEQUENCE_LSTM", make, steps)


def _rnn(time_major: bool, activation: int) -> object:
    steps = f32(T, B, N) if time_major else f32(B, T, N)
    inputs = [steps, constant(f32(H, N)), constant(f32(H, H)), constant(f32(H)), Result((B, H), variable=True)]
    options = {"fusedActivationFunction": activation, "timeMajor": time_major}
    make = handmade("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, [Result((*steps.shape[:2], H))], ("SequenceRNN", options))
    return file_case("UNIDIRECTIONAL_SEQUENCE_RNN", make, steps)


RECURRENT = [
    _lstm(True),
    _lstm(False),
    _lstm(False, coupled=True),
    _lstm(True, peepholes=True),
    _rnn(True, 4),
    _rnn(False, 1),
]


def _branches(c, x):
    return tf.cond(c, lambda: x + 1.0, lambda: tf.tanh(x))


def _loop(n, x):
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.sin(y) + x), [0, x])[1]


CONTROL = [
    lite_case("IF", _branches, np.array(True), X),
    lite_case("IF", _branches, np.array(False), X),
    lite_case("WHILE", _loop, np.int32(3), X),
    lite_case("WHILE", _loop, np.int32(0), X),
    lite_case(
        "WHILE", lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 50.0, lambda y: (y * 2.0,), [x])[0], f32(4, low=1)
    ),
]

Q = "int8"
QUANTISED = [
    lite_case(
        "CONV_2D", lambda x: tf.nn.relu(tf.nn.conv2d(x, f32(3, 3, 3, 4), 1, "SAME") + f32(4)), PICTURE, quantised=Q
    ),
    lite_case(
        "DEPTHWISE_CONV_2D",
        lambda x: tf.nn.depthwise_conv2d(x, f32(3, 3, 3, 2), (1, 2, 2, 1), "SAME"),
        PICTURE,
        quantised="uint8",
    ),
    lite_case(
        "TRANSPOSE_CONV",
        lambda x: tf.nn.conv2d_transpose(x, f32(2, 3, 4, 3), (2, 14, 13, 4), 2, "VALID"),
        PICTURE,
        quantised=Q,
    ),
    lite_case("FULLY_CONNECTED", lambda x: tf.nn.relu6(tf.matmul(x, f32(4, 5)) + f32(5)), f32(6, 4), quantised=Q),
    lite_case("ADD", tf.add, X, f32(2, 3, 4, low=-1), quantised=Q),
    lite_case("MUL", tf.multiply, X, f32(4), quantised=Q),
    lite_case("CONCATENATION", lambda x, y: tf.concat([x, 3 * y], -1), X, f32(2, 3, 2), quantised=Q),
    lite_case("AVERAGE_POOL_2D", lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), PICTURE, quantised=Q),
    lite_case("MAX_POOL_2D", lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), PICTURE, quantised=Q),
    lite_case("SOFTMAX", tf.nn.softmax, X, quantised=Q),
    lite_case("LOGISTIC", tf.sigmoid, X, quantised=Q),
    lite_case("TANH", tf.tanh, X, quantised=Q),
    lite_case("PAD", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1]]), X, quantised=Q),
    lite_case("MEAN", lambda x: tf.reduce_mean(x, [1, 2]), PICTURE, quantised=Q),
    lite_case("RESIZE_BILINEAR", lambda x: tf.image.resize(x, [14, 12]), PICTURE, quantised=Q),
    lite_case("TRANSPOSE", lambda x: tf.transpose(x, [2, 0, 1]), X, quantised=Q),
    lite_case("LEAKY_RELU", lambda x: tf.nn.leaky_relu(x, 0.3), X, quantised=Q),
    lite_case(
        "CONV_2D",
        lambda x: tf.nn.relu(tf.nn.conv2d(x, f32(3, 3, 3, 4), 1, "SAME") + f32(4)),
        PICTURE,
        quantised="int16",
    ),
]

ROWS = [*RECURRENT, *CONTROL, *QUANTISED, *ARRAY, *HAND]
