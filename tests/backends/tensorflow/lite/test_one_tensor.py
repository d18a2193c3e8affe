"""Products of rearranged tensors: XNNPACK computes two forms of one tensor wrongly, and the converter crashes on
others.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow writes the artefacts")
pytest.importorskip("ai_edge_litert", reason="TensorFlow Lite runs them")

import convert
from tests.support.run_targets import run_target

MODEL = """<ir_version: 8, opset_import: ["" : 18]> g (float[2, 4, 4, 3] x) =>
  (float[2, 3, 4, 4] y, float[2, 3, 4, 4] z, float[2, 3, 4, 4] r) {
  a = Transpose <perm = [0, 3, 1, 2]> (x)
  y = MatMul (a, a)
  b = Transpose <perm = [0, 3, 2, 1]> (x)
  z = MatMul (a, b)
  p = Relu (a)
  r = MatMul (p, p) }"""

TURNED_TWICE = """<ir_version: 8, opset_import: ["" : 18]> g (float[n, 2, 3] x, float[n, 3, 5] z) =>
  (float[n, 4, 5] y, float[n, 4, 5] r) <float[2, 4] w = {1, -2, 3, -4, 5, -6, 7, -8}> {
  a = Transpose <perm = [0, 2, 1]> (x)
  b = MatMul (a, w)
  c = Transpose <perm = [0, 2, 1]> (b)
  y = MatMul (c, z)
  p = Relu (b)
  q = Transpose <perm = [0, 2, 1]> (p)
  r = MatMul (q, z) }"""


@pytest.mark.slow
def test_what_is_turned_twice_is_converted(tmp_path: Path) -> None:
    model, path = onnx.parser.parse_model(TURNED_TWICE), tmp_path / "m.tflite"
    convert.convert(model, "tflite", path, verify=False)
    generator = np.random.default_rng(0)
    feed = {n: generator.normal(size=size).astype(np.float32) for n, size in (("x", (2, 2, 3)), ("z", (2, 3, 5)))}
    (got,) = run_target("tflite", path, [feed])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for name, want in zip("yr", session.run(["y", "r"], feed), strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_both_factors_count(tmp_path: Path) -> None:
    model, path = onnx.parser.parse_model(MODEL), tmp_path / "m.tflite"
    convert.convert(model, "tflite", path, verify=False)
    feed = {"x": np.random.default_rng(0).normal(size=(2, 4, 4, 3)).astype(np.float32)}
    (got,) = run_target("tflite", path, [feed])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for name, want in zip("yzr", session.run(["y", "z", "r"], feed), strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5, err_msg=name)
