"""Longer inputs, tables that inputs index, and examples: the sizes that are sampled, and the integers that are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY
from convert.parity.evidence import RunOutputs
from convert.parity.inputs.feeds import GIVEN, Feed
from convert.parity.inputs.uneven import _rows_taken_by_place, longest_feed
from convert.parity.method import VerifyMethod
from convert.parity.runs.source_runs import _is_empty, _longer_runs, _run, _with_integers_of, run_where_it_runs
from convert.request.options import Options
from convert.request.source import Source
from tests.convert.parity.input_models import sized

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64
SOUND = ("n", 3, "t")


class Longer:
    """A source that returns frames from a certain length on, and records the requested lengths."""

    def __init__(self, graph: ir.Model, frames_from: int, refused_from: int = 1 << 30) -> None:
        self.asked: list[Sequence[Mapping[str, int]]] = []
        self.frames_from, self.refused_from = frames_from, refused_from
        self.found = _longer_runs(self.run, self.draw, graph)

    def draw(self, sizes: Sequence[Mapping[str, int]], spans: Any) -> list[Feed]:
        self.asked.append(sizes)
        return [Feed(str(s), {"x": np.zeros((s["n"], 3, s["t"]), np.float32)}) for s in sizes]

    def run(self, feeds: Sequence[Feed]) -> RunOutputs:
        lengths = [feed.arrays["x"].shape[-1] for feed in feeds]
        if max(lengths) >= self.refused_from:
            raise BadInput("too long")
        outputs = [{"y": np.zeros(int(length >= self.frames_from))} for length in lengths]
        return RunOutputs({"float32": outputs}, outputs, outputs)


def lengths(*factors: int) -> list[list[dict[str, int]]]:
    """Return the usual lengths (two rows of 16, one of 16, three of 17), multiplied by a factor."""
    usual = [(2, 16), (1, 16), (3, 17)]
    return [[{"n": n, "t": t * factor} for n, t in usual] for factor in factors]


@pytest.mark.parametrize(("frames_from", "factors"), [(17, (8,)), (136, (8,)), (137, (8, 64)), (1089, (8, 64, 512))])
def test_longer_inputs_are_8_64_and_512_times_as_long(frames_from: int, factors: tuple[int, ...]) -> None:
    made = Longer(sized(SOUND), frames_from)
    assert made.asked == lengths(*factors)
    assert made.found is not None
    runs, taken, (note,) = made.found
    assert len(runs.target) == len(taken) == 3
    shown = " and ".join(f"n={s['n']}, t={s['t']}" for s in lengths(factors[-1])[0])
    assert note == f"at the sizes that are usual no output has an element: compared at {shown}"


def test_where_nothing_is_long_enough_or_it_is_refused_there_are_none() -> None:
    made = Longer(sized(SOUND), 1 << 20)
    assert (made.found, made.asked) == (None, lengths(8, 64, 512))
    made = Longer(sized(SOUND), 1000, refused_from=1000)
    assert (made.found, made.asked) == (None, lengths(8, 64))


@pytest.mark.parametrize(("rows", "found"), [(1 << 14, True), ((1 << 14) + 1, False)])
def test_longer_inputs_are_of_two_million_numbers_at_the_most(rows: int, found: bool) -> None:
    """2^14 rows of 2^7 are 2^21."""

    class Wide(Longer):
        def draw(self, sizes: Sequence[Mapping[str, int]], spans: Any) -> list[Feed]:
            return [Feed("one", {"x": np.broadcast_to(np.float32(0), (rows, 128))})]

    assert (Wide(sized(SOUND), 17).found is not None) is found


def test_longer_inputs_stay_within_bounds_and_guards() -> None:
    assert Longer(sized(SOUND, bounds={"t": [1, 100], "n": [2, 2]}), 99).asked == [[{"n": 2, "t": 100}] * 3]
    with_guards = Longer(sized(SOUND, guards=["t % 10 == 0"]), 1 << 20)
    assert all(s["t"] % 10 == 0 for sizes in with_guards.asked for s in sizes)


def test_outputs_without_an_element() -> None:
    def runs(*outputs: Any) -> RunOutputs:
        return RunOutputs({"float32": list(outputs)}, [], [])

    none, one = np.zeros((0, 3)), np.zeros(1)
    assert _is_empty(runs({"y": none}, {"y": none, "z": none}))
    assert not _is_empty(runs({"y": none}, {"y": none, "z": one}))
    assert not _is_empty(RunOutputs({"float32": Unsupported("no")}, [], []))


# -- the example's integers -------------------------------------------------------------------------------------------


def words(*shapes: Sequence[int | str]) -> ir.Model:
    g = Graph()
    for name, dtype, shape in zip(("i", "x"), (I64, F), shapes, strict=True):
        g.output(g.Abs(g.input(name, dtype, shape)), f"y{name}")
    return g.model()


def test_the_examples_integers_go_with_other_floats_of_its_sizes() -> None:
    asked: list[Any] = []
    example = Feed(GIVEN, {"i": np.array([7, 5]), "x": np.ones((2, 3), np.float32)})

    def draw(sizes: Any, spans: Any) -> list[Feed]:
        asked.append((sizes, spans))
        other = Feed("other sizes", {"i": np.zeros(3, int), "x": np.zeros((3, 3))})
        return [example, Feed("seed 0", {"i": np.zeros(2, int), "x": np.zeros((2, 3))}), other]

    (found,) = _with_integers_of(example, words(["n"], ["n", "t"]), draw)
    assert asked == [([{"n": 2, "t": 3}], {})]
    assert (found.label, found.arrays["i"].tolist(), found.arrays["x"].sum()) == ("seed 0", [7, 5], 0)
    assert _with_integers_of(Feed(GIVEN, {"i": np.zeros(2, int)}), words(["n"], [3]), draw) == []
    assert _with_integers_of(Feed(GIVEN, {"x": np.zeros(2)}), words(["n"], [3]), draw) == []
    assert len(asked) == 1


@pytest.mark.parametrize(("alike", "tries"), [("ab", 1), ("ac", 2), ("aa", 2), ("abc", 2), ("a", 2)])
def test_alike_dims_are_tried_where_they_are_others(alike: str, tries: int) -> None:
    """The sets at the edge, here in upper case, differ in either case."""
    asked: list[str] = []

    def feeds(names: str) -> list[Feed]:
        return [Feed(name, {}, edge=name.isupper()) for name in names]

    def run(given: Sequence[Feed]) -> RunOutputs:
        asked.append("".join(feed.label for feed in given))
        raise BadInput("no")

    made, options = sized((2, 3)), Options()
    with pytest.raises(BadInput, match="no"):
        run_where_it_runs(
            run, lambda *_: feeds(f"{alike}Y"), feeds("abX"), Source("onnx-object"), made, options, VerifyMethod()
        )
    assert asked == ["abX", f"{alike}Y"][:tries]


def test_inputs_of_unknown_rank_say_no_sizes() -> None:
    made = words(["n"], ["n", "t"])
    made.graph.inputs[1].shape = None
    example = Feed(GIVEN, {"i": np.array([7, 5]), "x": np.ones((2, 3), np.float32)})
    asked: list[Any] = []
    assert _with_integers_of(example, made, lambda sizes, spans: asked.append(sizes) or []) == []
    assert asked == [[{"n": 2}]]


def test_what_an_uneven_set_ends_is_run_without_it() -> None:
    feeds = [Feed(name, {}, uneven=name in "bc") for name in "abcd"]

    def run(stop: str) -> Any:
        def outputs(given: Sequence[Feed]) -> RunOutputs:
            ran = [feed for feed in given if feed.label not in stop]
            first = next((i for i, feed in enumerate(given) if feed.label in stop), len(given))
            return RunOutputs({}, [{}] * (len(ran) if first == len(given) else first), [])

        return outputs

    for stop, taken in (("", "abcd"), ("b", "acd"), ("bc", "ad"), ("d", "abc"), ("a", "")):
        assert "".join(feed.label for feed in _run(run(stop), feeds)[1]) == taken
    twice = [Feed("a", {}), Feed("b", {}, uneven=True), Feed("b", {}, uneven=True), Feed("c", {})]

    def first(given: Sequence[Feed]) -> RunOutputs:
        there = next((i for i, feed in enumerate(given) if feed is twice[1]), len(given))
        return RunOutputs({}, [{}] * there, [])

    assert list(map(id, _run(first, twice)[1])) == [id(feed) for feed in (twice[0], *twice[2:])]
    special = [Feed("a", {}), Feed("s", {}, special=True), Feed("d", {})]
    refused = RunOutputs({}, [{}, {}], [], refused="the source takes them")
    assert [feed.label for feed in _run(lambda given: refused, special)[1]] == ["a", "d"]


# -- tables of places -------------------------------------------------------------------------------------------------


def table(way: str, rows: int, dims: Sequence[int | str] = ("n", "t"), columns: int = 2) -> ir.Model:
    """Return the rows of a table by position, for each of the t elements of a row of integers."""
    g = Graph()
    x = g.input("x", I64, dims)
    length = g.Shape(x, start=1, end=2)
    if way == "last axis":
        taken = g.Transpose(g.Slice(np.zeros((columns, rows), np.float32), [0], length, [-1]), perm=[1, 0])
    elif way == "all axes":
        ends = g.Concat(length, np.array([columns]), axis=0)
        taken = g.Slice(np.zeros((rows, columns), np.float32), [0, 0], ends)
    else:
        places = g.Range(np.int64(0), g.Squeeze(length, [0]), np.int64(1))
        taken = g.Transpose(g.Gather(np.zeros((columns, rows), np.float32), places, axis=1), perm=[1, 0])
    g.output(g.Add(g.Unsqueeze(g.Cast(x, to=F), [2]), taken), "y")
    return g.model()


@pytest.mark.parametrize(("way", "found"), [("last axis", {200}), ("all axes", {200, 3}), ("gather", {200})])
def test_rows_of_a_table_are_along_the_axis_that_places_are_taken_of(way: str, found: set[int]) -> None:
    assert _rows_taken_by_place(table(way, 200, columns=3)) == found


def longest(model: ir.Model) -> tuple[int, ...] | None:
    feed = longest_feed(model, 4)
    assert feed is None or (feed.edge, feed.uneven) == (True, True)
    return None if feed is None else feed.arrays["x"].shape


@pytest.mark.parametrize(("rows", "shape"), [(129, None), (130, (1, 130)), (1024, (1, 1024)), (1025, None)])
def test_tables_of_more_rows_than_another_set_and_of_1024_at_the_most(rows: int, shape: Any) -> None:
    assert longest(table("gather", rows)) == shape


def test_of_several_tables_a_set_is_as_long_as_the_longest() -> None:
    g = Graph()
    x = g.input("x", I64, ["n", "t"])
    length = g.Shape(x, start=1, end=2)
    for rows in (300, 600, 200):
        g.output(g.Slice(np.zeros((rows, 2), np.float32), [0], length, [0]), f"y{rows}")
    made = g.model()
    assert longest(made) == (1, 600)
    made.metadata_props[GUARDS_KEY] = json.dumps(["t <= 300"])
    assert longest(made) == (1, 300)


def test_a_long_set_is_cheap_and_within_bounds_and_guards() -> None:
    """The second of the usual sizes has one row; 800 elements times 800 x 1,200 numbers are too many products."""
    made = table("gather", 400)
    made.metadata_props[DIMS_KEY] = json.dumps({"n": [4, 9]})
    assert longest(made) == (4, 400)
    made.metadata_props[DIMS_KEY] = json.dumps({"t": [1, 350]})
    assert longest(made) is None, "it is known how long it may be, and the set of many rows goes so far"
    made.metadata_props[DIMS_KEY] = json.dumps({"t": [1, 600]})
    assert longest(made) == (1, 400)
    made.metadata_props[DIMS_KEY] = json.dumps({"t": [1, 513]})
    made.metadata_props[GUARDS_KEY] = json.dumps(["t % 16 == 0"])
    assert longest(made) == (1, 400)
    assert longest(table("gather", 300, columns=800)) == (1, 300)
    assert longest(table("gather", 800, columns=1200)) is None
