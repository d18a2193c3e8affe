"""The rules of `frontends/tensorflow/ops/legacy.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, run, same, tf, with_batch
from tests.support.cases import Case, case, f32, params
from tests.support.tensorflow_helper import read

BOXES = np.array([[0, 0, 1, 1], [0, 0.05, 1, 1.05], [0, 2, 1, 3], [0, 2.4, 1, 3.4], [5, 5, 6, 6]], np.float32)
SCORES = np.array([0.9, 0.8, 0.3, 0.7, 0.1], np.float32)
WORDS = np.array(["a b  c", "", "  ", "x,y,,z", "dé f"], object)
PICTURE = f32(2, 4, 6, 3)

ROWS = [
    case("InTopK", f32(3, 5), np.array([1, 4, 9], np.int32), k=2),
    case("SpaceToBatch", PICTURE, [[0, 0], [1, 1]], block_size=2),
    case("BatchToSpace", f32(8, 2, 3, 2), [[0, 1], [1, 0]], block_size=2),
    case("Reverse", PICTURE, [False, True, False, True]),
    case("NonMaxSuppression", BOXES, SCORES, 4, iou_threshold=0.3),
    case("TensorScatterSub", f32(4, 2), np.array([[1], [3]], np.int32), f32(2, 2)),
    *(
        case(
            "TensorScatterSub", np.array([3, 200, 7], kind), np.array([[0], [2]], np.int32), np.array([5, 9], kind)
        ).named(np.dtype(kind).name)
        for kind in (np.uint8, np.uint16, np.uint32)
    ),
    case("Print", f32(2, 3), [f32(2)], message="x"),
    case("RegexFullMatch", WORDS, "[a-z] b.*"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)


@pytest.mark.parametrize("scaled", [True, False])
def test_batch_norm_of_graphs_of_the_first_versions(scaled: bool) -> None:
    """TensorFlow cannot build such a node any more, but still has a function of that name."""
    statistics = {"m": f32(4), "v": f32(4, low=0.2), "beta": f32(4, low=0), "gamma": f32(4, low=0.5)}
    with tf.Graph().as_default() as graph:
        tf.compat.v1.placeholder(tf.float32, [None, 3, 2, 4], "t")
        for name, array in statistics.items():
            tf.constant(array, name=name)
    made = graph.as_graph_def()
    node = made.node.add(op="BatchNormWithGlobalNormalization", name="y", input=["t", *statistics])
    node.attr["T"].type = 1
    node.attr["variance_epsilon"].f, node.attr["scale_after_normalization"].b = 0.01, scaled
    x = f32(2, 3, 2, 4)
    expected = tf.nn.batch_norm_with_global_normalization(x, *statistics.values(), 0.01, scaled)
    same(run(read(Source("graphdef-object", model=made)), {"t": x})["y"], expected.numpy())
