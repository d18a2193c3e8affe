"""The rules of `frontends/tensorflow/ops/shape.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import convert
from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

ROWS = [
    *(case(name, f32(2, 3)) for name in ("ZerosLike", "OnesLike")),
    case("Reshape", f32(2, 3, 4), [4, -1]),
    case("Reshape", f32(2, 3, 4), np.array([4, 6], np.int32)).named("dynamic"),
    case("Reshape", f32(2, 0, 4), [0, 3]).named("empty"),
    case("ExpandDims", f32(2, 3), -1),
    case("Squeeze", f32(1, 2, 1, 3)),
    case("Squeeze", f32(1, 2, 1, 3), squeeze_dims=[-2]).named("one"),
    case("Transpose", f32(2, 3, 4), [2, 0, 1]),
    case("Transpose", f32(2, 3, 4), np.array([2, 0, 1], np.int32)).named("by data"),
    case("BroadcastTo", f32(3, 1), [2, 3, 4]),
    case("BroadcastArgs", np.array([2, 1, 3], np.int32), np.array([4, 1], np.int32)),
    case("BroadcastArgs", [2, 1, 3], [4, 1]).named("known"),
    case("Fill", [2, 3], np.float32(1.5)),
    case("Empty", [2, 3], dtype="float32", init=True),
    case("Tile", f32(2, 3), [2, 1]),
    case("Range", np.int32(2), np.int32(11), np.int32(3)),
    case("Range", np.float32(0), np.float32(1), np.float32(0.25)).named("float"),
    *(
        case("Range", np.float32(0), np.float32(n / 10), np.float32(0.1)).named(f"{n} tenths")
        for n in (3, 6, 7, 14, 21)
    ),
    case("Range", np.float32(1), np.float32(-0.5), np.float32(-0.3)).named("down"),
    case("LinSpace", np.float32(1), np.float32(4), 7),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)


def test_a_reshape_of_no_elements_keeps_its_dynamic_batch() -> None:
    """The batch cannot be -1 there, because no size follows from no elements."""
    import tensorflow as tf

    function = tf.function(lambda x: tf.reshape(x, [tf.shape(x)[0], 0, 3]))
    concrete = function.get_concrete_function(tf.TensorSpec([None, 0, 4], tf.float32))
    session = onnxruntime.InferenceSession(convert.to_onnx(concrete).SerializeToString())
    (y,) = session.run(None, {session.get_inputs()[0].name: np.zeros((2, 0, 4), np.float32)})
    assert y.shape == (2, 0, 3)
