"""The minimum-cut problem of a graph: the labels to choose, and the cost of each disagreement in bytes."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.passes.layout.assign import LayoutProblem, build_problem
from convert.passes.layout.dense import DENSE
from convert.passes.layout.min_cut import AS_IS, MOVED, Term, _flip_decision, _scaled_capacities, minimum_cut
from convert.passes.layout.model import Move, channels_first, channels_last
from convert.passes.layout.sensitive import SENSITIVE
from convert.passes.layout.table import AGNOSTIC
from tests.support.layout_support import conv, image, weights

F = ir.DataType.FLOAT
BYTES = 2 * 3 * 4 * 5 * 4
"""Number of bytes of an image [2, 3, 4, 5] in float32."""


def problem(g: Graph, move: Move = channels_last, moved: bool = False) -> LayoutProblem:
    table = {**AGNOSTIC, **(SENSITIVE if move is channels_last else DENSE)}
    return build_problem(g.model().graph, move, table, moved)


def test_a_convolution_wants_its_image_moved_and_the_ends_are_as_is() -> None:
    g = Graph()
    g.output(conv(g, g.Relu(image(g, 2, 3, 4, 5)), 4), "y")
    found = problem(g)
    relu, convolution = found.inputs
    assert (found.inputs[relu], found.outputs[relu]) == ([2], [2])
    assert (found.inputs[convolution], found.outputs[convolution]) == ([MOVED, AS_IS, AS_IS], [MOVED])
    assert found.terms == [
        Term(AS_IS, (2,), BYTES),
        Term(2, (MOVED,), BYTES, sensitive=True),
        Term(MOVED, (AS_IS,), BYTES * 4 // 3, sensitive=True),
    ]
    assert found.count == 3


def test_a_value_has_one_price_for_all_who_read_it_and_constants_have_none() -> None:
    g = Graph()
    r = g.Relu(image(g, 2, 3, 4, 5))
    g.output(g.Add(g.Neg(r), weights(3, 1, 1)), "a")
    g.output(g.Exp(r), "b")
    found = problem(g)
    assert [t for t in found.terms if t.source == 2] == [Term(2, (3, 5), BYTES)]
    assert [t.targets for t in found.terms] == [(2,), (3, 5), (4,), (AS_IS,), (AS_IS,)]
    assert all(t.price == BYTES for t in found.terms)


@pytest.mark.parametrize(
    ("move", "perm", "fixed"),
    [
        (channels_last, (0, 2, 3, 1), [(MOVED, 2), (AS_IS, 3)]),
        (channels_last, (0, 3, 1, 2), [(AS_IS, 2), (MOVED, 3)]),
        (channels_first, (0, 2, 3, 1), [(AS_IS, 2), (MOVED, 3)]),
        (channels_first, (0, 3, 1, 2), [(MOVED, 2), (AS_IS, 3)]),
        (channels_last, (3, 2, 0, 1), []),
    ],
)
def test_a_transpose_that_is_there_costs_nothing_between_its_own_sides(
    move: Move, perm: tuple[int, ...], fixed: list[tuple[int, int]]
) -> None:
    g = Graph()
    g.output(g.Relu(g.Transpose(image(g, 2, 3, 4, 5), perm=perm)), "y")
    found = problem(g, move)
    own = [Term(source, (target,), BYTES, existing=True) for source, target in fixed]
    assert found.terms == [*own, Term(AS_IS, (2,), BYTES), Term(3, (4,), BYTES), Term(4, (AS_IS,), BYTES)]


def test_of_three_dims_it_costs_nothing_where_the_sides_differ() -> None:
    g = Graph()
    g.output(g.Relu(g.Transpose(image(g, 2, 3, 4), perm=[0, 2, 1])), "y")
    assert problem(g).terms[0] == Term(2, (3,), 96, existing=True, negated=True)


@pytest.mark.parametrize("perm", [(1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_any_other_of_three_dims_costs_the_same_everywhere(perm: tuple[int, ...]) -> None:
    g = Graph()
    g.output(g.Relu(g.Transpose(image(g, 2, 3, 4), perm=perm)), "y")
    assert problem(g).terms == [Term(AS_IS, (2,), 96), Term(3, (4,), 96), Term(4, (AS_IS,), 96)]


def test_one_that_changes_nothing_costs_where_its_sides_differ() -> None:
    g = Graph()
    g.output(g.Relu(g.Transpose(image(g, 2, 3, 4, 5), perm=[0, 1, 2, 3])), "y")
    assert problem(g).terms[0] == Term(2, (3,), BYTES)


@pytest.mark.parametrize("before", [False, True])
def test_a_transpose_beside_a_convolution_is_as_good_as_new(before: bool) -> None:
    g = Graph()
    x = image(g, 2, 3, 4, 5)
    if before:
        g.output(g.Transpose(conv(g, x, 3), perm=[0, 2, 3, 1]), "y")
    else:
        g.output(conv(g, g.Transpose(x, perm=[0, 1, 3, 2]), 3), "y")
        g.output(conv(g, g.Transpose(x, perm=[0, 3, 1, 2]), 5), "z")
    own = [t for t in problem(g).terms if t.existing]
    assert len(own) == 2
    assert all(t.sensitive for t in own)


def test_an_operand_of_lower_rank_costs_what_its_broadcast_copy_does() -> None:
    """In an image, [4, 5] keeps its order and [3, 1, 5] does not."""
    g = Graph()
    x = image(g, "n", 3, 4, 5)
    plane, mixed = g.input("b", F, [4, 5]), g.input("c", F, [3, 1, 5])
    g.output(g.Add(g.Add(x, plane), mixed), "y")
    found = problem(g)
    whole = 16 * 3 * 4 * 5 * 4  # an unknown dim counts as 16
    assert found.terms[:3] == [Term(AS_IS, (2,), whole), Term(2, (3,), whole), Term(3, (AS_IS,), whole)]
    assert found.terms[3:] == [Term(AS_IS, (2,), 1), Term(AS_IS, (3,), 60)]


def test_a_norm_in_pieces_costs_a_little_more_than_a_transpose() -> None:
    g = Graph()
    g.output(g.LayerNormalization(image(g, 2, 3, 4, 5), weights(5)), "y")
    own, *others = problem(g, channels_first).terms
    assert (own.source, own.targets) == (AS_IS, (2,))
    assert BYTES < own.price < 1.1 * BYTES
    assert others == [Term(AS_IS, (2,), BYTES), Term(2, (AS_IS,), BYTES)]


def test_a_moved_boundary_is_of_images_only() -> None:
    g = Graph()
    x, ids = image(g, 2, 3, 4, 5), g.input("ids", ir.DataType.INT64, [2, 3, 4])
    flat = g.input("flat", F, [4, 5])
    g.output(g.Relu(x), "y")
    g.output(g.Neg(ids), "z")
    g.output(g.Abs(flat), "f")
    found = problem(g, moved=True)
    assert {v.name: n for v, n in found.boundary.items()} == {
        "x": MOVED, "ids": AS_IS, "flat": AS_IS, "y": MOVED, "z": AS_IS, "f": AS_IS
    }  # fmt: skip
    assert Term(MOVED, (2,), BYTES) in found.terms
    assert Term(2, (MOVED,), BYTES) in found.terms
    assert not any(problem(g).boundary.values())


def test_what_a_branch_reads_or_gives_is_wanted_as_is() -> None:
    g = Graph()
    r = g.Relu(image(g, 2, 3, 4, 5))
    then, other = g.body("then"), g.body("other")
    then.output(then.Neg(r), "a")
    other.output(other.Identity(weights(2, 3, 4, 5)), "b")
    y = g.facts(g.If(g.input("cond", ir.DataType.BOOL, []), then_branch=then, else_branch=other), F, [2, 3, 4, 5])
    g.output(y, "y")
    assert Term(2, (AS_IS,), BYTES) in problem(g).terms


@pytest.mark.parametrize("price", [1, 2**20, 2**40])
def test_prices_count_before_the_number_of_transposes(price: int) -> None:
    """Moving 2 costs one term of 3 units; leaving it as is costs two terms of 1 unit each."""
    terms = [Term(AS_IS, (2,), 3 * price), Term(2, (MOVED,), price), Term(MOVED, (2,), price)]
    assert minimum_cut(3, terms)[2] is False
    cheap = [Term(AS_IS, (2,), price), Term(2, (MOVED,), price), Term(MOVED, (2,), price)]
    assert minimum_cut(3, cheap)[2] is True


def test_labels_of_the_fixed_numbers_are_themselves() -> None:
    assert minimum_cut(2, []) == [False, True]
    assert minimum_cut(5, []) == [False, True, False, False, False]
    assert minimum_cut(3, [Term(MOVED, (2,), 5)]) == [False, True, True]
    assert minimum_cut(3, [Term(AS_IS, (2,), 5)]) == [False, True, False]


def test_one_price_for_several_targets_is_paid_once() -> None:
    """2 feeds 3 to 6, which are wanted moved at 5 each; the transpose for all of them costs 12."""
    wanted = [Term(MOVED, (n,), 5) for n in (3, 4, 5, 6)]
    labels = minimum_cut(7, [Term(AS_IS, (2,), 100), Term(2, (3, 4, 5, 6), 12), *wanted])
    assert labels == [False, True, False, True, True, True, True]
    labels = minimum_cut(7, [Term(AS_IS, (2,), 100), Term(2, (3, 4, 5, 6), 21), *wanted])
    assert labels == [False, True, *[False] * 5]


def test_opposed_ends_get_different_labels() -> None:
    terms = [Term(2, (3,), 10, negated=True), Term(AS_IS, (2,), 3)]
    assert minimum_cut(4, terms) == [False, True, False, True]
    terms = [Term(2, (3,), 10, negated=True), Term(3, (4,), 10, negated=True), Term(MOVED, (4,), 3)]
    assert minimum_cut(5, terms) == [False, True, True, False, True]


def test_of_equal_prices_nothing_moves_that_need_not() -> None:
    """Existing transposes are not counted, so both labels cost the same here."""
    moved = [Term(MOVED, (2,), 3, existing=True)] * 2
    assert minimum_cut(3, [Term(AS_IS, (2,), 6, existing=True), *moved]) == [False, True, False]


def test_of_equal_prices_the_side_of_sensitive_operators_wins() -> None:
    """Two terms for each label; three operators are sensitive, and two of these want the value moved, or as is."""
    for one, other, label in ((MOVED, AS_IS, True), (AS_IS, MOVED, False)):
        terms = [Term(one, (2,), 2, sensitive=True)] * 2
        terms += [Term(other, (2,), 3, sensitive=True), Term(other, (2,), 1)]
        assert minimum_cut(3, terms) == [False, True, label]


def test_an_output_of_a_branch_that_is_a_value_outside_is_wanted_as_is() -> None:
    g = Graph()
    x = image(g, 2, 3, 4, 5)
    r, e = g.Relu(x), g.Exp(x)
    then, other = g.body("then"), g.body("other")
    then.output(then.Neg(x), "a")
    other.output(other.Identity(weights(2, 3, 4, 5)), "b")
    y = g.facts(g.If(g.input("cond", ir.DataType.BOOL, []), then_branch=then, else_branch=other), F, [2, 3, 4, 5])
    g.output(g.Add(y, e), "y")
    then.graph.outputs[0] = r
    found = problem(g)
    made = found.outputs[r.producer()][0]  # type: ignore[index]
    assert [t for t in found.terms if t.source == made] == [Term(made, (AS_IS,), BYTES)]
    assert len([t for t in found.terms if t.source == AS_IS]) == 2  # x for both readers, and the result of the If


@pytest.mark.parametrize(
    ("prices", "capacities"),
    [
        ([4, 8], [1 * 3 + 1, 2 * 3 + 1]),  # by their divisor; one more than there are terms lets prices decide
        ([0, 6], [1 * 3 + 1, 6 * 3 + 1]),  # what is free costs a unit, or it would be paid for nothing
        ([7], [1 * 2 + 1]),
        # The sum is 2**27, so the budget of 2**29 leaves four steps for ten terms.
        ([2**27 - 9, *[1] * 9], [(2**27 - 9) * 4 + 1, *[5] * 9]),
        # At least two steps are needed; the prices are then scaled down in proportion.
        ([2**28, 2**28 - 1], [2**28 + 1, 2**28 - 1]),
        ([2**40, 1], [2 * (2**28 - 1) + 1, 3]),
    ],
)
def test_prices_become_capacities(prices: list[int], capacities: list[int]) -> None:
    assert _scaled_capacities([Term(AS_IS, (2,), p) for p in prices]) == capacities


def test_a_transpose_that_is_there_already_is_not_to_be_avoided_unless_a_convolution_is_beside_it() -> None:
    kinds = [{}, {"existing": True}, {"sensitive": True}, {"existing": True, "sensitive": True}]
    assert _scaled_capacities([Term(AS_IS, (2,), 3, **kind) for kind in kinds]) == [6, 5, 6, 6]


@pytest.mark.parametrize(
    ("terms", "turned", "decision"),
    [
        # Without a sensitive operator, values that are fixed to AS_IS are on the source side of the cut.
        ([Term(AS_IS, (2,), 1)], False, (False, False)),
        ([Term(AS_IS, (2,), 1)], True, (True, False)),
        ([Term(2, (AS_IS,), 1)], True, (True, False)),
        ([Term(MOVED, (2,), 1)], False, (False, False)),
        ([Term(MOVED, (2,), 1)], True, (False, False)),
        ([Term(2, (3,), 1)], True, (False, False)),
        # With a sensitive operator, the label that it wants goes to the sink, regardless of others.
        ([Term(2, (MOVED,), 1, sensitive=True)], False, (False, True)),
        ([Term(2, (MOVED,), 1, sensitive=True)], True, (True, True)),
        ([Term(AS_IS, (2,), 1, sensitive=True)], False, (True, True)),
        ([Term(AS_IS, (2,), 1, sensitive=True)], True, (False, True)),
        ([Term(2, (MOVED,), 1, sensitive=True), *[Term(AS_IS, (2,), 1)] * 3], False, (False, True)),
        ([Term(2, (MOVED, AS_IS), 1, sensitive=True)], False, (False, True)),
        ([Term(2, (MOVED, AS_IS), 1, sensitive=True), Term(AS_IS, (2,), 1, sensitive=True)], False, (True, True)),
        ([Term(2, (3,), 1, sensitive=True), Term(AS_IS, (2,), 1)], True, (True, False)),
    ],
)
def test_which_label_goes_to_which_end_of_the_cut(terms: list[Term], turned: bool, decision: tuple[bool, bool]) -> None:
    assert _flip_decision(terms, [False, False, turned, turned]) == decision
