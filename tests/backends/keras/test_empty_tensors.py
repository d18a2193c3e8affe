"""Tensors without elements in Keras files: constants, and sizes of tensors with a dim of 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

pytest.importorskip("keras", reason="Keras runs the artefacts")

import convert
from tests.support.run_targets import run_target

MODEL = """<ir_version: 8, opset_import: ["" : 18]> g (float[n, t] x) => (float[n, t] y, float[1, 0, 2] e, float[n] m) <
  int64[3] dims = {1, 0, 2}, int64[1] one = {1}> {
  y = Relu (x)
  e = ConstantOfShape <value = float[1] {0.0}> (dims)
  m = ReduceMean <keepdims = 0> (x, one) }"""


def test_shapes_stay(tmp_path: Path) -> None:
    model, path = onnx.parser.parse_model(MODEL), tmp_path / "m.keras"
    convert.convert(model, "keras", path, verify=False)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for t in (0, 3):
        feed = {"x": np.ones((2, t), np.float32)}
        (got,) = run_target("keras", path, [feed])
        # Another table tests the mean over no elements; here it only has to run.
        for name, want in zip(("y", "e", "m")[: 3 if t else 2], session.run(["y", "e", "m"], feed), strict=False):
            np.testing.assert_array_equal(got[name], want, err_msg=name)
            assert got[name].shape == want.shape
