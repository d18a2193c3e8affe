"""Operators that an older opset lacks in bfloat16 are computed in float32, between casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.passes.opset.convert import convert_opset
from tests.convert.passes.opset.test_older_opsets import answers

T = ir.DataType
RNG = np.random.default_rng(3)
SQUARE = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Elu", "HardSwish", "Mish", "Selu", "Sin",
          "Sinh", "Softsign", "Tan", "ThresholdedRelu", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool",
          "LpNormalization", "Det",
)  # fmt: skip
"""Operators on one tensor whose last two dims have the same length."""


def rounded(*shape: int) -> np.ndarray:
    """Return numbers that bfloat16 can represent."""
    return RNG.uniform(0.1, 0.9, shape).astype(ml_dtypes.bfloat16).astype(np.float32)


def windows(name: str) -> Callable[..., Any]:
    return lambda g, x, _: g.node(name, [x], {"kernel_shape": [2, 2]})


def cells(name: str, gates: int) -> Callable[..., Any]:
    def build(g: Graph, x: Any, const: Any) -> Any:
        weights = (const(rounded(1, gates * 3, 4)), const(rounded(1, gates * 3, 3)))
        return g.node(name, [g.Squeeze(x, [0]), *weights], {"hidden_size": 3}, outputs=2)[0]

    return build


CASES: dict[str, Callable[..., Any]] = {
    **{name: lambda g, x, _, name=name: g.node(name, [x]) for name in SQUARE},
    **{name: windows(name) for name in ("AveragePool", "MaxPool", "LpPool")},
    "LSTM": cells("LSTM", 4), "GRU": cells("GRU", 3), "RNN": cells("RNN", 1),
    "ConvTranspose": lambda g, x, const: g.ConvTranspose(x, const(rounded(3, 2, 2, 2))),
    "InstanceNormalization": lambda g, x, const: g.InstanceNormalization(x, const(rounded(3)), const(rounded(3))),
    "GridSample": lambda g, x, const: g.GridSample(x, const(rounded(1, 2, 2, 2))),
    "RoiAlign": lambda g, x, const: g.RoiAlign(x, const(rounded(1, 4) * 4), np.array([0])),
    "MaxRoiPool": lambda g, x, const: g.MaxRoiPool(x, const(np.array([[0, 0, 0, 2, 2]])), pooled_shape=[2, 2]),
    "DeformConv": lambda g, x, const: g.DeformConv(x, const(rounded(2, 3, 2, 2)), const(rounded(1, 8, 3, 3))),
    "NegativeLogLikelihoodLoss": lambda g, x, _: g.NegativeLogLikelihoodLoss(x, np.zeros((1, 4, 4), np.int64)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bfloat16_is_computed_in_float32(name: str) -> None:
    x = rounded(1, 3, 4, 4) + (name == "Acosh")
    x = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    state = RNG.bit_generator.state

    def model(dtype: ir.DataType) -> ir.Model:
        RNG.bit_generator.state = state  # the same weights for both
        g = Graph(opset=22)
        value = g.Cast(g.input("x", T.FLOAT, x.shape), to=dtype)
        g.output(g.Cast(CASES[name](g, value, lambda content: g.const(content, dtype)), to=T.FLOAT))
        lowered = g.model()
        convert_opset(lowered, 20)
        return lowered

    want = answers(model(T.FLOAT), {"x": x})[0].astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(answers(model(T.BFLOAT16), {"x": x})[0], want)
