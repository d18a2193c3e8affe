"""Nodes that TensorFlow's optimizer with oneDNN would replace wrongly are written in a form that it does not match."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.backends.tensorflow.test_onednn import RANDOM, ROOT, call, model, operations, written
from tests.support.tensorflow_networks import onnxruntime_of


@pytest.mark.parametrize(("factor", "apart"), [(1.5, True), (0.25, False)])
def test_the_larger_of_a_number_and_its_multiple(factor: float, apart: bool, tmp_path: Path) -> None:
    """oneDNN's optimizer turns this maximum into a LeakyRelu, which is right for factors up to 1 only.

    From `tests.suites.compose --source pytorch --seed 42884`; TensorFlow 2.21.
    """
    nodes = [helper.make_node("Mul", ["x", "c"], ["m"]), helper.make_node("Max", ["x", "m"], ["y"])]
    proto = model(nodes, ["n", 3], ["n", 3], c=np.float32(factor).reshape(()))
    path = written(proto, tmp_path, "tf-frozen")
    (found,) = [op for op in operations(path) if op.type == "Maximum"]
    assert [i.op.type for i in found.inputs] == ["Placeholder", "Squeeze" if apart else "Mul"]
    x = RANDOM.normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_allclose(call(path, x), np.maximum(x, factor * x), rtol=1e-6)


def normalization(power: float) -> tuple[list, dict[str, np.ndarray]]:
    """Return x · r + (b − mean · r), where r is g times a power of the variance plus 0.1."""
    nodes = [
        helper.make_node("ReduceMean", ["x", "axis"], ["mean"]),
        helper.make_node("Sub", ["x", "mean"], ["apart"]),
        helper.make_node("Pow", ["apart", "two"], ["squares"]),
        helper.make_node("ReduceMean", ["squares", "axis"], ["variance"]),
        helper.make_node("Add", ["variance", "epsilon"], ["more"]),
        helper.make_node("Pow", ["more", "power"], ["root"]),
        helper.make_node("Mul", ["root", "g"], ["r"]),
        helper.make_node("Mul", ["x", "r"], ["scaled"]),
        helper.make_node("Mul", ["mean", "r"], ["offset"]),
        helper.make_node("Sub", ["b", "offset"], ["bias"]),
        helper.make_node("Add", ["scaled", "bias"], ["y"]),
    ]
    numbers = {"two": 2.0, "epsilon": 0.1, "power": power}
    weights = {name: np.float32(number).reshape(()) for name, number in numbers.items()}
    vectors = {name: RANDOM.normal(size=8).astype(np.float32) for name in "gb"}
    return nodes, {**weights, **vectors, "axis": np.array([-1], np.int64)}


@pytest.mark.parametrize(("power", "apart"), [(-0.5, True), (-1.0, False)])
def test_an_inverse_root_is_no_rsqrt(power: float, apart: bool, tmp_path: Path) -> None:
    """oneDNN's layer norm replaces a normalization with an Rsqrt, and has an epsilon of its own: 0.6 off for an epsilon
    of 0.1 (TensorFlow 2.21).

    The processor at hand may have no such kernel.
    """
    nodes, weights = normalization(power)
    path = written(model(nodes, ["n", 5, 8], ["n", 5, 8], **weights), tmp_path, "tf-frozen")
    powers = [op for op in operations(path) if op.type == "Pow" and op.inputs[0].op.type != "Sub"]
    assert [[reader.type for reader in op.outputs[0].consumers()] for op in powers] == [
        ["ExpandDims" if apart else "Mul"]
    ]


@pytest.mark.slow
def test_a_normalization_keeps_its_epsilon(tmp_path: Path) -> None:
    nodes, weights = normalization(-0.5)
    proto = model(nodes, ["n", 5, 8], ["n", 5, 8], **weights)
    path, x = written(proto, tmp_path, "tf-frozen"), RANDOM.normal(size=(3, 5, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    run = "import sys, numpy; from pathlib import Path; from tests.backends.tensorflow.test_onednn import call; "
    run += "numpy.save(sys.argv[3], call(Path(sys.argv[1]), numpy.load(sys.argv[2])))"
    given = [str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", run, *given], env=environment, check=True, timeout=300, capture_output=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), onnxruntime_of(proto, {"x": x})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["variables", "tf-frozen"])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (4, 1)])
def test_a_constant_behind_a_bias_is_no_bias(shape: tuple[int, ...], form: str, tmp_path: Path) -> None:
    """TensorFlow's optimizer swaps both. A bias of one number was then read for two units, beyond its memory.

    From `tests.suites.compose --source pytorch --seed 46232`, on any processor; TensorFlow 2.21.
    """
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Add", ["h", "c"], ["y"])]
    weights = {k: RANDOM.normal(size=s).astype(np.float32) for k, s in {"w": (3, 2), "b": (2,), "c": shape}.items()}
    proto, x = model(nodes, [4, 3], [4, 2], **weights), RANDOM.normal(size=(4, 3)).astype(np.float32)
    found = call(written(proto, tmp_path, form), x)
    np.testing.assert_allclose(found, onnxruntime_of(proto, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_a_convolution_in_three_dims_does_not_read_a_pad(tmp_path: Path) -> None:
    """oneDNN fuses both into an operator whose inferred sizes lack the pads, so that a later slice may be dropped.

    From `tests.suites.compose --source pytorch --seed 46310`, for Keras; TensorFlow 2.21.
    """
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 6, strides=[2, 2, 2])
    w = RANDOM.normal(size=(2, 1, 3, 3, 3)).astype(np.float32)
    path = written(model([node], ["n", 1, 3, 3, 3], ["n", 2, 2, 2, 2], w=w), tmp_path, "tf-frozen")
    (found,) = [op for op in operations(path) if op.type == "Conv3D"]
    assert found.inputs[0].op.type == "Squeeze"


@pytest.mark.parametrize("form", ["variables", "tf-frozen"])
def test_the_sum_of_two_numbers_keeps_its_dims(form: str, tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "c"], ["y"])
    path = written(model([node], [1, 1], [1, 1], c=np.float32([[2]])), tmp_path, form)
    np.testing.assert_array_equal(call(path, np.float32([[3]])), [[5]])
