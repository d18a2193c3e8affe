"""Counts of places that were picked among scores, of which rounding decides some."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from convert.differences import Difference
from convert.graph import Graph
from convert.parity.inputs import Feed
from convert.parity.tied_counts import is_of_tied_scores

F = ir.DataType.FLOAT
# The logits of three experts. The last two rows saturate, and differ by less than float32 has of their sigmoids.
APART = np.array([[4, 1, 0], [4, 0, 1], [0, 4, 1], [1, 0, 4]], np.float32)
NEAR = np.array([[17.0, 17.5, 0], [17.5, 17.0, 0]], np.float32)


def counts(picker: str = "TopK", floating: bool = True, of_input: bool = False) -> ir.Model:
    """How many rows have each of three places in front of the others."""
    g = Graph()
    x = g.input("x", F if floating else ir.DataType.INT64, ["n", 3])
    scores = x if of_input or not floating else g.Sigmoid(x)
    if picker == "TopK":
        places = g.node("TopK", [scores, np.array([1])], outputs=2)[1]
    else:
        places = g.ArgMax(g.Transpose(scores, perm=[1, 0]), axis=0) if picker == "ArgMax" else g.Cast(scores, to=7)
    ones = g.OneHot(places, np.int64(3), np.array([0, 1]))
    g.output(g.ReduceSum(g.Reshape(ones, np.array([-1, 3])), np.array([0]), keepdims=0), "y")
    return g.model()


def explained(
    model: ir.Model,
    x: np.ndarray,
    reference: list[int],
    target: list[int],
    factor: float = 4.0,
    declared: Sequence[Difference] = (),
) -> bool:
    sides = ([np.array(side)] for side in (reference, target))
    return is_of_tied_scores(model, "y", [Feed("one", {"x": x})], *sides, factor, declared)


@pytest.mark.parametrize("picker", ["TopK", "ArgMax"])
def test_counts_of_saturated_scores_are_either(picker: str) -> None:
    x = np.concatenate([APART, NEAR])
    model = counts(picker)
    # exactly: 2, 1, 1 of the rows apart, and one more for each of the first two
    assert explained(model, x, [3, 2, 1], [4, 1, 1])
    assert explained(model, x, [3, 2, 1], [2, 3, 1])
    assert not explained(model, x, [3, 2, 1], [5, 0, 1])  # three rows would have changed, and two are near
    assert not explained(model, x, [3, 2, 1], [2, 2, 2])  # nothing is near to the last
    assert not explained(model, x, [3, 2, 1], [4, 1, 1], factor=0.0)


def test_scores_that_are_apart_explain_nothing() -> None:
    assert not explained(counts(), APART, [2, 1, 1], [1, 2, 1])
    near = np.concatenate([APART, np.array([[0.5, 0.6, 0]], np.float32)])
    assert not explained(counts(), near, [2, 2, 1], [3, 1, 1])


def test_scores_that_are_inputs_are_moved() -> None:
    x = np.concatenate([APART, np.array([[5, 5 * (1 + 2.0**-23), 0]], np.float32)])
    assert explained(counts(of_input=True), x, [2, 2, 1], [3, 1, 1])
    assert not explained(counts(of_input=True), APART, [2, 1, 1], [1, 2, 1])


def test_graphs_that_pick_nothing_and_other_shapes_are_not_explained() -> None:
    x = np.array([[0.2, 1.6, 2.4]], np.float32)
    assert not explained(counts("Cast"), x, [1, 1, 1], [1, 1, 2])
    assert not explained(counts(floating=False), x.astype(np.int64), [1, 1, 1], [1, 1, 2])
    assert not explained(counts(), np.concatenate([APART, NEAR]), [3, 2, 1], [4, 1])


def test_what_is_equal_needs_no_explanation() -> None:
    model, feeds = counts(), [Feed("apart", {"x": APART}), Feed("near", {"x": np.concatenate([APART, NEAR])})]
    references, targets = [[2, 1, 1], [3, 2, 1]], [[2, 1, 1], [4, 1, 1]]
    sides = [[np.array(one) for one in side] for side in (references, targets)]
    assert is_of_tied_scores(model, "y", feeds, *sides, 4.0)
    assert not is_of_tied_scores(model, "y", feeds[::-1], *sides, 4.0)  # each with its own numbers


@pytest.mark.parametrize("picker", ["TopK", "ArgMax"])
def test_of_equal_scores_the_first_is_picked(picker: str) -> None:
    """Unless a runtime is declared to take any of them; the first and the last of each near row are copies."""
    copies = np.array([[5, 0, 5], [0, 6, 6], [7, 7, 7]], np.float32)
    for model in (counts(picker), counts(picker, of_input=True)):
        assert not explained(model, copies, [2, 1, 0], [0, 1, 2])
        assert not explained(model, copies, [2, 1, 0], [2, 0, 1])
        declared = [Difference((picker,), "any of equal elements", equal=True)]
        assert explained(model, copies, [2, 1, 0], [1, 1, 1], declared=declared)
        other = [Difference(("Sort",), "any of equal elements", equal=True)]
        assert not explained(model, copies, [2, 1, 0], [1, 1, 1], declared=other)
