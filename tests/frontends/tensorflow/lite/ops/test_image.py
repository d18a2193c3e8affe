"""The rules of `frontends/tensorflow/lite/ops/image.py` against ai-edge-litert."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case, lite_case
from tests.support.cases import Case, f32, params

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


PICTURE = f32(2, 7, 6, 3)
EVEN = f32(2, 4, 6, 8)
HALVES = np.float32([[0, 0, 1, 2], [0, 0, 1, 1], [5, 5, 6, 6]])
BOXES = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0.1, 0, 1.1, 1], [0, 2.2, 1, 3], [5, 5, 6, 6]])
LIMITS = [constant(np.array(5, np.int32)), constant(np.float32(0.4)), constant(np.float32(0.1))]
Q = "int8"

ROWS = [
    lite_case("RESIZE_BILINEAR", lambda x: tf.image.resize(x, [14, 12]), PICTURE, quantized=Q),
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
    lite_case("RFFT2D", lambda x: tf.abs(tf.signal.rfft2d(x)), f32(2, 4, 8)),
    *(
        file_case(
            "NON_MAX_SUPPRESSION_V4",
            handmade(
                "NON_MAX_SUPPRESSION_V4",
                [
                    HALVES,
                    np.float32([0.9, 0.8, 0.7]),
                    constant(np.array(3, np.int32)),
                    constant(np.float32(overlap)),
                    constant(np.float32(0)),
                ],
                [Result((3,), "int32"), Result((), "int32")],
                ("NonMaxSuppressionV4", {}),
            ),
            HALVES,
            np.float32([0.9, 0.8, 0.7]),
        ).named(f"as much as {overlap}")
        for overlap in (0.5, 0.0)
    ),
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
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)
