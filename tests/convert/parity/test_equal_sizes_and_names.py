"""Sizes and names that are equal without being the same object, as in real files."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE
from convert.parity.compare.declared_signature import _dims
from convert.parity.compare.randomness import judge_random
from convert.parity.compare.special_verdict import _Excuse, _excused_rows
from convert.parity.inputs import size_search
from convert.parity.inputs.boundary_values import boundary_values
from convert.parity.inputs.feeds import given_feed
from convert.parity.pairing.counterparts import Counterparts, _dims_fit, find_counterparts, narrow_dims
from convert.runtimes.declared_signature import DeclaredTensor
from tests.convert.parity.input_models import plain, sized

F = ir.DataType.FLOAT


def large(number: int = 1000) -> int:
    """Return a number that is a new object, because Python shares small numbers only."""
    return int(str(number))


def test_large_dims_fit() -> None:
    assert _dims_fit((large(), None), (large(), 3))
    assert not _dims_fit((large(), None), (large(1001), 3))
    assert _dims(DeclaredTensor("y", "float", (large(), None)), [(large(), 2)], {}, "y") == []
    assert _dims(DeclaredTensor("y", "float", (large(), None)), [(large(1001), 2)], {}, "y") != []


@pytest.mark.parametrize(("size", "status"), [(1000, INCONCLUSIVE), (1001, FAIL)])
def test_large_random_outputs_keep_their_shape(size: int, status: str) -> None:
    g = Graph()
    x = g.input("x", F, [1000])
    g.output(g.Add(x, g.RandomNormalLike(x)), "y")
    row = judge_random(g.model(), "y", "RandomNormalLike", [np.zeros(large())], [np.zeros(large(size))])
    assert row.status == status


def test_large_inputs_are_taken_as_they_are() -> None:
    feed = given_feed(plain(shape=[1000, "n"]), {"x": np.zeros((large(), 2), np.float32)})
    assert feed.arrays["x"].shape == (1000, 2)


def test_a_thousand_rows_go_their_own_ways() -> None:
    g = Graph()
    g.output(g.Neg(g.input("x", F, [1000, 2])), "y")
    made = g.model()
    node = made.graph.outputs[0].producer()
    assert node is not None
    found = _excused_rows(made, "y", [_Excuse(node, frozenset({999}))], {"x": np.ones((large(), 2), np.float32)})
    assert found == {999}


def test_large_fixed_sizes_are_one_size() -> None:
    """Two inputs share their first dim."""
    g = Graph()
    for name in "ab":
        g.output(g.Neg(g.input(name, F, ["n", 3])), f"y{name}")
    other = Graph()
    for name in "ab":
        other.output(other.Neg(other.input(name, F, [large(), 3])), f"y{name}")
    left, right = g.model(), other.model()
    pairs = find_counterparts(left, right, {}, "", ("one", "two"))
    assert isinstance(pairs, Counterparts)
    assert narrow_dims(left, right, pairs, "", ("one", "two")) == ["compared at n = 1000 only, which two is fixed to"]


def test_large_whole_numbers_are_compared_with() -> None:
    g = Graph()
    g.output(g.Equal(g.input("x", ir.DataType.INT64, ["n"]), np.int64(50_000)), "y")
    assert boundary_values(g.model().graph.inputs[0]) == [49_999, 50_000, 50_001]


def test_sizes_that_are_usual_are_told_as_such() -> None:
    made = sized(("n", "t"), {"t": [3000, None]})
    told = size_search.describe_search(made, [{"n": large(2), "t": large(3000)}])
    assert "at every size near by: compared at n=2, t=3000" in told
    assert "at the sizes that are usual" in size_search.describe_search(made, [{"n": 2, "t": 3001}])
