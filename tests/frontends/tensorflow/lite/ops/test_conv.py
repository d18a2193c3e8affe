"""The rules of `frontends/tensorflow/lite/ops/conv.py` against ai-edge-litert."""

from __future__ import annotations

import pytest

from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case, lite_case
from tests.support.cases import Case, f32, params

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


PICTURE = f32(2, 7, 6, 3)
K = f32(3, 3, 3, 4)
BIAS = f32(4)
POOL = {"strideH": 2, "strideW": 1, "filterHeight": 3, "filterWidth": 2}
ONE = f32(1, 5, 4, 3)
Q = "int8"

ROWS = [
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
    lite_case(
        "CONV_2D", lambda x: tf.nn.relu(tf.nn.conv2d(x, f32(3, 3, 3, 4), 1, "SAME") + f32(4)), PICTURE, quantized=Q
    ),
    lite_case(
        "DEPTHWISE_CONV_2D",
        lambda x: tf.nn.depthwise_conv2d(x, f32(3, 3, 3, 2), (1, 2, 2, 1), "SAME"),
        PICTURE,
        quantized="uint8",
    ),
    lite_case(
        "TRANSPOSE_CONV",
        lambda x: tf.nn.conv2d_transpose(x, f32(2, 3, 4, 3), (2, 14, 13, 4), 2, "VALID"),
        PICTURE,
        quantized=Q,
    ),
    lite_case("AVERAGE_POOL_2D", lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), PICTURE, quantized=Q),
    lite_case("MAX_POOL_2D", lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), PICTURE, quantized=Q),
    lite_case(
        "CONV_2D",
        lambda x: tf.nn.relu(tf.nn.conv2d(x, f32(3, 3, 3, 4), 1, "SAME") + f32(4)),
        PICTURE,
        quantized="int16",
    ),
    file_case("L2_POOL_2D", handmade("L2_POOL_2D", [ONE], [Result((1, 3, 4, 3))], ("Pool2D", POOL)), ONE),
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
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)
