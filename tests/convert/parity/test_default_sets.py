"""The default input sets of a verification, depending on the graph and the options."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY
from convert.parity.inputs.default_feeds import default_feeds
from convert.parity.inputs.feeds import GIVEN, WITHOUT_ZERO, Feed, special_feed
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import Counterparts
from convert.parity.runs.repeats import kept_outputs
from convert.request.options import Options
from tests.convert.parity.input_models import plain

I64 = ir.DataType.INT64
USUAL = ["usual"] * 3


def kind(feed: Feed) -> str:
    """Return the purpose of an input set, derived from its flags and its label."""
    if feed.special:
        return "special"
    if feed.label.startswith(GIVEN):
        return "given"
    for text, name in (
        ("the first channel 64 times more", "far"),
        ("1000 added", "offset"),
        ("n=1, t=1", "smallest"),
        ("t=300", "longest"),
        ("t=257", "long"),
    ):
        if feed.label.endswith(text):
            return name
    return "uneven" if feed.uneven else "usual"


def kinds(
    graph: ir.Model, method: VerifyMethod | None = None, options: Options | None = None, **rest: Any
) -> list[str]:
    feeds = default_feeds(graph, options or Options(), method or VerifyMethod(), True, **rest)
    assert [feed.edge for feed in feeds] == [kind(feed) not in ("usual", "given") for feed in feeds]
    return [kind(feed) for feed in feeds]


def rows() -> ir.Model:
    return plain(shape=("n", "t"))


def pairs(kept: list[int], dtypes: Any = None) -> VerifyMethod:
    return VerifyMethod(counterparts=Counterparts({"x": "x"}, {"y": "y"}, ["y"], kept, dtypes or {}))


def test_usual_sets_come_first_and_sizes_last() -> None:
    assert kinds(rows()) == [*USUAL, "special", "far", "offset", "uneven", "long", "smallest"]
    assert kinds(plain(shape=("n", 4))) == [*USUAL, "special", "far", "offset", "uneven"], (
        "one row is among the usual ones"
    )
    assert kinds(rows(), VerifyMethod(seeds=4)) == [
        "usual",
        *USUAL,
        "special",
        "far",
        "offset",
        "uneven",
        "long",
        "smallest",
    ]
    assert kinds(rows(), VerifyMethod(seeds=2)) == USUAL[:2]
    assert kinds(rows(), VerifyMethod(seeds=1)) == USUAL[:1]


def test_where_larger_numbers_cannot_be_judged_there_are_many_rows_of_usual_ones() -> None:
    assert kinds(rows(), large=False) == [*USUAL, "special", "uneven", "long", "smallest"]


def test_sizes_and_integers_that_were_found_by_trial_are_all_that_is_taken() -> None:
    assert kinds(rows(), sizes=[{"n": 4, "t": 5}]) == USUAL
    whole = plain(I64, ("n", "t"))
    assert kinds(whole, spans={"x": (1, 3)}) == USUAL
    feeds = default_feeds(whole, Options(), VerifyMethod(), True, spans={"x": (1, 1)})
    assert all((feed.arrays["x"] == 1).all() for feed in feeds), "limited integers are not negative"
    for span in ((3, 7), (1, 7), (1, 12)):
        feeds = default_feeds(computed(), Options(), VerifyMethod(), True, spans={"x": span})
        assert all((feed.arrays["x"] >= span[0]).all() for feed in feeds), "nor are those of an example"
    feeds = default_feeds(computed(), Options(), VerifyMethod(), True, spans={"x": WITHOUT_ZERO})
    assert (feeds[2].arrays["x"][-1] < 0).all()
    assert (feeds[2].arrays["x"][:-1] > 0).all()


def computed() -> ir.Model:
    """Return a graph whose integers are only used in arithmetic."""
    g = Graph()
    g.output(g.Mul(g.input("x", I64, ["n", 4]), np.int64(3)), "y")
    return g.model()


def test_pairs_that_hold_less_have_usual_and_smallest_sets_alone() -> None:
    every = [*USUAL, "special", "far", "offset", "uneven", "long", "smallest"]
    assert kinds(rows(), pairs([0])) == every
    assert kinds(rows(), pairs([])) == [*USUAL, "smallest"]
    assert kinds(rows(), pairs([0], {"x": np.dtype(np.float16)})) == [*USUAL, "smallest"]


def test_the_example_is_the_first_set_and_is_there_once() -> None:
    made = plain(shape=("n", 4))
    example = {"x": np.full((3, 4), 2.0, np.float32)}
    assert kinds(made, options=Options(examples=example)) == ["given", *USUAL, "special", "far", "offset", "uneven"]
    drawn = default_feeds(made, Options(), VerifyMethod(), True)[1].arrays
    feeds = default_feeds(made, Options(examples=drawn), VerifyMethod(), True)
    assert [kind(feed) for feed in feeds] == ["given", *USUAL[:2], "special", "far", "offset", "uneven"]
    assert [feed.label.partition(",")[0] for feed in feeds[:3]] == [GIVEN, "seed 0", "seed 2"]
    # An example for one of two inputs is no set.
    g = Graph()
    for name in "ab":
        g.output(g.Identity(g.input(name, ir.DataType.FLOAT, ["n", 4])), f"y{name}")
    assert "given" not in kinds(g.model(), options=Options(examples={"a": example["x"]}))


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_users_inputs_are_the_only_ones(seeds: int) -> None:
    arrays = {"x": np.ones((3, 4), np.float32), "x@1": np.zeros((5, 4), np.float32)}
    feeds = default_feeds(plain(), Options(), VerifyMethod(seeds=seeds, arrays=arrays), True)
    assert [(feed.label, len(feed.arrays["x"])) for feed in feeds] == [(f"{GIVEN}, set 0", 3), (f"{GIVEN}, set 1", 5)]
    (feed,) = default_feeds(plain(), Options(), VerifyMethod(arrays={"x": arrays["x"]}), True)
    assert feed.label == GIVEN


def test_dims_that_are_alike_and_a_table_of_places() -> None:
    maps = plain(shape=("n", 3, "h", "w"))
    sides, alike = (
        [feed.arrays["x"].shape[2:] for feed in default_feeds(maps, Options(), VerifyMethod(), True, alike=each)]
        for each in (False, True)
    )
    assert [h == w for h, w in sides] == [True, True, False, True, True, True, False, True, True]
    assert all(h == w for h, w in alike)
    g = Graph()
    x = g.input("x", I64, ["n", "t"])
    places = g.Range(np.int64(0), g.Squeeze(g.Shape(x, start=1, end=2), [0]), np.int64(1))
    taken = g.Gather(np.zeros((300, 2), np.float32), places)
    g.output(g.Add(g.Unsqueeze(g.Cast(x, to=ir.DataType.FLOAT), [2]), taken), "y")
    made = g.model()
    assert kinds(made)[-3:] == ["longest", "long", "smallest"]
    made.metadata_props[DIMS_KEY] = '{"t": [1, 300]}'
    assert "longest" not in kinds(made)[:-3]


@pytest.mark.parametrize("seeds", [3, 4, 5, 7])
def test_each_set_at_the_edge_has_a_seed_of_its_own(seeds: int) -> None:
    """This concerns the sets after the usual ones."""
    g = Graph()
    x, i = g.input("x", ir.DataType.FLOAT, ["n", "t"]), g.input("i", I64, ["n", "t"])
    g.output(g.Slice(np.zeros((300, 2), np.float32), [0], g.Shape(i, start=1, end=2), [0]), "y")
    g.output(g.Neg(x), "z")
    made = g.model()
    found = {kind(feed): feed for feed in default_feeds(made, Options(), VerifyMethod(seeds=seeds), True)}
    seed = {name: feed.label.partition(",")[0] for name, feed in found.items() if name not in ("usual", "special")}
    assert seed == {
        "smallest": f"seed {seeds}", "uneven": f"seed {seeds + 1}", "far": f"seed {seeds + 2}",
        "longest": f"seed {seeds + 3}", "offset": f"seed {seeds + 4}", "long": f"seed {seeds + 5}",
    }  # fmt: skip
    wanted = special_feed(made, seeds)
    assert wanted is not None
    for name, array in found["special"].arrays.items():
        np.testing.assert_array_equal(array, wanted.arrays[name])


@pytest.mark.parametrize(("count", "kept"), [(1, "a"), (2, "ab"), (3, "ac"), (4, "ac")])
def test_outputs_that_are_fewer_than_those_that_are_kept_are_left_to_the_judge(count: int, kept: str) -> None:
    found = {name: np.ones(1) for name in "abcd"[:count]}
    assert "".join(kept_outputs(found, pairs([0, 2]).counterparts)) == kept
    assert kept_outputs(found, None) is found
    assert kept_outputs(found, pairs([]).counterparts) == {}
    assert kept_outputs({}, pairs([]).counterparts) == {}
