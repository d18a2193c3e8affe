"""float64 products between casts, computed in float32."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.metadata import WIDER_KEY
from convert.passes.narrow_products import narrow_products

FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE


def model(end: ir.DataType, *, twice: bool = False, marked: bool = True) -> ir.Model:
    g = Graph()
    x = g.input("x", FLOAT, ["n", 3])
    wide = g.Gemm(g.Cast(x, to=DOUBLE), np.full((3, 2), 0.1), np.array([0.1, 0.2]))
    if marked:
        wide.producer().metadata_props[WIDER_KEY] = "SVMClassifier"
    y = g.Cast(wide, to=end)
    g.output(g.Relu(y) if end == FLOAT else y, "y")
    if twice:
        g.output(wide, "z")
    return g.model()


def test_a_product_that_starts_and_ends_in_float32() -> None:
    made = model(FLOAT)
    assert narrow_products(made)
    assert Counter(n.op_type for n in made.graph) == {"Gemm": 1, "Relu": 1}
    (gemm,) = [n for n in made.graph if n.op_type == "Gemm"]
    assert [v.dtype for v in (*gemm.inputs, *gemm.outputs) if v is not None] == [FLOAT] * 4
    assert not narrow_products(made)


@pytest.mark.parametrize("made", [model(DOUBLE), model(FLOAT, twice=True), model(FLOAT, marked=False)])
def test_others_stay(made: ir.Model) -> None:
    assert not narrow_products(made)
