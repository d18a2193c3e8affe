"""Activation functions of recurrent layers in convert/semantics, in the reference executor and in onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from convert.errors import Unsupported
from convert.reference.kernels.rnn import rnn
from convert.semantics.activations import ALPHAS, BETAS, DEFAULTS, Activation, activations
from tests.support.onnx_support import array, info, model, run_ort

FUNCTIONS = [
    "Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign", "Tanh",
    "ThresholdedRelu",
]  # fmt: skip

# onnxruntime uses zero for numbers that the node does not give. ONNX uses the defaults of the operators of the same
# name, which is 1 for ThresholdedRelu. Affine and ScaledTanh, which are no operators any more, become the identity and
# tanh.
ZEROS = {"Affine", "ScaledTanh", "ThresholdedRelu"}

X = np.linspace(-3, 3, 13, dtype=np.float32)


def value(function: Activation, x: np.ndarray) -> np.ndarray:
    """Return the value of ONNX's formula, as RNN-22 gives it."""
    alpha, beta = function.alpha, function.beta
    return {
        "Affine": lambda: alpha * x + beta,
        "Elu": lambda: np.where(x >= 0, x, alpha * (np.exp(x) - 1)),
        "HardSigmoid": lambda: np.minimum(np.maximum(alpha * x + beta, 0), 1),
        "LeakyRelu": lambda: np.where(x >= 0, x, alpha * x),
        "Relu": lambda: np.maximum(0, x),
        "ScaledTanh": lambda: alpha * np.tanh(beta * x),
        "Sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "Softplus": lambda: np.log(1 + np.exp(x)),
        "Softsign": lambda: x / (1 + np.abs(x)),
        "Tanh": lambda: np.tanh(x),
        "ThresholdedRelu": lambda: np.where(x >= alpha, x, 0),
    }[function.name]()


def applied(names: list[str], numbers: dict[str, list[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Return f(x) computed by an RNN of one step, by the reference executor and by onnxruntime: [directions,
    len(X)].
    """
    count = len(names)
    one = np.ones((count, 1, 1), np.float32)
    zero = np.zeros((count, 1, 1), np.float32)
    every: dict[str, Any] = {
        "activations": names, "direction": "bidirectional" if count == 2 else "forward", "hidden_size": 1, **numbers,
    }  # fmt: skip
    x = X.reshape(1, -1, 1)
    missing = {"activation_alpha": None, "activation_beta": None, "clip": None, "layout": 0}
    kernel = rnn(1, x.astype(np.float64), one, zero, **{**missing, **every})
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], **every)
    proto = model([node], [info("x", x.shape)], [info("y", None)], [array("w", one), array("r", zero)], opset=14)
    (theirs,) = run_ort(proto, {"x": x})
    made = kernel[0] if isinstance(kernel, (list, tuple)) else kernel
    return np.asarray(made)[0, :, :, 0], theirs[0, :, :, 0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    ((found,),) = activations("RNN", [name.lower()], None, None, 1)
    kernel, theirs = applied([name], {})
    np.testing.assert_allclose(kernel[0], value(found, X.astype(np.float64)), atol=1e-12)
    departs = Activation(name) if name in ZEROS else found
    np.testing.assert_allclose(theirs[0], value(departs, X), atol=1e-6)


@pytest.mark.parametrize("pair", [("LeakyRelu", "HardSigmoid"), ("Tanh", "Elu"), ("ScaledTanh", "Affine")])
def test_numbers_are_used_up_in_order(pair: tuple[str, str]) -> None:
    alphas = [0.3, 0.7][: sum(name in ALPHAS for name in pair)]
    betas = [0.4, 0.6][: sum(name in BETAS for name in pair)]
    found = activations("RNN", pair, alphas, betas, 2)
    numbers = {"activation_alpha": alphas, **({"activation_beta": betas} if betas else {})}
    kernel, theirs = applied(list(pair), numbers)
    for direction, (function,) in enumerate(found):
        np.testing.assert_allclose(kernel[direction], value(function, X.astype(np.float64)), atol=1e-7)
        np.testing.assert_allclose(theirs[direction], value(function, X), atol=1e-6)


def test_defaults() -> None:
    assert [f.name for f in activations("LSTM", None, None, None, 2)[1]] == list(DEFAULTS["LSTM"])
    with pytest.raises(Unsupported, match="the activation 'Swish'"):
        activations("GRU", ["Swish", "Tanh"], None, None, 1)
    with pytest.raises(Unsupported, match="3 activations in 2 directions of 3 each"):
        activations("LSTM", DEFAULTS["LSTM"], None, None, 2)
