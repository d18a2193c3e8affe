"""Variables that a TensorFlow graph changes, in every format to which such a model is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import convert.api

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the source")
pytestmark = pytest.mark.long
SUFFIXES = {"tf-frozen": ".pb", "tflite": ".tflite", "keras": ".keras"}


class Counting(tf.Module):  # type: ignore[misc]
    """Counts its calls and sums its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = tf.Variable(0, trainable=False, name="calls")
        self.total = tf.Variable([0.5, 0.0, -1.0], name="total")

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def __call__(self, x: Any) -> Any:
        count = self.calls.assign_add(1)
        return {"y": x + self.total.assign_add(tf.reduce_sum(x, 0)) * tf.cast(count, tf.float32)}


@pytest.mark.parametrize("to", ["tf", "tf-frozen", "tflite", "keras", "caffe2"])
def test_state_is_an_input_and_an_output(to: str, tmp_path: Path) -> None:
    """The verdict compares what the target returns with the source's variables after a call."""
    if to == "caffe2" and not os.environ.get("CONVERT_CAFFE2_PYTHON"):
        pytest.skip("CONVERT_CAFFE2_PYTHON names no real Caffe2")
    module = Counting()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.__call__.get_concrete_function())
    report = convert.api.convert(tmp_path / "m", to, tmp_path / f"out{SUFFIXES.get(to, '')}", verify=True)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert {o.name for o in report.verdict.outputs} >= {"y", "calls_next", "total_next"}
