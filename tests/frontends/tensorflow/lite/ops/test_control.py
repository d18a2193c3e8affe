"""The rules of `frontends/tensorflow/lite/ops/control.py` against ai-edge-litert."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.lite.ops.lite_support import check, lite_case
from tests.support.cases import Case, f32, params

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


def _branches(c, x):
    return tf.cond(c, lambda: x + 1.0, lambda: tf.tanh(x))


def _loop(n, x):
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.sin(y) + x), [0, x])[1]


X = f32(2, 3, 4)

ROWS = [
    lite_case("IF", _branches, np.array(True), X),
    lite_case("IF", _branches, np.array(False), X),
    lite_case("WHILE", _loop, np.int32(3), X),
    lite_case("WHILE", _loop, np.int32(0), X),
    lite_case(
        "WHILE", lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 50.0, lambda y: (y * 2.0,), [x])[0], f32(4, low=1)
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)
