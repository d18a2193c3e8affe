"""Values that must not be off by their last bit, by the operators that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.rounding import is_inexact_divisor, is_rounded

F = ir.DataType.FLOAT
ONE = np.float32(1)
USES: dict[str, tuple[Callable[[Graph, ir.Value], ir.Value], bool]] = {
    "floor": (lambda g, x: g.Floor(x), True),
    "comparison": (lambda g, x: g.Less(x, ONE), True),
    "integers": (lambda g, x: g.Cast(x, to=ir.DataType.INT64), True),
    "truth": (lambda g, x: g.Cast(x, to=ir.DataType.BOOL), True),
    "steps": (lambda g, x: g.QuantizeLinear(x, ONE, np.uint8(0)), True),
    "a sum and a slice away": (lambda g, x: g.Round(g.Unsqueeze(g.Add(x, ONE), np.array([0]))), True),
    "doubles": (lambda g, x: g.Floor(g.Cast(x, to=ir.DataType.DOUBLE)), True),
    "one of two uses": (lambda g, x: g.Sub(g.Tanh(x), g.Floor(x)), True),
    "a product": (lambda g, x: g.Mul(x, ONE), False),
    "another dtype": (lambda g, x: g.Cast(x, to=ir.DataType.DOUBLE), False),
    "behind a function": (lambda g, x: g.Floor(g.Tanh(x)), False),
}


@pytest.mark.parametrize("use", USES)
def test_what_becomes_of_a_quotient(use: str) -> None:
    made, rounded = USES[use]
    g = Graph()
    quotient = g.Div(g.input("x", F, ["n"]), np.float32(3))
    g.output(made(g, quotient), "y")
    assert is_rounded(quotient) is rounded


@pytest.mark.parametrize(
    ("divisor", "inexact"),
    [
        ([3], True), ([-3], True), ([4, 3], True), ([0.1], True), ([1.5], True),
        ([4], False), ([-0.25], False), ([1, 2], False), ([3, 0], False), ([], False), ([np.inf], False),
    ],
)  # fmt: skip
def test_reciprocals_of_powers_of_two_are_exact(divisor: Sequence[float], inexact: bool) -> None:
    assert is_inexact_divisor(np.array(divisor, np.float32)) is inexact


def test_what_is_no_constant_or_no_float_is_divided_as_it_is() -> None:
    assert not is_inexact_divisor(None)
    assert not is_inexact_divisor(np.array([3]))
