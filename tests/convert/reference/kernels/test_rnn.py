"""Recurrent layers of the reference executor against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from convert.graph import Graph
from convert.reference.executor import run
from tests.convert.reference.kernels.support import RNG, ort_case
from tests.support.onnx_support import array


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", ["RNN", "GRU", "GRU after", "LSTM", "LSTM peepholes"])
def test_recurrent(operator: str, direction: str) -> None:
    kind, gates = operator.split()[0], {"RNN": 1, "GRU": 3, "LSTM": 4}[operator.split()[0]]
    directions, hidden = 2 if direction == "bidirectional" else 1, 5
    constants = [
        array("w", RNG.normal(size=(directions, gates * hidden, 4))),
        array("r", RNG.normal(size=(directions, gates * hidden, hidden))),
        array("b", RNG.normal(size=(directions, 2 * gates * hidden))),
        array("n", [7, 3, 5], np.int32),
        array("h", RNG.normal(size=(directions, 3, hidden))),
    ]
    names = ["x", "w", "r", "b", "n", "h"]
    attributes: dict[str, Any] = {"linear_before_reset": 1} if "after" in operator else {}
    if "peepholes" in operator:
        constants += [
            array("c", RNG.normal(size=(directions, 3, hidden))),
            array("p", RNG.normal(size=(directions, 3 * hidden))),
        ]
        names += ["c", "p"]
    node = helper.make_node(kind, names, ["y"], hidden_size=hidden, direction=direction, **attributes)
    ort_case([node], {"x": RNG.normal(size=(7, 3, 4)).astype(np.float32)}, constants)


def test_an_infinite_cell_without_peepholes() -> None:
    """Saturated gates let the infinite cell through: there is no product with missing peephole weights."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [1, 1, 1])
    w, r = np.full((1, 4, 1), 1, np.float32), np.zeros((1, 4, 1), np.float32)
    y = g.LSTM(x, w, r, hidden_size=1, activations=["Sigmoid", "Relu", "Relu"], outputs=3)[0]
    g.output(y, "y")
    (found,) = run(g.model(), {"x": np.full((1, 1, 1), np.inf, np.float32)}).values()
    assert found.item() == np.inf
