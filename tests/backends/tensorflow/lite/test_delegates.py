"""Which operators XNNPACK takes, compared with what the interpreter reports, and runs with and without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from convert.frontends.tensorflow.lite import runner
from onnx import TensorProto, helper

import convert
from convert.outcome.report import Report
from convert.outcome.verdict import PASS
from convert.parity.method import VerifyMethod
from convert.request.options import Options
from convert.request.source import Source
from tests.support.tensorflow_lite_helper import encode, graph_of

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")


def small_model() -> onnx.ModelProto:
    """Return Relu, which XNNPACK has, CumSum, which it lacks, and Tanh behind both."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Constant", [], ["axis"], value_int=1),
        helper.make_node("CumSum", ["a", "axis"], ["b"]),
        helper.make_node("Tanh", ["b"], ["y"]),
    ]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 5])] for name in "xy"]
    graph = helper.make_graph(nodes, "small", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_operators_between_two_parts_of_a_delegate_are_left(tmp_path: Path) -> None:
    from convert.backends.tensorflow.lite.delegates import examine, note_delegate

    found = examine(encode(graph_of(small_model()), tmp_path))
    assert found["left"] == ["CUMSUM"]
    assert found["operators"] == 3
    report = Report("test")
    note_delegate(found["operators"], found["left"], report)
    assert [str(note) for note in report.notes] == ["XNNPACK computes 2 of 3 operators; on other kernels: CUMSUM"]


def test_what_a_delegate_replaces_is_found_from_its_ends() -> None:
    """The interpreter lists replaced operators as well, and the parts that replace them behind all."""
    from convert.backends.tensorflow.lite.delegates import _left_by_delegates

    rows = [
        {"op_name": "CONV_2D", "inputs": [0, 9], "outputs": [1]},
        {"op_name": "SPLIT", "inputs": [1], "outputs": [2, 3]},
        {"op_name": "ADD", "inputs": [2, 3], "outputs": [4]},
        {"op_name": "WHERE", "inputs": [4], "outputs": [5]},
        {"op_name": "DELEGATE", "inputs": [0, 9], "outputs": [1]},
        {"op_name": "DELEGATE", "inputs": [2, 3], "outputs": [4]},
    ]
    assert _left_by_delegates(rows) == (4, ["SPLIT", "WHERE"])
    assert _left_by_delegates(rows[:4]) == (4, ["CONV_2D", "SPLIT", "ADD", "WHERE"])


def test_a_file_runs_with_and_without_the_delegate(tmp_path: Path) -> None:
    path = encode(graph_of(small_model()), tmp_path)
    x = np.random.default_rng(0).standard_normal((2, 5), np.float32)
    ways = runner.run_as_used(Source("tflite", path), [{"x": x}], Options())
    assert "without XNNPACK" in ways
    for way, outputs in ways.items():
        np.testing.assert_allclose(outputs[0]["y"], np.tanh(np.cumsum(np.maximum(x, 0), 1)), atol=1e-6, err_msg=way)


@pytest.mark.slow
def test_the_note_and_the_time_with_several_threads(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    report = convert.convert(small_model(), "tflite", path)
    assert any("XNNPACK computes 2 of 3" in str(note) for note in report.notes)
    again = convert.verify(small_model(), path, method=VerifyMethod(time=True))
    assert again.verdict is not None
    assert again.verdict.status == PASS
    assert again.verdict.latency is not None
    assert list(again.verdict.latency.threads) == [4]
    assert " with 4 threads" in str(again.verdict.latency)
