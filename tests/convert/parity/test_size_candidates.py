"""Candidate sizes for unknown dims, and the choice among those that run, without any process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput, ConvertError, ResourceLimit, Unsupported, UsageError
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY
from convert.parity.inputs import size_search
from convert.parity.inputs.size_search import describe_search, search_sizes, suggested_sizes
from convert.processes.run_here import PROBE, PROBE_FIRST, Limits
from convert.request.options import Options
from convert.request.source import Source

F = ir.DataType.FLOAT
Sizes = Mapping[str, int]


def zeros(*dims: int) -> np.ndarray:
    return np.zeros(dims, np.float32)


def plain(*shapes: Sequence[int | str | None], bounds: Any = None, guards: Any = None) -> ir.Model:
    """Return inputs x0, x1 … of which only the shapes are known."""
    g = Graph()
    for number, shape in enumerate(shapes):
        g.output(g.Neg(g.input(f"x{number}", F, shape)), f"y{number}")
    model = g.model()
    model.metadata_props.update({DIMS_KEY: json.dumps(bounds or {}), GUARDS_KEY: json.dumps(guards or [])})
    return model


class Tried:
    """A source that runs if `accepts` returns True, and records the sizes it was given."""

    def __init__(self, accepts: Callable[[Any], bool]) -> None:
        self.accepts = accepts
        self.asked: list[tuple[str, list[dict[str, tuple[int, ...]]]]] = []
        self.stopped = 0

    def __call__(self, source: Source, feeds: Any, how: Sequence[str], options: Options, limits: Limits) -> Any:
        shapes = [{n: a.shape for n, a in feed.items()} for feed in feeds]
        self.asked.append((how[0], shapes))
        self.found = {how[0]: [{"runs": np.array(self.accepts(s))} for s in shapes]}
        return self

    def results(self) -> Any:
        return self.found

    def stop(self) -> None:
        self.stopped += 1


def searched(
    monkeypatch: pytest.MonkeyPatch, graph: ir.Model, accepts: Callable[[Any], bool], count: int = 3
) -> tuple[list[dict[str, int]], Tried]:
    tried = Tried(accepts)
    monkeypatch.setattr(size_search, "execute", tried)
    error = ConvertError("the source does not run")
    return search_sizes(Source("onnx-object"), graph, error, Options(), Limits(), count), tried


def test_the_usual_sizes_come_first_then_one_for_all_inner_dims(monkeypatch: pytest.MonkeyPatch) -> None:
    found, tried = searched(monkeypatch, plain(["n", 1, "h", "w"]), lambda s: s["x0"][2:] == (64, 64))
    assert found == [{"n": 2, "h": 64, "w": 64}, {"n": 1, "h": 64, "w": 64}]
    (first, shapes), (second, others) = tried.asked
    assert (first, second, tried.stopped) == (PROBE_FIRST, PROBE, 2)
    assert [s["x0"] for s in shapes[:4]] == [(2, 1, 16, 16), (2, 1, 32, 32), (2, 1, 64, 64), (2, 1, 224, 224)]
    assert len(shapes) <= 60
    # Nearby sizes: a batch of one; the batch, then the map's sides, larger by 1, doubled, larger by 8 and 32, and
    # halved. Half of 2 is 1 again.
    assert [s["x0"][0] for s in others[:5]] == [1, 3, 4, 10, 34]
    assert [s["x0"][2:] for s in others[5:10]] == [(65,) * 2, (128,) * 2, (72,) * 2, (96,) * 2, (32,) * 2]


def test_single_dims_and_the_batch_are_tried_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = searched(monkeypatch, plain(["n", 3, "h"]), lambda s: s["x0"][0] == 1, 1)
    assert found == [{"n": 1, "h": 16}]
    found, _ = searched(monkeypatch, plain(["n", "n"]), lambda s: s["x0"] == (5, 5), 1)
    assert found == [{"n": 5}]


@pytest.mark.parametrize("batch", [1, 2])
def test_pairs_of_the_graphs_own_sizes_are_tried(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph()
    x = g.input("x", F, ["n", "h", "w"])
    g.output(g.Add(g.Add(x, zeros(1, 7, 1)), zeros(1, 1, 9)), "y")
    found, tried = searched(monkeypatch, g.model(), lambda s: s["x"] == (batch, 7, 9), 1)
    assert found == [{"n": batch, "h": 7, "w": 9}]
    assert all(min(s["x"]) > 0 for _, shapes in tried.asked for s in shapes)


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_others_that_run_change_what_was_not_changed(
    count: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Multiples of 4 for h, any size for n, 32 for w alone."""
    graph = plain(["n", 1, "h", "w"])
    found, _ = searched(monkeypatch, graph, lambda s: s["x0"][2] % 4 == 0 and s["x0"][3] == 32, count)
    assert len(found) == expected
    assert found[0] == {"n": 2, "h": 32, "w": 32}
    changed = [{n for n in f if f[n] != found[0][n]} for f in found[1:]]
    assert sorted(changed, key=len) == [{"n"}, {"h"}][: expected - 1] or changed == [{"h"}, {"n"}][: expected - 1]


@pytest.mark.parametrize("kind", [Unsupported, ResourceLimit, UsageError])
def test_errors_that_no_size_mends_are_raised_again(kind: type[ConvertError]) -> None:
    error = kind("why")
    with pytest.raises(kind) as caught:
        search_sizes(Source("onnx-object"), plain(["n"]), error, Options(), Limits(), 3)
    assert caught.value is error


def test_without_dims_to_choose_the_error_is_raised_again() -> None:
    error = ConvertError("why")
    with pytest.raises(ConvertError) as caught:
        search_sizes(Source("onnx-object"), plain([2, 3]), error, Options(), Limits(), 3)
    assert caught.value is error


def test_where_nothing_runs_the_sizes_and_the_option_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_search, "execute", Tried(lambda s: False))
    graph = plain(["n", None], [4, 3], ["n", 3])
    with pytest.raises(BadInput) as caught:
        search_sizes(Source("onnx-object"), graph, BadInput("it fails"), Options(), Limits(), 3)
    text, _, tried = caught.value.message.partition(": ")
    assert text == "it fails; it runs at none of the sizes that were tried"
    sizes, _, more = tried.partition(" and ")
    assert sizes.split("; ")[:2] == ["n=2, x0.1=16", "n=2, x0.1=32"]
    assert len(sizes.split("; ")) == 12
    assert more == "48 more"
    specs = "--input 'x0:float32[SIZE,SIZE]' --input 'x2:float32[SIZE,3]'"
    assert caught.value.hint == f"say the sizes that it takes: {specs}, or give inputs with --inputs data.npz"


@pytest.mark.parametrize("answer", [Unsupported("no runner"), BadInput("it died")])
def test_a_source_that_cannot_be_tried_runs_nowhere(answer: ConvertError, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Tried):
        def results(self) -> Any:
            if isinstance(answer, Unsupported):
                return {PROBE_FIRST: answer}
            raise answer

    tried = Silent(lambda s: True)
    monkeypatch.setattr(size_search, "execute", tried)
    with pytest.raises(ConvertError, match="at none of the sizes"):
        search_sizes(Source("onnx-object"), plain(["n"]), ConvertError("no"), Options(), Limits(), 3)
    assert tried.stopped == 1


def test_only_sizes_within_bounds_and_guards_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = plain(["n", "h", "w"], bounds={"h": [8, 64], "w": [None, 20], "z": [1, 2]}, guards=["h % 2 == 0"])
    _, tried = searched(monkeypatch, graph, lambda s: s["x0"][1] == 28)
    given = [s["x0"] for _, shapes in tried.asked for s in shapes]
    assert all(8 <= h <= 64 and h % 2 == 0 and 1 <= w <= 20 for _, h, w in given)
    assert {8, 64} <= {h for _, h, _ in given}
    assert len(set(given[: len(tried.asked[0][1])])) == len(tried.asked[0][1]), "one is given twice"


def test_inputs_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for all inputs together: 1 × 4 × 32 × 32 numbers are exactly what is allowed here."""
    monkeypatch.setattr(size_search, "_MOST_ELEMENTS", 4096)
    _, tried = searched(monkeypatch, plain(["n", 4, "h", "w"]), lambda s: s["x0"][0] == 1)
    numbers = [int(np.prod(s["x0"])) for _, shapes in tried.asked for s in shapes]
    assert max(numbers) == 4096
    _, tried = searched(monkeypatch, plain(["n", 4, "h"], ["n", 4, "h"]), lambda s: s["x0"][0] == 1)
    assert max(2 * int(np.prod(s["x0"])) for _, shapes in tried.asked for s in shapes) == 4096


def test_shapes_that_contradict_each_other_are_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph()
    g.output(g.MatMul(g.input("x", F, ["n", "k"]), zeros(77, 5)), "y")
    _, tried = searched(monkeypatch, g.model(), lambda s: True)
    assert {s["x"][1] for s in tried.asked[0][1]} == {77}


def test_what_the_search_found_is_told() -> None:
    graph = plain(["n", "h"])
    told = "which were found by trial (--input names others)"
    assert describe_search(graph, [{"n": 2, "h": 7}, {"n": 1, "h": 7}, {"n": 2, "h": 7}]) == (
        f"the source does not run at the sizes that are usual: compared at n=2, h=7 and n=1, h=7, {told}"
    )
    assert describe_search(graph, [{"n": 2, "h": 16}, {"n": 1, "h": 16}]) == (
        f"the source does not run at every size near by: compared at n=2, h=16 and n=1, h=16, {told}"
    )


def suggested(build: Callable[[Graph], ir.Value]) -> list[int]:
    g = Graph()
    g.output(build(g), "y")
    return suggested_sizes(g.model())


def test_tables_say_their_lengths() -> None:
    assert suggested(lambda g: g.Add(g.input("x", F, ["n", "t", 8]), zeros(1, 77, 8))) == [77, 8]
    assert suggested(lambda g: g.Gather(zeros(20, 6), g.input("x", ir.DataType.INT64, ["n"]))) == [20, 6]
    assert suggested(lambda g: g.Concat(zeros(9, 4), g.input("x", F, ["n", 4]), axis=0)) == [9, 4]
    assert suggested(lambda g: g.Div(g.input("x", F, ["n", 9]), zeros(1, 9))) == []
    # No input is larger than 1,024, and 1 is not suggested.
    assert suggested(lambda g: g.Add(g.input("x", F, ["n", "t", 1]), zeros(1025, 1))) == []
    assert suggested(lambda g: g.Add(g.input("x", F, ["n", "t", 1]), zeros(1024, 1))) == [1024]


def test_targets_of_reshapes_say_their_numbers_and_their_product() -> None:
    found = suggested(lambda g: g.Reshape(g.input("x", F, ["n", "t"]), np.array([-1, 20, 5])))
    assert found[:3] == [20, 5, 100]
    assert suggested(lambda g: g.Expand(g.input("x", F, ["n", 1]), np.array([1, 7]))) == [7]
    assert suggested(lambda g: g.Reshape(g.input("x", F, ["n", "t"]), g.input("s", ir.DataType.INT64, [2]))) == []


def test_dense_layers_say_the_sides_of_maps_at_every_stride() -> None:
    """8 channels of 7 × 7 after a convolution: 392 numbers, maps of 7, and before strides 14 to 224."""

    def network(g: Graph) -> ir.Value:
        c = g.Conv(g.input("x", F, ["n", 3, "h", "w"]), zeros(8, 3, 3, 3), strides=[2, 2])
        return g.Gemm(g.Flatten(c), zeros(392, 10))

    found = suggested(network)
    assert found[:2] == [392, 10]
    # For 64 features, four channels of 4 × 4 are suggested before one of 8 × 8.
    both = suggested(lambda g: g.Gemm(g.Flatten(g.Conv(g.input("x", F, ["n", 3, "h", "w"]), zeros(4, 3, 1, 1))),
                                      zeros(64, 10)))  # fmt: skip
    assert [n for n in both if n in (4, 8)] == [4, 8]
    assert [n for n in found if n in (7, 14, 28, 56, 112, 224)] == [7, 14, 28, 56, 112, 224]
    # As a line instead of a map it is 49 long.
    assert {49, 98, 196} <= set(found)
    assert len(found) <= 40
    assert all(1 < n <= 1024 for n in found)


def test_lengths_of_which_margins_leave_something(monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph()
    x = g.input("x", F, ["n", "length", 4])
    inner = g.Slice(x, np.array([5000]), np.array([-5000]), np.array([1]))
    g.output(g.Slice(inner, np.array([1]), np.array([-100]), np.array([1])), "y")
    found, tried = searched(monkeypatch, g.model(), lambda s: s["x"][1] > 10_101, 2)
    assert found == [{"n": 2, "length": 10_117}, {"n": 3, "length": 10_118}]
    assert [s["x"][1] for s in tried.asked[0][1][:4]] == [16, 10_016, 117, 10_117]
    assert [how for how, _ in tried.asked] == [PROBE_FIRST, PROBE_FIRST]


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ConvertError("it fails"), "say the sizes that it takes: "),
        (ConvertError("it fails", hint="do this"), "do this"),
        (
            ConvertError("indices element out of data bounds, idx=125"),
            "it looks up numbers that its tables do not have",
        ),
        (ConvertError("index out of range in self"), "it looks up numbers that its tables do not have"),
        (ConvertError("indices[0] = 9 is not in [0, 3)"), "it looks up numbers that its tables do not have"),
    ],
)
def test_what_helps_goes_by_what_the_source_said(
    error: ConvertError, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other sizes do not help if a table lacks a number, and the runtime's own advice comes first."""
    assert hint_of(error, ir.DataType.INT64, monkeypatch).startswith(hint)


def test_numbers_that_follow_from_sizes_are_mended_by_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ConvertError("index out of range in self")
    assert hint_of(error, F, monkeypatch).startswith("say the sizes that it takes: ")


def hint_of(error: ConvertError, dtype: ir.DataType, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the hint after a source with one input of this dtype ran at no size."""
    g = Graph()
    g.output(g.Identity(g.input("x", dtype, ["n"])), "y")
    monkeypatch.setattr(size_search, "execute", Tried(lambda s: False))
    with pytest.raises(ConvertError) as caught:
        search_sizes(Source("onnx-object"), g.model(), error, Options(), Limits(), 3)
    return caught.value.hint
