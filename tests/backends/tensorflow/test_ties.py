"""Places of extremes of what a function has made equal: TensorFlow takes ArgMax(Relu(x)) for ArgMax(x) by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow runs the artefacts")

import convert
from tests.support.run_targets import run_target

FUNCTIONS = ("Relu", "Sigmoid", "Tanh", "Floor", "Ceil", "Round", "Sign", "Erf", "Elu")
X = np.array([[-3, -1, -2], [-1, -3, -2], [40, 50, 60], [0.2, 0.7, 0.9]], np.float32)


def extremes(operators: tuple[str, ...]) -> onnx.ModelProto:
    """Each operator on each function of x, which nothing else reads."""
    lines = [
        f"{operator}_{name}_x = {name} (x) {operator}_{name} = {operator} <axis = 1> ({operator}_{name}_x)"
        for operator in operators
        for name in FUNCTIONS
    ]
    outputs = [
        f"{'float' if operator == 'Hardmax' else 'int64'}[n, m_{operator}] {operator}_{name}"
        for operator in operators
        for name in FUNCTIONS
    ]
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]> g (float[n, 3] x) => ({", ".join(outputs)}) {{ {" ".join(lines)} }}'
    )


@pytest.mark.parametrize("form", ["tf", pytest.param("tf-frozen", marks=pytest.mark.long)])
def test_equal_numbers_have_their_first_place(form: str, tmp_path: Path) -> None:
    model = extremes(("ArgMax", "ArgMin", "Hardmax"))
    path = tmp_path / {"tf": "m.savedmodel", "tf-frozen": "m.pb"}[form]
    convert.convert(model, form, path, verify=False)
    (got,) = run_target(form, path, [{"x": X}])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in model.graph.output]
    for name, want in zip(names, session.run(names, {"x": X}), strict=True):
        np.testing.assert_array_equal(got[name], want, err_msg=name)
