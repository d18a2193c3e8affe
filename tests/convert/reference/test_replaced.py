"""Runs of a graph in which some values are replaced by other numbers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.reference.replaced import run_replaced


def test_what_follows_has_the_other_numbers() -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [3])
    double = g.Mul(x, np.float32(2))
    double.name = "double"
    g.output(g.Add(double, x), "sum")
    g.output(g.Neg(double), "negative")
    model, feeds = g.model(), {"x": np.array([1, 2, 3], np.float32)}
    found = run_replaced(model, feeds, {"double": np.array([10, 20, 30], np.float32)})
    assert found["sum"].tolist() == [11, 22, 33]
    assert found["negative"].tolist() == [-10, -20, -30]
    assert run_replaced(model, feeds, {})["sum"].tolist() == [3, 6, 9]
    assert run_replaced(model, feeds, {"x": np.array([0, 0, 1], np.float32)})["sum"].tolist() == [0, 0, 3]
