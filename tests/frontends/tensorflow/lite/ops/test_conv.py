"""The rules of `frontends/tensorflow/lite/ops/conv.py` against ai-edge-litert."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from convert.errors import BadInput
from convert.request.source import Source
from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade, opened, packed
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case, lite_case
from tests.frontends.tensorflow.ops.tf_support import run, same
from tests.support.cases import Case, f32, params
from tests.support.tensorflow_helper import read

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


def biased(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, padding: int, size: tuple[int, int]) -> bytes:
    """Return a file of MediaPipe's transposed convolution with strides 2 and 3."""
    result = Result((x.shape[0], *size, weights.shape[0]))
    model = opened(handmade("CUSTOM", [x, constant(weights), constant(bias)], [result])())
    model.operatorCodes[0].customCode = "Convolution2DTransposeBias"
    model.subgraphs[0].operators[0].customOptions = np.frombuffer(struct.pack("<3i", padding, 3, 2), np.uint8)
    return packed(model)


@pytest.mark.parametrize("kernel", [(2, 3), (3, 4), (5, 1)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolution_of_mediapipe(padding: str, kernel: tuple[int, int], tmp_path: Path) -> None:
    """The largest result of which a convolution makes an input of this size is compared with that convolution's
    gradient. MediaPipe's SAME makes the smallest such result that needs no padding of its own.
    """
    x, weights, bias = f32(2, 4, 5, 3), f32(4, *kernel, 3), f32(4)
    cut = [
        max(0, k - (n - 1) % s - 1) if padding == "SAME" else 0 for s, n, k in zip((2, 3), (4, 5), kernel, strict=True)
    ]
    size = tuple(s * (n - 1) + k - c for s, n, k, c in zip((2, 3), (4, 5), kernel, cut, strict=True))
    path = tmp_path / "m.tflite"
    path.write_bytes(biased(x, weights, bias, ("SAME", "VALID").index(padding) + 1, size))
    (got,) = run(read(Source("tflite", path)), {"x0": x}).values()
    whole = tf.nn.conv2d_transpose(
        x,
        weights.transpose(1, 2, 0, 3),
        (2, *(n * s + k for n, s, k in zip((3, 4), (2, 3), kernel, strict=True)), 4),
        (2, 3),
        "VALID",
    )
    rows, columns = (slice(c // 2, c // 2 + n) for c, n in zip(cut, size, strict=True))
    same(got, np.asarray(whole)[:, rows, columns] + bias)


@pytest.mark.parametrize("raw", [b"", struct.pack("<3i", 3, 1, 1), struct.pack("<3i", 1, 0, 1)])
def test_options_of_a_transposed_convolution_that_are_none_are_refused(raw: bytes, tmp_path: Path) -> None:
    model = opened(biased(f32(1, 2, 2, 1), f32(1, 2, 2, 1), f32(1), 1, (4, 4)))
    model.subgraphs[0].operators[0].customOptions = np.frombuffer(raw, np.uint8)
    (tmp_path / "m.tflite").write_bytes(packed(model))
    with pytest.raises(BadInput, match="damaged"):
        read(Source("tflite", tmp_path / "m.tflite"))
