"""Parts of a verification on given runs: cuts to fewer inputs, and outputs that are not compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import BadInput, ConvertError, ResourceLimit, Unsupported
from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict
from convert.parity import verify as verification
from convert.parity.compare import distribution
from convert.parity.compare.distribution import BOUND, FALSE_ALARMS, judge_distributions
from convert.parity.compare.special_verdict import _with_denormals, _with_nan, take_special
from convert.parity.evidence import RunOutputs, runs_on
from convert.parity.inputs import cost
from convert.parity.inputs.feeds import Feed, _implied_bound, implied_limits
from convert.parity.inputs.size_search import _probe
from convert.parity.locate.pairing import agreeing_names
from convert.parity.locate.profile import profile_errors
from convert.parity.method import VerifyMethod
from convert.parity.runs import repeats
from convert.parity.runs.repeats import compare_distributions
from convert.processes.run_here import Limits
from convert.reference.quantized import NarrowedOutputs
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import Summary, Trace
from tests.support.sides import SOURCE, TARGET, Side, Sides, graph, raises, scaled
from tests.support.verdict_on import verdict_on

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64
NAN, INF = np.nan, np.inf
NONE = Unsupported("not to be had")
X = [np.random.default_rng(i).standard_normal((4, 6)) for i in range(3)]
FEEDS = [Feed(f"set {i}", {"x": x.astype(np.float32)}) for i, x in enumerate(X)]
DOUBLE = [{"y": 2 * np.tanh(f.arrays["x"].astype(np.float64))} for f in FEEDS]
SINGLE = [{"y": o["y"].astype(np.float32)} for o in DOUBLE]


@pytest.mark.parametrize(
    ("stand_ins", "count", "left"), [(0, 2, 0), (1, 3, 1), (1, 2, 0), (2, 2, 1), (3, 1, 1), (2, 1, 0)]
)
def test_runs_on_the_first_inputs(stand_ins: int, count: int, left: int) -> None:
    """The graph replaces the source's float64 run on the last inputs."""
    narrowed = NarrowedOutputs(DOUBLE, SINGLE)
    runs = RunOutputs({"float32": SINGLE, "float64": NONE}, SINGLE, DOUBLE, narrowed, stand_ins=stand_ins)
    found = runs_on(runs, range(count))
    assert found.stand_ins == left
    assert found.source == {"float32": SINGLE[:count], "float64": NONE}
    assert (found.target, found.graph_float64) == (SINGLE[:count], DOUBLE[:count])
    assert found.narrowed == NarrowedOutputs(DOUBLE[:count], SINGLE[:count])
    bare = runs_on(replace(runs, graph_float64=NONE, narrowed=None), range(count))
    assert (bare.graph_float64, bare.narrowed) == (NONE, None)


def noisy() -> RunOutputs:
    """Return outputs in which the source is far off on the last feed, where the graph replaces its float64 run."""
    off = [*SINGLE[:2], {"y": SINGLE[2]["y"] * np.float32(1 + 1e-4)}]
    return RunOutputs({"float32": off, "float64": DOUBLE}, SINGLE, DOUBLE, stand_ins=1)


def test_without_a_source_as_deployed_there_is_no_verdict() -> None:
    with pytest.raises(Unsupported, match="not to be had"):
        verdict_on(graph(), FEEDS, RunOutputs({"float32": NONE, "float64": NONE}, SINGLE, DOUBLE), VerifyMethod())


def comparing() -> ir.Model:
    """Return x > 0.5, and the index of the maximum of each row."""
    g = Graph()
    x = g.input("x", F, [4, 6])
    g.output(g.Greater(x, np.float32(0.5)), "more")
    g.output(g.ArgMax(x, axis=1, keepdims=0), "place")
    return g.model()


def test_an_output_is_called_different_once_in_a_million_cases() -> None:
    """Four sums are tested. Each exceeds x times the root of its sum of squares with a probability of at most
    2·exp(−x²/2); for x = `BOUND` the four probabilities add up to 1e-6.
    """
    assert (distribution.SAMPLES, distribution.LEARNED) == (256, 256 // 4), (
        "a quarter chooses what the others are asked"
    )
    assert pytest.approx(FALSE_ALARMS) == 4 * 2 * np.exp(-(BOUND**2) / 2) == pytest.approx(1e-6)


def random_graph() -> ir.Model:
    g = Graph()
    g.output(g.Add(g.input("x", F, [3]), g.RandomNormal(shape=[3])), "y")
    return g.model()


def test_draws_are_told_where_one_side_has_none() -> None:
    rng = np.random.default_rng(0)
    moving, still = [{"y": rng.standard_normal(3)} for _ in range(9)], [{"y": np.ones(3)}] * 9

    def held(ours: Any, theirs: Any, status: str = INCONCLUSIVE) -> tuple[str, list[str]]:
        verdict = Verdict(status, outputs=[OutputVerdict("y", status)])
        verdict = judge_distributions(verdict, random_graph(), ours, theirs)
        return verdict.status, verdict.notes

    told = "output 'y': in 9 runs only the {} gives other numbers"
    assert held(moving, still) == (INCONCLUSIVE, [told.format("source")])
    assert held(still, moving) == (INCONCLUSIVE, [told.format("target")])
    assert held(still, still) == (INCONCLUSIVE, [])
    assert held(moving, still, FAIL) == (FAIL, [])
    assert held(moving, [{"y": o["y"][:2]} for o in moving]) == (INCONCLUSIVE, [])
    words = [{"y": np.array(["a", "b", "c"], object)}, {"y": np.array(["b", "b", "c"], object)}]
    assert held(words, words) == (INCONCLUSIVE, [])


def test_large_models_and_sides_that_fail_are_not_run_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    found: dict[str, Any] = {"source": [{"y": np.ones(3)}] * 2, "target": ConvertError("no")}

    def repeated(*given: Any) -> dict[str, Any]:
        runs.append(given[3].arrays["x"].size)
        return found

    monkeypatch.setattr(repeats, "_repeated_runs", repeated)
    feeds = [Feed("small", {"x": np.ones(1)}), Feed("large", {"x": np.ones(3)})]

    def compared() -> list[str]:
        verdict = Verdict(INCONCLUSIVE, outputs=[OutputVerdict("y", INCONCLUSIVE)])
        verdict = compare_distributions(verdict, SOURCE, TARGET, random_graph(), feeds, Options(), VerifyMethod())
        return verdict.notes

    assert (compared(), runs) == ([], [3])
    found["source"], found["target"] = found["target"], found["source"]
    assert (compared(), runs) == ([], [3, 3])
    monkeypatch.setattr(cost, "MAX_ELEMENTS", 2)
    assert compared() == ["random outputs are not compared in distribution: that takes too many runs of this model"]
    assert len(runs) == 2


def test_special_inputs_without_outputs_of_the_source_are_left_alone() -> None:
    feeds = [*FEEDS[:2], replace(FEEDS[2], special=True)]
    runs = RunOutputs({"float32": NONE, "float64": NONE}, SINGLE, DOUBLE)
    assert take_special(feeds, runs) == (feeds, runs, None)


HALF = np.float16


@pytest.mark.parametrize(
    ("target", "source", "filled"),
    [
        (np.array([1.0, 2]), np.array([NAN, 3]), [NAN, 2]),
        (np.array([INF, NAN]), np.array([NAN, INF]), [NAN, NAN]),
        (np.array([1.0, 2]), np.array([NAN, 3, 4]), [1, 2]),
        (np.array([1.0, 2], HALF), np.array([NAN, 3]), [1, 2]),
        (np.array([1, 2]), np.array([3, 4]), [1, 2]),
    ],
)
def test_a_target_with_the_nan_of_the_source(target: np.ndarray, source: np.ndarray, filled: list[float]) -> None:
    np.testing.assert_array_equal(_with_nan(target, source), filled)


SOURCE_ROWS = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]])


@pytest.mark.parametrize(
    ("target", "source", "last"),
    [
        ([[0.0, 0], [1, 1], [2, 3], [2, 3]], SOURCE_ROWS, [7, 8]),
        ([[0.0, 0], [1, 1], [2, 3], [2, 4]], SOURCE_ROWS, [7, 4]),
        ([[0.0, 0], [1, 1], [NAN, 3], [NAN, 4]], SOURCE_ROWS, [7, 4]),
        ([[0.0, 0], [1, 1], [NAN, 3], [2, NAN]], SOURCE_ROWS, [2, NAN]),
        ([[0.0, 0], [2, 3], [1, 1], [2, 3]], SOURCE_ROWS, [2, 3]),
        ([[0.0, 0], [2, 3], [2, 3]], SOURCE_ROWS[:3], [2, 3]),
        ([[0.0, 0], [1, 1], [2, 3], [2, 3]], np.ones((4, 1)), [2, 3]),
        ([[0.0, 0], [1, 1], [2, 3], [2, 3]], SOURCE_ROWS.astype(HALF), [2, 3]),
        ([[0.0, 0], [1, 1], [2, 3], [2, 3], [2, 3]], np.concatenate([SOURCE_ROWS, [[9, 9]]]), [9, 9]),
    ],
)
def test_a_target_that_takes_denormals_for_zeros(target: Any, source: np.ndarray, last: list[float]) -> None:
    """If its row of denormals equals its row of zeros, it gets the source's row."""
    found = _with_denormals(np.array(target), source)
    np.testing.assert_array_equal(found[-1], last)
    np.testing.assert_array_equal(found[:3], np.array(target)[:3])
    flat = np.array([0.0, 1, 2, 2])
    assert _with_denormals(flat, np.arange(4.0)) is flat


def test_no_sizes_are_probed_without_a_process() -> None:
    assert _probe(SOURCE, graph(), [], Options(), Limits(), "probe", {}) == []


def test_a_value_that_is_reached_twice_is_followed_once() -> None:
    g = Graph()
    x = g.input("x", I64, [3])
    both = g.Where(g.input("c", ir.DataType.BOOL, [3]), x, g.Identity(x))
    g.output(g.Gather(g.input("table", F, [7, 2]), both), "y")
    assert implied_limits(x) == [7]


def test_limits_of_places() -> None:
    """The limit is the size of the axis that an integer indexes; there is none if that is unknown, or nothing is
    indexed.
    """
    g = Graph()
    i = g.input("i", I64, [3, 1])
    table, open_table, unknown = (g.input(n, F, d) for n, d in [("t", [7, 5, 3]), ("o", ["n", 5]), ("u", None)])

    def bound(value: ir.Value, index: int = 1) -> Any:
        node = value.producer()
        assert node is not None
        return _implied_bound(node, index)

    assert [bound(g.Gather(t, i)) for t in (table, open_table, unknown)] == [7, "n", None]
    assert [bound(g.Gather(table, i, axis=a)) for a in (1, 2, -1, -2)] == [5, 3, 3, 5]
    assert bound(g.Gather(table, i), 0) is None
    assert [bound(g.GatherND(t, i)) for t in (table, open_table)] == [7, "n"]
    assert bound(g.GatherND(table, i, batch_dims=1)) is None
    assert bound(g.GatherND(table, g.input("pairs", I64, [3, 2]))) is None
    assert bound(g.GatherND(table, g.input("what", I64, None))) is None
    assert bound(g.OneHot(i, np.array(9), np.array([0, 1], np.float32)), 0) == 9
    assert bound(g.OneHot(i, g.input("d", I64, []), np.array([0, 1], np.float32)), 0) is None
    assert bound(g.OneHot(i, np.array(9), np.array([0, 1], np.float32)), 1) is None
    assert bound(g.Add(i, i)) is None


def test_a_profile_is_of_floating_values() -> None:
    g = Graph()
    x = g.input("x", F, [4, 6])
    g.output(g.Neg(x), "y")
    g.output(g.ArgMax(x), "i")
    artefact = Source("onnx-object", model=ir.to_proto(g.model()))
    (found,) = profile_errors(g.model(), artefact, FEEDS[0], Options(), Names())  # type: ignore[misc]
    assert (found.operator, found.error) == ("Neg", 0.0)


def test_a_limit_that_is_met_at_the_edge_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The special values are left out first; if the limit occurs for the others as well, that is the result."""

    def limited(arrays: Any) -> dict[str, np.ndarray]:
        if np.isnan(arrays["x"]).any():
            raise ResourceLimit("too much")
        return scaled(2.0)(arrays)

    monkeypatch.setattr(verification, "_graph_outputs", lambda made, arrays, edges, seconds: (
        ResourceLimit("too much") if any(np.isnan(a["x"]).any() for a in arrays)
        else [scaled(2.0, np.float64)(a) for a in arrays]
    ))  # fmt: skip
    Sides(monkeypatch, Side(float32=scaled(2.0), float64=scaled(2.0, np.float64)), Side(float32=limited))
    verdict = verification.verify(SOURCE, TARGET, graph(), Options())
    assert (verdict.status, len(verdict.feeds)) == (PASS, 6)  # three seeds and the uneven sets
    Sides(monkeypatch, Side(float32=scaled(2.0), float64=scaled(2.0, np.float64)),
          Side(float32=raises(ResourceLimit("too much"))))  # fmt: skip
    with pytest.raises(ResourceLimit, match="too much"):
        verification.verify(SOURCE, TARGET, graph(), Options())


def test_a_source_that_does_not_take_the_edge_is_run_on_all_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(arrays: Any) -> dict[str, np.ndarray]:
        if np.isnan(arrays["x"]).any():
            raise ConvertError("no NaN")
        return scaled(2.0, np.float64)(arrays)

    Sides(monkeypatch, Side(float32=failing, float64=failing), Side(float32=failing))
    assert len(verification.verify(SOURCE, TARGET, graph(), Options()).feeds) == 3


def test_a_verification_has_twenty_times_the_time_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(Exception):
        pass

    def limited_time(seconds: float) -> None:
        raise Asked(seconds)

    monkeypatch.setattr(verification, "limited_time", limited_time)
    with pytest.raises(Asked) as found:
        verification.verify(SOURCE, TARGET, graph(), Options(), VerifyMethod(limits=Limits(seconds=3)))
    assert found.value.args == (60,)


def test_a_float64_run_that_ended_early_is_completed_by_the_graph() -> None:
    own = [{"y": np.full(1, float(i))} for i in range(3)]
    theirs = [{"y": np.full(1, 10.0 + i)} for i in range(3)]
    assert verification._completed(theirs, own, 3) == theirs
    assert verification._completed(theirs, own, 2) == theirs[:2]
    assert verification._completed(theirs[:1], own, 3) == [theirs[0], own[1], own[2]]
    assert verification._completed(theirs[:2], NONE, 2) == theirs[:2]
    lacking = verification._completed(theirs[:1], NONE, 3)
    assert isinstance(lacking, Unsupported)
    assert lacking.message == "the source runs in float64 on some of the inputs only"


def test_who_takes_all_that_the_source_takes() -> None:
    two, one = [{}, {}], [{}]
    source = {"float32": two}
    assert verification._takes_all(BadInput("no"), [BadInput("no")])
    assert verification._takes_all(source, [two, {"": two}])
    assert verification._takes_all(source, [NONE, {"": two}])
    assert not verification._takes_all(source, [one, {"": two}])
    assert not verification._takes_all(source, [two, {"": one}])
    assert not verification._takes_all(source, [two, BadInput("no")])
    # Another way of use that runs on the first feed only proves nothing; one that ran on several must run on all.
    assert verification._takes_all(source, [two, {"a": two, "b": one}])
    assert not verification._takes_all({"float32": [{}] * 3}, [[{}] * 3, {"a": [{}] * 3, "b": two}])


def test_without_an_onnx_runner_the_graph_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "runners", dict)
    found = verification._graph_outputs(graph(), [FEEDS[0].arrays], 0, 60.0)
    assert isinstance(found, Unsupported)
    assert found.message == "no ONNX runner is installed"


@pytest.mark.parametrize(
    ("off", "ordered_off", "agrees", "in_order"),
    [(0.0, 0.0, True, True), (0.9, 0.0, True, True), (1.1, 0.0, False, False), (0.0, 7.9, True, True),
     (0.0, 8.1, True, False), (-0.9, -7.9, True, True), (-1.1, 0.0, False, False), (0.0, -8.1, True, False)],
)  # fmt: skip
def test_values_agree_by_their_statistics(off: float, ordered_off: float, agrees: bool, in_order: bool) -> None:
    """Each of the four may be off by the bound times the root mean square, and the ordered sum by eight times that."""
    for place in range(4):
        for size in (1e-3, 1.0, 100.0):
            ordered, loose = _agreement(place, size, off, ordered_off)
            assert (ordered, loose) == (in_order, agrees), (place, size)


def _agreement(place: int, size: float, off: float, ordered_off: float) -> tuple[bool, bool]:
    """Return whether a value agrees with one that is off in one statistic and in its order, with and without the
    order.
    """
    bound = 1e-3
    one = [0.5 * size, size, -2 * size, 3 * size, 0.25 * size]
    other = list(one)
    other[place] += off * bound * size
    other[4] += ordered_off * bound * size
    ours, theirs, far = (
        Trace([], {"v": Summary("float32", (9,), *numbers, floating=True)})
        for numbers in (one, other, [n + 5 * size for n in one])
    )
    both = Trace([], {"w": far.values["v"], **theirs.values})
    assert agreeing_names(ours, far, bound, ordered=False) == set()
    return tuple(agreeing_names(ours, both, bound, ordered=o) == {"v"} for o in (True, False))  # type: ignore
