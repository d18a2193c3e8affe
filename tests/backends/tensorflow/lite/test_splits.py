"""Splits in TensorFlow Lite, whose Split kernels take few dtypes; other dtypes use slices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

import convert
from tests.support.run_targets import run_target

KINDS = {"float": "float32", "bool": "bool", "int64": "int64",
         "int32": "int32", "uint8": "uint8"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_splits(kind: str, tmp_path: Path) -> None:
    """Equal parts, given sizes, and a dim of any size whose last part may be smaller."""
    text = f"""<ir_version: 9, opset_import: ["" : 18]>
        g ({kind}[n, 6] x) => ({kind}[n, 3] a, {kind}[n, 3] b, {kind}[n, 4] c, {kind}[n, 2] d, {kind}[n, 1] e,
            {kind}[n, 5] f, {kind}[m, 6] g, {kind}[k, 6] h) <int64[2] sizes = {{1, 5}}, int64[2] others = {{4, 2}}> {{
            a, b = Split <axis = 1, num_outputs = 2> (x)  c, d = Split <axis = -1> (x, others)
            e, f = Split <axis = 1> (x, sizes)  g, h = Split <axis = 0, num_outputs = 2> (x)
        }}"""
    proto = onnx.parser.parse_model(text)
    convert.convert(proto, "tflite", tmp_path / "m.tflite", verify=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    feeds = [{"x": (np.arange(6 * n).reshape(n, 6) % 7 % 3).astype(KINDS[kind])} for n in (3, 4, 1)]
    for feed, found in zip(feeds, run_target("tflite", tmp_path / "m.tflite", feeds), strict=True):
        for output, wanted in zip(session.get_outputs(), session.run(None, feed), strict=True):
            np.testing.assert_array_equal(found[output.name], wanted, err_msg=output.name, strict=True)
