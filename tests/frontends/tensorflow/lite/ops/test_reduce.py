"""The rules of `frontends/tensorflow/lite/ops/reduce.py` against ai-edge-litert."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case, lite_case
from tests.support.cases import Case, f32, i32, params

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


X = f32(2, 3, 4)
PICTURE = f32(2, 7, 6, 3)
INTEGERS = i32(2, 3, 4)
Q = "int8"

ROWS = [
    lite_case("SUM", lambda x: tf.reduce_sum(x, [0, 2]), X),
    lite_case("SUM", lambda x: tf.reduce_sum(x), INTEGERS),
    lite_case("MEAN", lambda x: tf.reduce_mean(x, [1, 2], keepdims=True), PICTURE),
    lite_case("REDUCE_MAX", lambda x: tf.reduce_max(x, -1), X),
    lite_case("REDUCE_MIN", lambda x: tf.reduce_min(x, 1), X),
    lite_case("REDUCE_PROD", lambda x: tf.reduce_prod(x, 2, keepdims=True), X),
    lite_case("REDUCE_ANY", lambda x: tf.reduce_any(x, 1), X > 1),
    lite_case("REDUCE_ALL", lambda x: tf.reduce_all(x, 1), X > -1),
    *(
        file_case(
            name, handmade(name, [X, constant(np.int32(axes))], [Result(shape)], ("Reducer", {"keepDims": keep})), X
        ).named(f"{axes}")
        for name in ("SUM", "MEAN", "REDUCE_MAX")
        for axes, keep, shape in (([1, 1], False, (2, 4)), ([2, -1, 0], True, (1, 3, 1)))
    ),
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
    lite_case("MEAN", lambda x: tf.reduce_mean(x, [1, 2]), PICTURE, quantized=Q),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)
