"""Products of tensors of run-time rank, such as the result of an If whose branches have different ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow runs the artefacts")

import convert
from tests.support.run_targets import SUFFIXES, run_target

HEAD = '<ir_version: 10, opset_import: ["": 21]> graph '
OF_ANY = """z = If (more) <
    then_branch = a () => (float one) {{ one = Mul (x, w) }}, else_branch = b () => (float other) {{ other = Relu (x) }}
>"""
GRAPHS = {
    "both": "y = MatMul (z, z)",
    "a vector behind": "y = MatMul (z, x)",
    "a vector before": "y = MatMul (x, z)",
    "a matrix behind": "y = MatMul (z, m)",
    "a matrix before": "y = MatMul (m, z)",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_product(name: str, tmp_path: Path) -> None:
    text = f"""(float[4] x, bool more) => (float y) <float[2, 4, 4] w = {{{", ".join(map(str, range(32)))}}},
        float[4, 4] m = {{{", ".join(map(str, range(16)))}}}> {{ {OF_ANY.format()} {GRAPHS[name]} }}"""
    proto = onnx.parser.parse_model(HEAD + text)
    for value in (*proto.graph.output, *(v for a in proto.graph.node[0].attribute for v in a.g.output)):
        value.type.tensor_type.ClearField("shape")
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    path = tmp_path / f"m.{SUFFIXES['tf-frozen']}"
    convert.convert(proto, "tf-frozen", path, verify=False)
    for more in (True, False):
        feed = {"x": np.array([0.5, -1, 2, 3], np.float32), "more": np.array(more)}
        (want,) = session.run(None, feed)
        (got,) = run_target("tf-frozen", path, [feed])
        assert got["y"].shape == want.shape
        np.testing.assert_allclose(got["y"], want, rtol=1e-5)


def test_repeats_say_the_rank(tmp_path: Path) -> None:
    """TensorFlow Lite has no operator that checks a rank, so the backend refuses the Tile by name."""
    text = f"(float[4] x, bool more) => (float[2, 8] y) <float[2, 4] w = {{{', '.join(map(str, range(8)))}}}, "
    text += f"int64[2] r = {{1, 2}}> {{ {OF_ANY.format()} y = Tile (z, r) }}"
    proto = onnx.parser.parse_model(HEAD + text)
    for value in (v for a in proto.graph.node[0].attribute for v in a.g.output):
        value.type.tensor_type.ClearField("shape")
    feed = {"x": np.array([0.5, -1, 2, 3], np.float32), "more": np.array(True)}
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feed)
    convert.convert(proto, "tf-frozen", tmp_path / "m.pb", verify=False)
    np.testing.assert_array_equal(run_target("tf-frozen", tmp_path / "m.pb", [feed])[0]["y"], want)
    with pytest.raises(convert.Unsupported, match="Tile: TensorFlow Lite has no built-in EnsureShape"):
        convert.convert(proto, "tflite", tmp_path / "m.tflite", verify=False)
