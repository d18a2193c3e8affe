"""The rules of `backends/keras/ops/recurrent.py` against onnxruntime: the shared rows of its operators, and more."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime
import pytest

import convert
from convert.errors import Unsupported
from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, f32, params
from tests.support.onnx_support import array

ROWS = [
    *shared_rows(__name__),
    case(
        "LSTM", f32(5, 3, 4), const(f32(1, 24, 4)), const(f32(1, 24, 6)), hidden_size=6, direction="reverse", _outputs=3
    ),
    case("GRU", f32(3, 5, 4), const(f32(1, 18, 4)), const(f32(1, 18, 6)), hidden_size=6, layout=1, _outputs=2),
    case(
        "RNN", f32(5, 3, 4), const(f32(1, 6, 4)), const(f32(1, 6, 6)), hidden_size=6, activations=["Relu"], _outputs=2
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)


BRANCHES = """<ir_version: 8, opset_import: ["" : 20]> g (float[6, 5, 3] x) => (float[6, 2, 5, 2] y)
  <float least = {1000}, float[1, 5, 1, 1] z = {1, 2, 3, 4, 5}> {
  n = ReduceSum <keepdims = 0> (x)
  many = Greater (n, least)
  v = If (many) <then_branch = a () => (float t) { t = Mul (x, z) }, else_branch = b () => (float e) { e = Neg (x) }>
  y = GRU <hidden_size = 2, direction = "bidirectional"> (v, w, r) }"""


def test_what_fails_behind_a_refusal_is_no_defect(tmp_path: Path) -> None:
    """From `tests.suites.compose --source onnx --seed 811`: the branch's result is unknown, and a GRU does not take
    such a value.
    """
    proto, rng = onnx.parser.parse_model(BRANCHES), np.random.default_rng(0)
    weights = {"w": rng.standard_normal((2, 6, 3)), "r": rng.standard_normal((2, 6, 2))}
    proto.graph.initializer.extend(array(name, content) for name, content in weights.items())
    with pytest.raises(Unsupported, match="no subgraphs"):
        convert.convert(proto, "keras", tmp_path / "m.keras", verify=False)


@pytest.mark.parametrize(("operator", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_a_width_that_the_weights_tell(operator: str, gates: int, tmp_path: Path) -> None:
    """From `tests.suites.compose --source onnx --seed 46181`: a layer's input has a dim that inference does not
    find.
    """
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 20]> g (float[t, b, w] x) => (float[t, 1, b, 2] y) '
        f"{{ y = {operator} <hidden_size = 2> (x, k, r) }}"
    )
    rng = np.random.default_rng(0)
    weights = {"k": rng.standard_normal((1, 2 * gates, 6)), "r": rng.standard_normal((1, 2 * gates, 2))}
    proto.graph.initializer.extend(array(name, content) for name, content in weights.items())
    convert.convert(proto, "keras", tmp_path / "m.keras", verify=False)
    session, network = (
        onnxruntime.InferenceSession(proto.SerializeToString()),
        keras.saving.load_model(tmp_path / "m.keras"),
    )
    for steps, batch in ((4, 3), (1, 2)):
        x = rng.standard_normal((steps, batch, 6)).astype(np.float32)
        np.testing.assert_allclose(network(x), session.run(["y"], {"x": x})[0], rtol=1e-5, atol=1e-6)
