"""Outputs that are nothing but tails of a function: what its kernel makes of 1 explains what is wrong with them."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from convert.graph import Graph
from tests.convert.parity.test_small_elements_by_hand import SINGLE, beyond, judge_of, part


@pytest.mark.parametrize(
    ("operators", "tails"),
    [("Sigmoid", True), ("Sigmoid Transpose Identity", True), ("Softmax", True), ("Sigmoid Exp", False), ("", False)],
)
def test_a_source_may_compute_tails_to_roundings_of_1(operators: str, tails: bool) -> None:
    g = Graph()
    value = g.input("x", ir.DataType.FLOAT, [2, 2])
    for operator in operators.split():
        value = getattr(g, operator)(value)
    g.output(g.Identity(value), "y")
    judge = judge_of(moved=[0.0])
    judge.graph = g.model()
    for error, unexplained in ((SINGLE, not tails), (16 * SINGLE, not tails), (beyond(16 * SINGLE) + 1e-12, True)):
        assert judge._is_unexplained(part(1e-9, (error, error)), 0, 0) == unexplained
