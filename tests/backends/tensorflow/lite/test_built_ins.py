"""Operators that TensorFlow Lite has a built-in for are written as that one; phones have kernels by operator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from convert.graph.builder import Graph
from tests.support.onnx_support import run_ort
from tests.support.tensorflow_lite_helper import encode, run

BUILT_INS: dict[tuple[str, str], Mapping[str, Any]] = {
    ("Elu", "ELU"): {},
    ("Gelu", "GELU"): {},
    ("HardSwish", "HARD_SWISH"): {},
    ("LeakyRelu", "LEAKY_RELU"): {"alpha": 0.2},
    ("LogSoftmax", "LOG_SOFTMAX"): {"axis": -1},
    ("Relu", "RELU"): {},
    ("Sigmoid", "LOGISTIC"): {},
    ("Softmax", "SOFTMAX"): {"axis": -1},
    ("Tanh", "TANH"): {},
}


@pytest.mark.parametrize(("names", "attributes"), BUILT_INS.items(), ids=[names[1] for names in BUILT_INS])
def test_an_activation_is_one_operator(names: tuple[str, str], attributes: Mapping[str, Any], tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    operator, built_in = names
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, (4, 33))
    g.output(getattr(g, operator)(x, **attributes), "y")
    feed = {"x": np.linspace(-8, 8, 4 * 33, dtype=np.float32).reshape(4, 33)}
    model = ir.to_proto(g.model())
    path = encode(g.model(), tmp_path)
    assert [each["op_name"] for each in Interpreter(str(path))._get_ops_details()] == [built_in]
    (want,) = run_ort(model, feed)
    np.testing.assert_allclose(run(path, feed)["y"], want, rtol=2e-6, atol=1e-6)
