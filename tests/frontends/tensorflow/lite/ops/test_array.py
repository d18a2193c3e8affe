"""The rules of `frontends/tensorflow/lite/ops/array.py` against ai-edge-litert."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case, lite_case
from tests.support.cases import Case, f32, params

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


X = f32(2, 3, 4)
LINE = f32(5)
RAW = tf.raw_ops
Q = "int8"
STORED = np.int8([12, -40, 3])


def scaled_bytes(*shape: int) -> Result:
    """Bytes with a scale, whose zero is not stored as 0."""
    return Result(shape, Q, scale=[0.5], zero=[-10])


BYTES = scaled_bytes(3)

ROWS = [
    lite_case("ZEROS_LIKE", tf.zeros_like, X, dynamic=True),
    lite_case("CONCATENATION", lambda x, y: tf.concat([x, 3 * y], -1), X, f32(2, 3, 2), quantized=Q),
    lite_case("PAD", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1]]), X, quantized=Q),
    lite_case("TRANSPOSE", lambda x: tf.transpose(x, [2, 0, 1]), X, quantized=Q),
    lite_case("RESHAPE", lambda x: tf.reshape(x, [3, -1]), X),
    lite_case("RESHAPE", lambda x: tf.reshape(x, [-1, 12]), X, dynamic=True),
    lite_case("RESHAPE", lambda x: tf.reshape(x, [tf.shape(x)[0], 2, 6]), X, dynamic=True).named("computed"),
    file_case("RESHAPE", handmade("RESHAPE", [LINE[:1]], [Result(())], ("Reshape", {"newShape": [0]})), LINE[:1]).named(
        "to an old scalar"
    ),
    file_case(
        "RESHAPE",
        handmade(
            "RESHAPE",
            [X, constant(np.int32([[4], [6], [1]]))],
            [Result((4, 6, 1))],
            ("Reshape", {"newShape": [4, 6, 1]}),
        ),
        X,
    ).named("to sizes in a column, as in files of 2019"),
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
    *(
        file_case(
            "STRIDED_SLICE",
            handmade(
                "STRIDED_SLICE",
                [LINE, *(constant(np.int32([n])) for n in (begin, size, 1))],
                [Result((size,))],
                ("StridedSlice", {"offset": True}),
            ),
            LINE,
        ).named(f"{size} from {begin}")
        for begin, size in ((-3, 2), (1, 3), (-5, 5))
    ),
    lite_case("GATHER", lambda x: tf.gather(x, [2, 0], axis=1), X),
    lite_case("GATHER", lambda x, i: tf.gather(x, i, axis=2, batch_dims=1), X, np.int32([[3, 0], [1, 1]])),
    file_case(
        "GATHER",
        handmade("GATHER", [X, np.int32([2, 0])], [Result((2, 4))], ("Gather", {"axis": 1, "batchDims": 1})),
        X,
        np.int32([2, 0]),
    ),
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
    file_case("MATRIX_DIAG", handmade("MATRIX_DIAG", [BYTES], [scaled_bytes(3, 3)], ("MatrixDiag", {})), STORED).named(
        "stored zeros"
    ),
    file_case(
        "SCATTER_ND",
        handmade(
            "SCATTER_ND",
            [constant(np.int32([[3], [0], [1]])), BYTES, constant(np.int32([5]))],
            [scaled_bytes(5)],
            ("ScatterNd", {}),
        ),
        STORED,
    ).named("stored zeros"),
    lite_case("MATRIX_DIAG", lambda x: tf.linalg.diag(x), f32(2, 3)),
    lite_case("MATRIX_SET_DIAG", lambda x, d: tf.linalg.set_diag(x, d), X, f32(2, 3)),
    lite_case(
        "SPARSE_TO_DENSE",
        lambda i, v: RAW.SparseToDense(sparse_indices=i, output_shape=[4, 3], sparse_values=v, default_value=-1.0),
        np.int32([[0, 1], [2, 2]]),
        f32(2),
    ),
    file_case(
        "SQUEEZE",
        handmade("SQUEEZE", [X[:1, :, :1]], [Result((3,))], ("Squeeze", {"squeezeDims": [0, -1]})),
        X[:1, :, :1],
    ),
    file_case("SQUEEZE", handmade("SQUEEZE", [X[:1, :, :1]], [Result((3,))]), X[:1, :, :1]),
    file_case("RANK", handmade("RANK", [X], [Result((), "int32")]), X),
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


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)
