"""In Exp(f(x)) - 1, where f is the extreme of a function, the function stays; TensorFlow would lose it in graph
mode.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

pytest.importorskip("keras", reason="Keras runs the artefacts")
pytest.importorskip("tensorflow", reason="Keras runs on it")

import keras
import tensorflow as tf

import convert

MODEL = """<ir_version: 8, opset_import: ["" : 18]> g (float[n, 3, 4] x) => (float[n] y, float[n, 3, 2] z) <
  int64[2] axes = {1, 2}, float one = {1}, float two = {2}> {
  t = Tanh (x)
  m = ReduceMax <keepdims = 0> (t, axes)
  e = Exp (m)
  y = Sub (e, one)
  d = Mul (x, two)
  s = Sigmoid (d)
  p = MaxPool <kernel_shape = [2], strides = [2]> (s)
  f = Exp (p)
  z = Sub (f, one) }"""


def test_the_function_stays(tmp_path: Path) -> None:
    model, path = onnx.parser.parse_model(MODEL), tmp_path / "m.keras"
    convert.convert(model, "keras", path, verify=False)
    feed = {"x": np.random.default_rng(0).normal(size=(4, 3, 4)).astype(np.float32)}
    loaded = keras.models.load_model(path)
    found = tf.function(lambda x: loaded({"x": x}))(feed["x"])
    got = dict(zip(loaded.output_names, found.values() if isinstance(found, dict) else found, strict=True))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for name, want in zip(("y", "z"), session.run(["y", "z"], feed), strict=True):
        np.testing.assert_allclose(got[name].numpy(), want, rtol=1e-5, atol=1e-6, err_msg=name)
