"""Extremes of functions, and their indices: TensorFlow swaps the two operators, which is wrong for some functions."""

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
    """Return a model with each operator on each function of x; nothing else reads the function."""
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


MONOTONE = ("Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Floor", "Erf")
EXTREMES = {
    "ReduceMax": "ReduceMax <axes = [2, 3]>",
    "ReduceMin": "ReduceMin <axes = [2, 3]>",
    "GlobalMaxPool": "GlobalMaxPool",
    "MaxPool": "MaxPool <kernel_shape = [2, 2]>",
    "MaxPool3": "MaxPool <kernel_shape = [2, 2], dilations = [1, 1], strides = [2, 2]>",
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["tf", pytest.param("tf-frozen", marks=pytest.mark.long)])
def test_an_extreme_keeps_its_function_before_exp_minus_one(form: str, tmp_path: Path) -> None:
    """TensorFlow swaps maximum and function, then turns the rest into Expm1 and loses the function."""
    names = [(kind, function) for kind in EXTREMES for function in MONOTONE]
    # Each function has an input of its own, because a value that is read twice is not changed.
    body = " ".join(
        f"c_{i} = Constant <value_float = {1 + i / 64}> () i_{i} = Mul (x, c_{i}) a_{i} = {f} (i_{i}) "
        f"m_{i} = {EXTREMES[k]} (a_{i}) e_{i} = Exp (m_{i}) y_{i} = Sub (e_{i}, one)"
        for i, (k, f) in enumerate(names)
    )
    outputs = ", ".join(f"float[n, 3, h, w] y_{i}" for i in range(len(names)))
    head = f"g (float[n, 3, 2, 2] x) => ({outputs}) <float one = {{1}}>"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {head} {{ {body} }}')
    path = tmp_path / {"tf": "m.savedmodel", "tf-frozen": "m.pb"}[form]
    convert.convert(model, form, path, verify=False)
    x = np.random.default_rng(0).normal(size=(4, 3, 2, 2)).astype(np.float32)
    (got,) = run_target(form, path, [{"x": x}])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = [output.name for output in model.graph.output]
    for name, kind, want in zip(found, names, session.run(found, {"x": x}), strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5, err_msg=str(kind))
