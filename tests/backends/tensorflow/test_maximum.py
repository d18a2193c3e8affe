"""The larger of two, where TensorFlow with oneDNN would make another operator of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.backends.tensorflow.test_onednn import RANDOM, call, model, operations, written


@pytest.mark.parametrize(("factor", "apart"), [(1.5, True), (0.25, False)])
def test_the_larger_of_a_number_and_its_multiple(factor: float, apart: bool, tmp_path: Path) -> None:
    """oneDNN's optimizer makes a LeakyRelu of it, which it is for factors up to 1.

    `tests.suites.compose --source pytorch --seed 42884`; TensorFlow 2.21.
    """
    nodes = [helper.make_node("Mul", ["x", "c"], ["m"]), helper.make_node("Max", ["x", "m"], ["y"])]
    proto = model(nodes, ["n", 3], ["n", 3], c=np.float32(factor).reshape(()))
    path = written(proto, tmp_path, "tf-frozen")
    (found,) = [op for op in operations(path) if op.type == "Maximum"]
    assert [i.op.type for i in found.inputs] == ["Placeholder", "Squeeze" if apart else "Mul"]
    x = RANDOM.normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_allclose(call(path, x), np.maximum(x, factor * x), rtol=1e-6)
