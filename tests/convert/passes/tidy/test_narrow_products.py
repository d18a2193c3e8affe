"""float64 products between casts, computed in float32."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.metadata import WIDER_KEY
from convert.numerics.fourier import transform
from convert.passes.tidy.narrow_products import narrow_products, narrow_transforms
from convert.reference.executor import run

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


def spectrum(shape: list[int | str], dtype: ir.DataType = FLOAT, *, twice: bool = False) -> ir.Model:
    g = Graph()
    y = transform(g, g.input("x", dtype, shape), None, -2)
    g.output(g.Neg(transform(g, y, None, -3) if twice else y), "y")
    return g.model()


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("shape", [["n", 6, 6, 2], [6, 6, 2]])
def test_transforms_between_casts(shape: list[int | str], twice: bool) -> None:
    made = spectrum(shape, twice=twice)
    assert narrow_transforms(made)
    found = Counter(n.op_type for n in made.graph)
    assert found["DFT"] == 1 + twice
    assert not found["Cast"]
    assert {v.dtype for n in made.graph if n.op_type != "Shape" for v in n.outputs} == {FLOAT}
    assert not narrow_transforms(made)
    x = np.random.default_rng(0).standard_normal([3 if d == "n" else d for d in shape]).astype(np.float32)
    expected = np.fft.fft(x[..., 0] + 1j * x[..., 1], axis=-1)
    expected = np.fft.fft(expected, axis=-2) if twice else expected
    (y,) = run(made, {"x": x}).values()
    np.testing.assert_allclose(y, -np.stack([expected.real, expected.imag], -1), atol=1e-5)


@pytest.mark.parametrize("made", [spectrum(["n", 6, 2], DOUBLE), spectrum(["n", 8, 2])])
def test_other_transforms_stay(made: ir.Model) -> None:
    assert not narrow_transforms(made)
