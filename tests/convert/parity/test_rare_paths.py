"""Code paths of the verification that few models take, with results worked out by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import ConvertError, Unsupported
from convert.graph import Graph
from convert.outcome.report import Report, Tensor
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Element, GenerationVerdict, OutputVerdict, Verdict
from convert.parity.compare.outputs import _count_wrong, float64_error
from convert.parity.compare.randomness import describe_repeats, judge_random, random_outputs
from convert.parity.evidence import RunOutputs, runs_on
from convert.parity.generation import encoders as encoder_generation
from convert.parity.generation.encoders import STEMS, verify_encoder_generation
from convert.parity.inputs import size_search
from convert.parity.inputs.boundary_values import mix_boundary_values
from convert.parity.inputs.feeds import Feed, feed_sizes, sized_feed
from convert.parity.locate.places import _distance
from convert.parity.magnitudes import rms
from convert.parity.method import VerifyMethod
from convert.parity.verify import _worst_feed, failed_run_verdict
from convert.processes.run_here import with_stand_ins
from convert.request.options import Options
from convert.request.source import Source
from tests.convert.parity.input_models import plain, sized

F, I64, D = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.DOUBLE
NAN, INF = np.nan, np.inf


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_root_mean_squares_of_what_has_no_squares() -> None:
    assert rms(np.array([3e200, 4e200])) == pytest.approx(np.sqrt(12.5) * 1e200)
    assert rms(np.array([3e200, INF])) == INF
    assert rms(np.zeros(0)) == 0.0


def test_integers_of_which_there_are_more_or_fewer_in_float64_are_held_to_the_source() -> None:
    source, target = np.array([1, 2, 3]), np.array([1, 5, 4])
    assert _count_wrong(np.array([1, 5]), source, target) == 2
    assert _count_wrong(np.array([1, 5, 3]), source, target) == 1  # 4 is 1 off where the source is exact


def test_what_is_nowhere_a_number_is_not_off() -> None:
    assert float64_error(np.array([NAN, INF]), np.array([NAN, INF])) == 0.0
    assert float64_error(np.array([NAN, INF]), np.array([NAN, -INF])) == INF


def test_outputs_behind_whole_numbers_count_as_well() -> None:
    ours = {"i": np.arange(2), "y": np.array([3.0, 4.0]), "z": np.array([1.0])}
    theirs = {"i": np.arange(2), "y": np.array([3.0, 4.5]), "z": np.array([1.0])}
    assert _distance(ours, theirs) == pytest.approx(0.5 / np.sqrt(12.5))


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "stand_ins"), [(0, 2), (1, 1), (2, 1)])
def test_a_set_that_is_left_out_may_be_one_of_the_stand_ins(at: int, stand_ins: int) -> None:
    outputs = [{"y": np.full(1, n)} for n in range(3)]
    runs = RunOutputs({"float32": outputs, "float64": Unsupported("no")}, outputs, outputs, stand_ins=2,
                      others={"two": outputs, "one": outputs[:1]})  # fmt: skip
    left = [n for n in range(3) if n != at]
    found = runs_on(runs, left)
    assert found.stand_ins == stand_ins
    for each in (found.source["float32"], found.target, found.graph_float64, found.others["two"]):
        assert [int(o["y"][0]) for o in each] == left  # type: ignore[union-attr, index]
    assert len(found.others["one"]) == (0 if at == 0 else 1)


@pytest.mark.parametrize(
    ("count", "place", "after"), [(2, 1, [0, 9, 1]), (2, 2, [0, 1, 9]), (1, 2, [0]), (2, 3, [0, 1])]
)
def test_the_source_stands_in_where_the_graph_was_not_run(count: int, place: int, after: list[int]) -> None:
    graph = [{"y": np.full(1, n)} for n in range(count)]
    source = [{"y": np.full(1, 9)} for _ in range(3)]
    assert [int(o["y"][0]) for o in with_stand_ins(graph, [place], source)] == after


def test_the_worst_feed_is_that_of_the_worst_element_of_what_failed() -> None:
    feeds = [Feed(name, {"x": np.zeros(size)}) for name, size in (("a", 3), ("b", 2), ("c", 4))]
    elements = [Element((0,), 0.0, 0.0, error, label) for error, label in ((0.5, "a"), (2.0, "c"), (1.0, "b"))]
    passed = OutputVerdict("y", elements=[Element((0,), 0.0, 0.0, 9.0, "b")])
    failed = OutputVerdict("z", FAIL, elements=elements)
    assert _worst_feed(Verdict(FAIL, outputs=[passed, failed]), feeds).label == "c"
    assert _worst_feed(Verdict(FAIL, outputs=[passed]), feeds).label == "b"  # the smallest


def test_a_lack_of_kernels_for_other_dtypes_is_no_failure() -> None:
    def verdict(dtype: ir.DataType, error: ConvertError, at_fault: str) -> tuple[str, str]:
        found = failed_run_verdict(error, plain(dtype), [Feed("one", {})], at_fault)
        assert found.feeds == ["one"]
        return found.status, found.at_fault

    lacks, broken = Unsupported("no kernel"), ConvertError("broken")
    assert verdict(D, lacks, "backend") == (INCONCLUSIVE, "")
    assert verdict(F, lacks, "backend") == (FAIL, "backend")
    assert verdict(I64, lacks, "backend") == (FAIL, "backend")
    assert verdict(D, broken, "backend") == (FAIL, "backend")
    assert verdict(D, broken, "frontend") == (FAIL, "frontend")


# -- small elements: what may not run ---------------------------------------------------------------------------------


# -- random numbers ---------------------------------------------------------------------------------------------------


def loop(*, random_count: bool, random_start: bool) -> dict[str, str]:
    body = Graph()
    body.input("round", I64, [])
    on = body.input("on", ir.DataType.BOOL, [])
    state = body.input("state", F, [3])
    body.output(body.Identity(on), "again")
    body.output(body.Neg(state), "next")
    body.output(body.Identity(body.const(np.ones(3, np.float32))), "row")
    g = Graph()
    x = g.input("x", F, [3])
    noise = g.RandomNormal(shape=[3])
    drawn = g.Cast(g.ReduceSum(noise, np.array([0]), keepdims=0), to=I64)
    count = drawn if random_count else g.const(np.int64(2))
    last, rows = g.Loop(count, None, noise if random_start else x, body=body.model().graph, outputs=2)
    g.output(last, "last")
    g.output(rows, "rows")
    return random_outputs(g.model())


def test_what_a_loop_gives_depends_on_its_rounds_and_on_where_it_begins() -> None:
    assert list(loop(random_count=False, random_start=False)) == []
    assert list(loop(random_count=False, random_start=True)) == ["last"]
    assert sorted(loop(random_count=True, random_start=False)) == ["last", "rows"]


@pytest.mark.parametrize(
    ("source", "target", "status", "reason"),
    [
        ((2, 3), (2, 3), INCONCLUSIVE, "it depends on"),
        ((2, 3), (2, 4), FAIL, "shape [2, 4] where the source has [2, 3]"),
        ((2, 3), (5, 3), FAIL, "shape [5, 3] where the source has [2, 3]"),
        ((2, 3), (2,), FAIL, "shape [2] where the source has [2, 3]"),
        ((2, 3), (2, 3, 1), FAIL, "shape [2, 3, 1] where the source has [2, 3]"),
    ],
)
def test_random_outputs_have_the_sizes_that_are_known(source: Any, target: Any, status: str, reason: str) -> None:
    row = judge_random(plain(shape=("n", 3)), "y", "RandomNormal", [np.zeros(source)], [np.zeros(target)])
    assert (row.status, row.reason.startswith(reason)) == (status, True)
    free = plain(shape=("n", 3))
    for shape in (ir.Shape(["drawn", 3]), ir.Shape([None, 3]), None):
        free.graph.outputs[0].shape = shape
        row = judge_random(free, "y", "RandomNormal", [np.zeros((2, 3))], [np.zeros((5, 3))])
        assert row.status == INCONCLUSIVE


def test_runs_are_compared_by_place_where_the_graph_shows_no_random_numbers() -> None:
    first = {"a": np.ones(3), "b": np.ones(3), "c": np.ones(3), "d": np.array([1.0, NAN])}
    second = {"a": np.ones(3) * 1.00009, "b": np.ones(3) * 1.0002, "c": np.ones(2), "d": np.array([1.0, 5.0])}
    found = describe_repeats(first, second)
    assert [text.split("'")[1] for text in found] == ["b", "c"]
    assert describe_repeats(first, second, [1, 2]) == []


# -- inputs -----------------------------------------------------------------------------------------------------------


def test_ranks_in_turn_and_the_shapes_of_them() -> None:
    made = plain(shape=(2, 3))
    made.graph.inputs[0].shape = None
    sizes = list(feed_sizes(made, 4))
    assert [s["number of dims"] for s in sizes] == [2, 1, 3, 2]
    assert [sized_feed(made, 0, s).arrays["x"].shape for s in sizes[:3]] == [(8, 4), (4,), (3, 8, 4)]


def test_complex_numbers_have_two_parts_and_floats_that_are_places_are_whole() -> None:
    found = sized_feed(plain(ir.DataType.COMPLEX64), 0, {"n": 500}).arrays["x"]
    assert 0.9 < found.real.std() < 1.1
    assert 0.9 < found.imag.std() < 1.1
    assert abs(found.real.mean()) < 0.1
    assert abs(found.imag.mean()) < 0.1
    g = Graph()
    x = g.input("x", F, ["n", 40])
    g.output(g.Gather(np.zeros((3, 2), np.float32), g.Cast(x, to=I64)), "y")
    places = sized_feed(g.model(), 0, {"n": 5}).arrays["x"]
    assert (places.dtype, set(places.ravel())) == (np.float32, {0.0, 1.0, 2.0})


def test_usual_sizes_come_first() -> None:
    assert [list(s.values()) for s in feed_sizes(sized(("n", "t")), 3)] == [[2, 16], [1, 16], [3, 17]]


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        ([1, 64], [16, 16, 64]),
        ([1, 65], [16, 16, 17]),
        ([2, 65], [16, 2, 17]),
        ([1, 9], [9, 9, 9]),
        ([40, 99], [40, 40, 40]),
        ([40, 50], [40, 40, 50]),
        ([None, 20], [16, 16, 20]),
        ([0, 20], [16, 16, 20]),
    ],
)
def test_sizes_of_a_dim_with_bounds(bounds: Any, found: list[int]) -> None:
    assert [s["t"] for s in feed_sizes(sized((2, "t"), bounds={"t": bounds}), 3)] == found


def test_in_floats_of_three_dims_whole_rows_hold_one_number() -> None:
    """A mask of padded steps, which the graph finds by its number."""
    g = Graph()
    x = g.input("x", F, ["n", "t", 8])
    g.output(g.Equal(x, np.float32(7)), "y")
    value = g.model().graph.inputs[0]
    array = np.full((40, 10, 8), 0.25, np.float32)
    found = mix_boundary_values(value, array, 1)
    assert set(np.unique(found)) <= {0.25, 3.5, 7.0, 10.5}
    whole = (found == found[..., :1]).all(-1) & (found[..., 0] != 0.25)
    assert 0.1 < whole.mean() < 0.3, "a fifth"
    single = found[~whole] != 0.25
    assert 0.01 < single.mean() < 0.1, "a fifth of a fifth"


# -- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high", "left"), [(None, 3, [1, 2, 3]), (3, None, [3, 4, 5]), (2, 4, [2, 3, 4])])
def test_sizes_are_tried_within_bounds_of_which_one_may_be_open(low: Any, high: Any, left: list[int]) -> None:
    made = sized(("n", 4), bounds={"n": [low, high]})
    assert [s["n"] for s in size_search._that_fit(made, ({"n": n} for n in range(1, 6)))] == left


# -- an encoder with a decoder in files -------------------------------------------------------------------------------


def test_the_source_may_be_parts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts have their own names, and the first token is 0. The error of one part is fed to the next."""
    asked: list[Any] = []
    same = {"tokens": np.zeros((2, 1), int), "scores": np.ones((2, 1, 3))}

    def generate_with(model: Any, side: str, how: Any, prompt: Any, *_: Any) -> Any:
        asked.append((side, how, prompt["first"]))
        return same

    noises: list[tuple[float, float]] = []
    monkeypatch.setattr(plugin, "runner_for", lambda kind: SimpleNamespace(generate=None))
    monkeypatch.setattr(encoder_generation, "generate_with", generate_with)

    def compare(wanted: Any, got: Any, *noise: float) -> GenerationVerdict:
        noises.append(noise)
        return GenerationVerdict("PASS", 32, 2, 32)

    monkeypatch.setattr(encoder_generation, "compare_generation", compare)

    def verified(*names: str) -> Any:
        parts = {stem: Report("convert") for stem in STEMS}
        for number, part in enumerate(parts.values()):
            part.inputs = [Tensor(name, "int64", ("b", "s")) for name in names]
            part.outputs = [Tensor("logits", "float32", ("b", "s", 3))]
            part.renamed = {"inputs": {"input_ids": "ids"}}
            rows = [OutputVerdict("logits", floor=f, small_floor=2 * f) for f in (2.0**-number, 2.0 ** (-number - 1))]
            part.verdict = Verdict(PASS, outputs=rows)
        files = {stem: Path("ours") / f"{stem}.onnx" for stem in STEMS}
        theirs = {stem: Path("theirs") / f"{stem}.onnx" for stem in STEMS}
        source = Source("onnx", theirs[STEMS[2]])
        return verify_encoder_generation(source, files, "onnx", parts, Options(), VerifyMethod(), theirs)

    verified("input_ids", "encoder_hidden_states", "past_key_values.0.key")
    (_, theirs, first), (_, ours, _) = asked
    assert first.tolist() == [[0], [0]]
    assert theirs.further.inputs["input_ids"] == "input_ids"
    assert ours.further.inputs["input_ids"] == "ids"
    assert noises == [(1.75, 3.5)]
    assert verified("words") == "generation was not compared: the source's parts call their inputs otherwise"
    assert len(asked) == 2
