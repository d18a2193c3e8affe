"""Classifiers of ONNX-ML in TensorFlow Lite, verified by default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

pytest.importorskip("tensorflow", reason="TensorFlow Lite runs the artefacts")

import convert

CLASSES, WIDTH, SIZES = 3, 4, [3, 2, 4]


def support_vectors() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    count = sum(SIZES)
    node = helper.make_node(
        "SVMClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
        classlabels_ints=list(range(CLASSES)), coefficients=rng.normal(size=count * (CLASSES - 1)).tolist(),
        kernel_params=[0.3, 0.0, 3.0], kernel_type="RBF", post_transform="NONE", rho=rng.normal(size=3).tolist(),
        support_vectors=rng.normal(size=count * WIDTH).tolist(), vectors_per_class=SIZES,
    )  # fmt: skip
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", WIDTH])
    label = helper.make_tensor_value_info("label", onnx.TensorProto.INT64, ["n"])
    scores = helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["n", 3])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([node], "m", [x], [label, scores]), opset_imports=opsets, ir_version=9)


@pytest.mark.slow
def test_a_label_behind_an_exponential_of_nan(tmp_path: Path) -> None:
    """TensorFlow Lite's exponential of NaN is 0, and so is the kernel of every support vector: this is a note, no
    failure.
    """
    report = convert.convert(support_vectors(), "tflite", tmp_path / "m.tflite")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert any("TensorFlow Lite makes a number of NaN" in note for note in report.notes)
