"""The rules of `frontends/tensorflow/lite/ops/nn.py` against ai-edge-litert."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case, lite_case
from tests.support.cases import Case, f32, params

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


X = f32(2, 3, 4)
Q = "int8"

ROWS = [
    lite_case("RELU", tf.nn.relu, X),
    lite_case("RELU6", tf.nn.relu6, f32(2, 3, 4, low=-9, high=9)),
    lite_case("ELU", tf.nn.elu, X),
    lite_case("LOGISTIC", tf.sigmoid, X),
    lite_case("TANH", tf.tanh, X),
    lite_case("LOG_SOFTMAX", tf.nn.log_softmax, X),
    lite_case("SOFTMAX", tf.nn.softmax, X),
    lite_case("LEAKY_RELU", lambda x: tf.nn.leaky_relu(x, 0.3), X),
    lite_case("GELU", tf.nn.gelu, X),
    lite_case("GELU", lambda x: tf.nn.gelu(x, approximate=True), X),
    lite_case("RELU_N1_TO_1", lambda x: tf.minimum(tf.maximum(x, -1.0), 1.0), X),
    lite_case("HARD_SWISH", lambda x: x * tf.nn.relu6(x + np.float32(3)) * np.float32(1 / 6), 2 * X),
    lite_case("L2_NORMALIZATION", lambda x: tf.math.l2_normalize(x, -1), X),
    lite_case("FULLY_CONNECTED", lambda x: tf.nn.relu(tf.matmul(x, f32(4, 5)) + f32(5)), f32(3, 4)),
    lite_case("FULLY_CONNECTED", lambda x: tf.matmul(x, f32(4, 5)) + f32(5), f32(3, 4), dynamic=True),
    lite_case("FULLY_CONNECTED", lambda x: tf.tensordot(x, f32(4, 5), 1) + f32(5), X),
    lite_case("FULLY_CONNECTED", lambda x, y: tf.matmul(x, y, transpose_b=True), f32(3, 4), f32(5, 4)),
    lite_case(
        "LOCAL_RESPONSE_NORMALIZATION",
        lambda x: tf.nn.local_response_normalization(x, 2, 1.5, 0.3, 0.6),
        f32(1, 3, 3, 8),
    ),
    lite_case("FULLY_CONNECTED", lambda x: tf.nn.relu6(tf.matmul(x, f32(4, 5)) + f32(5)), f32(6, 4), quantized=Q),
    lite_case("SOFTMAX", tf.nn.softmax, X, quantized=Q),
    lite_case("LOGISTIC", tf.sigmoid, X, quantized=Q),
    lite_case("TANH", tf.tanh, X, quantized=Q),
    lite_case("LEAKY_RELU", lambda x: tf.nn.leaky_relu(x, 0.3), X, quantized=Q),
    file_case("RELU_0_TO_1", handmade("RELU_0_TO_1", [X], [Result(X.shape)]), X),
    file_case("PRELU", handmade("PRELU", [X, constant(f32(1, 4))], [Result(X.shape)]), X),
    file_case(
        "EMBEDDING_LOOKUP",
        handmade("EMBEDDING_LOOKUP", [np.int32([4, 0]), constant(f32(6, 3))], [Result((2, 3))]),
        np.int32([4, 0]),
    ),
    file_case("SOFTMAX", handmade("SOFTMAX", [X], [Result(X.shape)], ("Softmax", {"beta": 0.5})), X),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)
