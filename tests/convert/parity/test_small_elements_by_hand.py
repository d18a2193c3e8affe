"""The bounds of elements that are far smaller than others of their output: at each bound, and a hair beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import stored as stored_as
from convert.errors import ConvertError, Unsupported
from convert.graph import Graph
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs
from convert.parity.small_elements import _Errors, _errors, _Judge, _Part, hold_small_elements
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict

HALF, SINGLE, DOUBLE = 2.0**-11, 2.0**-24, 2.0**-53
NONE = Unsupported("not run")
ONE = np.ones(1, bool)
ZERO = np.zeros(1)


def part(
    size: float = 0.0, noise: tuple[float, float] = (0.0, 0.0), roundoff: float = SINGLE, slack: float = 0.0
) -> _Part:
    return _Part(ONE, _Errors(size, size), _Errors(*noise), roundoff, slack)


def identity() -> ir.Model:
    g = Graph()
    g.output(g.Identity(g.input("x", ir.DataType.FLOAT, [1])), "y")
    return g.model()


def judge_of(
    own: Any = ZERO, double: Any = ZERO, target: Any = ZERO, moved: Sequence[float] = (), **rest: Any
) -> _Judge:
    """A judge that has asked for moves already: each moves the one element by so much."""

    def outputs(array: Any) -> Any:
        return array if isinstance(array, Unsupported) else [{"y": np.asarray(array)}]

    others = {way: outputs(a) for way, a in rest.pop("others", {}).items()}
    runs = RunOutputs(
        {"float32": outputs(ZERO), "float64": outputs(double)}, outputs(target), outputs(own), others=others
    )
    if rest.pop("narrowed", False):
        runs = RunOutputs(runs.source, runs.target, runs.graph_float64, narrowed=SimpleNamespace())  # type: ignore
    made = _Judge(identity(), [Feed("seed 0", {"x": ZERO})], runs, lambda feeds: [], rest.pop("steps", False), "")
    made.asked, made.moves = True, [(outputs(np.full(1, m)), outputs(ZERO)) for m in moved]
    return made


def beyond(bound: float) -> float:
    return float(np.nextafter(bound, np.inf))


def test_errors_are_those_of_the_part_that_are_numbers() -> None:
    exact, given = np.array([1.0, 2.0, np.inf, 4.0]), np.array([4.0, -2.0, 5.0, 1e9])
    found = _errors(given, exact, np.array([True, True, True, False]))
    assert (found.mean, found.worst) == (np.sqrt((9 + 16) / 2), 4.0)
    assert _errors(given[:2], exact, ONE) == _Errors()


def test_sums_and_comparisons_of_errors() -> None:
    a, b = _Errors(3.0, 5.0), _Errors(2.0, 7.0)
    assert a.largest(b) == b.largest(a) == _Errors(3.0, 7.0)
    assert a.plus(2.0, 0.5) == _Errors(6.5, 10.5)
    assert not a.exceeds(a)
    assert a.exceeds(_Errors(beyond(2.0), 9.0))
    assert a.exceeds(_Errors(4.0, 4.5))
    assert not a.exceeds(_Errors(3.0, 5.5))


def test_bound_of_a_part() -> None:
    """16 times the noise or four roundings of the size, and the slack in roundings."""
    made = _Part(ONE, _Errors(3.0, 5.0), _Errors(), SINGLE, 7.0)
    assert made.bound(_Errors()) == _Errors(16 * 12 * SINGLE + 7 * SINGLE, 16 * 20 * SINGLE + 7 * SINGLE)
    assert made.bound(_Errors(2.0, 4.0)) == _Errors(32 + 7 * SINGLE, 64 + 7 * SINGLE)


def test_description_is_relative_to_the_part() -> None:
    made = _Part(np.array([True, False, True]), _Errors(4.0, 4.0), _Errors(2.0, 3.0), SINGLE, 0.0)
    text = made.describe(_Errors(1.0, 1.0))
    assert text.startswith("2 elements")
    assert text.endswith("off by 2.50e-01 of their own size, against 5.00e-01 in the source")
    assert "off by 1.00e+00 of" in part().describe(_Errors(1.0, 1.0))


GRAPH_BOUNDS = [
    (part(size=1.0), (), 1e-9),
    (part(size=3.0), (), 3 * 1e-9),
    (part(noise=(0.0, 2.0**-10)), (), 2.0**-35),
    (part(noise=(0.0, 2.0**-10), roundoff=DOUBLE), (), 2.0**-6),
    (part(noise=(0.0, 2.0**-10), roundoff=HALF), (), 2.0**-48),
    (part(slack=2.0**20), (), 2.0**-33),
    (part(size=2.0, slack=2.0**50), (), 2e-9 + 2.0**-3),
    (part(), (2.0**-12, 2.0**-10), 2.0**-35),
    (part(slack=2.0**20), (2.0**-10,), 2.0**-35 + 2.0**-33),
]


@pytest.mark.parametrize(("made", "moved", "bound"), GRAPH_BOUNDS)
def test_bound_of_the_graph_in_float64(made: _Part, moved: Sequence[float], bound: float) -> None:
    row = OutputVerdict("y")
    for share in (0.5, 1.0):
        right = judge_of(own=np.full(1, share * bound), moved=moved)
        assert right._fault_of_graph(made, ZERO, np.full(1, 1e9), 0, 0, row) is None
        assert row.twin is None
    wrong = judge_of(own=np.full(1, beyond(bound)), moved=moved)
    found = wrong._fault_of_graph(made, ZERO, np.full(1, 1e9), 0, 0, row)
    assert found is not None
    assert found[:2] == (FAIL, "frontend")
    assert row.twin == beyond(bound) / (made.size.mean or 1.0)


@pytest.mark.parametrize(
    ("size", "noise", "error", "fails"),
    [
        (1.0, 2.0, 0.125, True),
        (1.0, 2.0, np.nextafter(0.125, 0), False),
        (1.0, 1.0, 0.01, True),
        (1.0, beyond(1.0), 0.01, False),
        (3.0, 2.0, 0.01, True),
    ],
)
def test_what_one_rounding_leaves_of_nothing(size: float, noise: float, error: float, fails: bool) -> None:
    found = judge_of(own=np.full(1, error))._fault_of_graph(
        part(size, (noise, 0.0)), ZERO, np.full(1, 1e9), 0, 0, OutputVerdict("y")
    )
    assert (found is not None) == fails


def test_a_larger_error_of_the_graph_stays_noted() -> None:
    row = OutputVerdict("y", twin=5.0)
    judge_of(own=np.ones(1))._fault_of_graph(part(size=1.0), ZERO, ZERO, 0, 0, row)
    assert row.twin == 5.0


@pytest.mark.parametrize(("apart", "status"), [(1 / 16, FAIL), (0.06, INCONCLUSIVE)])
def test_a_graph_that_is_the_source_as_deployed_is_not_guilty(apart: float, status: str) -> None:
    made, graph = part(1.0, (1.0, 0.0)), judge_of(own=np.ones(1), double=np.zeros(1))
    found = graph._fault_of_graph(made, ZERO, np.full(1, 1.0 - apart), 0, 0, OutputVerdict("y"))
    assert found is not None
    assert found[:2] == (status, "frontend" if status == FAIL else "")
    if status == INCONCLUSIVE:
        assert "off by 1.00e+00 of" in found[2]


@pytest.mark.parametrize("given", [{"own": NONE}, {"double": NONE}, {"narrowed": True}])
def test_without_two_evaluations_the_graph_is_not_judged(given: dict[str, Any]) -> None:
    made = judge_of(**{"own": np.ones(1), **given})
    assert made._fault_of_graph(part(size=1.0), ZERO, ZERO, 0, 0, OutputVerdict("y")) is None


TARGET_BOUNDS = [
    (part(size=1.0), (), 64 * SINGLE),
    (part(size=2.0**-9, noise=(2.0**-20, 2.0**-20)), (), 2.0**-16),
    (part(slack=3.0), (), 3 * SINGLE),
    (part(size=1.0), (2.0**-15,), 2.0**-11),
    (part(size=1.0, noise=(2.0**-10, 2.0**-10)), (2.0**-15,), 2.0**-6),
]


@pytest.mark.parametrize(("made", "moved", "bound"), TARGET_BOUNDS)
@pytest.mark.parametrize("way", ["", "predict"])
def test_bound_of_the_target(made: _Part, moved: Sequence[float], bound: float, way: str) -> None:
    def fault(error: float, twin: float | None = None, **rest: Any) -> Any:
        target = {"others": {way: np.full(1, error)}} if way else {"target": np.full(1, error)}
        one = judge_of(**target, moved=moved, **rest)
        return one._fault_of_target(made, ZERO, ZERO, 0, 0, OutputVerdict("y", twin=twin))

    assert fault(bound) is None
    status, guilty, reason = fault(beyond(bound))
    assert (status, guilty, "(predict)" in reason) == (FAIL, "", bool(way))
    assert fault(beyond(bound), twin=0.0)[:2] == (FAIL, "backend")
    assert fault(beyond(bound), steps=True)[:2] == (INCONCLUSIVE, "")


@pytest.mark.parametrize("summed", [0.005, 0.01, 0.04, 0.05, 0.2])
def test_sums_in_order_excuse_what_is_twice_as_far(summed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run_one_by_one(graph: ir.Model, arrays: Any) -> dict[str, np.ndarray]:
        asked.append(arrays)
        return {"y": np.full(1, summed)}

    monkeypatch.setattr("convert.reference.one_by_one.run_one_by_one", run_one_by_one)
    made = judge_of(target=np.full(1, 0.02))
    found = made._fault_of_target(part(size=1.0), ZERO, ZERO, 0, 0, OutputVerdict("y"))
    assert found is not None
    excused = 0.01 <= summed < 0.05
    assert found[0] == (INCONCLUSIVE if excused else FAIL)
    assert asked == [made.feeds[0].arrays]
    assert not judge_of(narrowed=True)._is_of_order(part(size=1.0), _Errors(0.02, 0.02), ZERO, 0, "y")


def test_what_cannot_be_summed_in_order_is_no_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(graph: ir.Model, arrays: Any) -> Any:
        raise ConvertError("no")

    monkeypatch.setattr("convert.reference.one_by_one.run_one_by_one", fails)
    assert not judge_of()._is_of_order(part(size=1.0), _Errors(0.02, 0.02), ZERO, 0, "y")


@pytest.mark.parametrize(
    ("made", "moved", "unexplained"),
    [
        (part(1.0, (1e-3, 1.0)), (), False),
        (part(1.0, (beyond(1e-3), 1.0)), (), True),
        (part(1e-30, (1.0, 1.0), slack=2.0**24), (), False),
        (part(1e-30, (beyond(1.0), 1.0), slack=2.0**24), (), True),
        (part(1.0, (1.0, 1.0)), (1 / 16,), False),
        (part(1.0, (1.0, 1.0)), (1 / 17,), True),
        (part(1.0, (1.0, 1.0)), (1 / 32, 1 / 16, 1 / 32), False),
    ],
)
def test_which_error_of_the_source_is_unexplained(made: _Part, moved: Sequence[float], unexplained: bool) -> None:
    assert judge_of(moved=moved)._is_unexplained(made, 0, 0) == unexplained
    assert not judge_of(moved=moved, narrowed=True)._is_unexplained(made, 0, 0)
    # Of a source that the graph stands in for, it is the reader's.
    found = judge_of(double=NONE, moved=moved)._fault_of_target(made, ZERO, ZERO, 0, 0, OutputVerdict("y"))
    assert (found[:2] if found else None) == ((FAIL, "frontend") if unexplained else None)
    found = judge_of(double=NONE, moved=moved, steps=True)._fault_of_target(made, ZERO, ZERO, 0, 0, OutputVerdict("y"))
    assert (found[:2] if found else None) == ((INCONCLUSIVE, "") if unexplained else None)


@pytest.mark.parametrize(
    ("error", "given", "doubtful"),
    [(1e-3, 9.0, False), (beyond(1e-3), 9.0, True), (1.0, 1.0, False), (1.0, 0.5, True)],
)
def test_a_target_beside_a_source_that_is_doubtful(error: float, given: float, doubtful: bool) -> None:
    made = judge_of(target=np.full(1, error))
    found = made._fault_of_target(part(1.0, (1.0, 1.0)), ZERO, np.full(1, given), 0, 0, OutputVerdict("y"))
    assert (found is not None) == doubtful
    if found:
        assert found[:2] == (INCONCLUSIVE, "")
        assert found[2].endswith("rounding does not explain that")
    calm = part(1.0, (1e-4, 1.0))
    assert made._fault_of_target(calm, ZERO, np.full(1, given), 0, 0, OutputVerdict("y")) is None or error > 16e-4


def respond_with(count: int) -> tuple[list[Feed], Any]:
    asked: list[Feed] = []

    def respond(feeds: Sequence[Feed]) -> list[dict[str, np.ndarray]]:
        asked.extend(feeds)
        return [{"y": np.full(1, float(n + 1))} for n in range(count)]

    return asked, respond


@pytest.mark.parametrize(("count", "enough"), [(5, False), (6, True)])
def test_runs_of_the_source_on_moved_feeds(count: int, enough: bool) -> None:
    made = judge_of()
    made.feeds = [Feed(f"seed {n}", {"x": np.full(50, 1.5, np.float32)}) for n in range(2)]
    asked, made.respond = respond_with(count)
    found = made._moves_of_source()
    assert [[o["y"].item() for o in moved] for moved, _ in found] == ([[1, 2], [3, 4], [5, 6]] if enough else [])
    assert all(still is made.runs.source["float32"] for _, still in found)
    drawn = [feed.arrays["x"] for feed in asked]
    assert len(drawn) == 6
    assert all((a != b).any() for n, a in enumerate(drawn) for b in drawn[:n]), "each moves otherwise"


def test_the_graph_is_moved_three_times_and_asked_once() -> None:
    made = judge_of(own=np.ones(1))
    made.feeds = [Feed("seed 0", {"x": np.full(1, 1.5, np.float32)})]
    made.asked, made.moves = False, []
    asked, made.respond = respond_with(3)
    first = made._moved(part(), 0, 0)
    assert (len(made.moves), len(asked)) == (6, 3)
    assert first.worst == 3.0
    made._moved(part(), 0, 0)
    assert (len(made.moves), len(asked)) == (6, 3)
    assert all(moved[0]["y"].item() != 1.5 for moved, _ in made.moves[:3])
    made.runs = RunOutputs({"float32": NONE, "float64": NONE}, [], NONE)
    assert made._moves_of_graph() == made._moves_of_source() == []


LARGE = np.array([[2.0**30], [2.0**-3]], np.float32)


@pytest.mark.parametrize(
    ("dtype", "stored", "narrowed", "roundoff"),
    [
        (np.float32, "", False, SINGLE),
        (np.float16, "", False, HALF),
        (np.float32, stored_as.HALF, True, HALF),
        (np.float32, stored_as.HALF_VALUES, True, HALF),
        (np.float32, "weights", True, SINGLE),
        (np.float32, stored_as.HALF, False, SINGLE),
    ],
)
def test_part_that_is_judged(
    dtype: Any, stored: str, narrowed: bool, roundoff: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[_Part] = []
    monkeypatch.setattr(_Judge, "_fault_of_graph", lambda self, made, *rest: parts.append(made))
    monkeypatch.setattr(_Judge, "_fault_of_target", lambda self, *rest: None)
    exact = np.array([2.0**13, 0.25, 0.5])
    given = np.array([2.0**13, 0.25, 0.625]).astype(dtype)
    other = SimpleNamespace(exact=[{"y": exact}], rounded=[{"y": given.astype(np.float64)}]) if narrowed else None
    away = np.full(3, 7.0)
    source = {"float32": [{"y": away.astype(dtype) if narrowed else given}], "float64": [{"y": exact}]}
    runs = RunOutputs(source, [{"y": exact}], [{"y": exact}], narrowed=other)  # type: ignore[arg-type]
    made = _Judge(identity(), [Feed("seed 0", {"x": ZERO})], runs, lambda feeds: [], False, stored)
    row = OutputVerdict("y", small_floor=0.01)
    assert made.fault(0, 0, row) is None
    (found,) = parts
    assert found.mask.tolist() == [False, True, True]
    assert found.roundoff == roundoff
    size = np.sqrt((0.0625 + 0.25) / 2)
    assert (found.size.mean, found.size.worst) == (pytest.approx(size), 0.5)
    assert (found.noise.mean, found.noise.worst) == (pytest.approx(0.125 / np.sqrt(2)), 0.125)
    assert found.slack == 16 * 32.0
    assert row.small_floor == pytest.approx(0.125 / np.sqrt(2) / size)


def test_slack_is_of_the_whole_where_that_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[_Part] = []
    monkeypatch.setattr(_Judge, "_fault_of_target", lambda self, made, *rest: parts.append(made))
    exact = np.array([1.0, 2.0**-20, np.inf])
    outputs = [{"y": exact}]
    runs = RunOutputs({"float32": [{"y": exact.astype(np.float32)}], "float64": outputs}, outputs, outputs)
    made = _Judge(identity(), [Feed("seed 0", {"x": ZERO})], runs, lambda feeds: [], False, "")
    row = OutputVerdict("y", small_floor=9.0)
    made.fault(0, 0, row)
    assert [p.slack for p in parts] == [pytest.approx(16 * np.sqrt(0.5))]
    assert row.small_floor == 9.0


def test_integers_and_other_shapes_have_no_parts() -> None:
    for exact, given in ((np.array([1 << 30, 1]), np.array([1 << 30, 1])), (LARGE, LARGE[0])):
        for target in (exact, exact * 2):
            runs = RunOutputs({"float32": [{"y": given}], "float64": [{"y": exact}]}, [{"y": target}], [{"y": target}])
            made = _Judge(identity(), [Feed("seed 0", {"x": ZERO})], runs, lambda feeds: [], False, "")
            row = OutputVerdict("y")
            assert made.fault(0, 0, row) is None
        assert row.small_floor == 0


def judged(
    monkeypatch: pytest.MonkeyPatch, *faults: tuple[str, str, str] | None, stored: str = "", narrowed: Any = None
) -> Verdict:
    """The verdict on one output where the small elements of each set of inputs have such a fault, or none."""
    found = dict(enumerate(faults))
    monkeypatch.setattr(_Judge, "fault", lambda self, place, position, row: found[place])
    outputs = [{"y": ZERO}] * len(faults)
    runs = RunOutputs({"float32": outputs, "float64": outputs}, outputs, outputs, narrowed)
    verdict = Verdict(PASS, outputs=[OutputVerdict("y")], stored=stored)
    feeds = [Feed(f"seed {n}", {"x": ZERO}) for n in range(len(faults))]
    hold_small_elements(verdict, identity(), feeds, runs, lambda feeds: [])
    return verdict


FIRST, SECOND = (INCONCLUSIVE, "", "first"), (INCONCLUSIVE, "", "second")
WRONG, LATER = (FAIL, "backend", "wrong"), (FAIL, "frontend", "later")


@pytest.mark.parametrize(
    ("faults", "status", "guilty", "reason"),
    [
        ((None, None), PASS, "", ""),
        ((FIRST, None), INCONCLUSIVE, "", "first, on seed 0"),
        ((FIRST, SECOND), INCONCLUSIVE, "", "first, on seed 0"),
        ((None, SECOND), INCONCLUSIVE, "", "second, on seed 1"),
        ((FIRST, WRONG), FAIL, "backend", "wrong, on seed 1"),
        ((WRONG, LATER), FAIL, "backend", "wrong, on seed 0"),
        ((WRONG, FIRST), FAIL, "backend", "wrong, on seed 0"),
    ],
)
def test_the_first_of_the_worst_faults_is_said(
    faults: Any, status: str, guilty: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = judged(monkeypatch, *faults)
    assert (found.status, found.guilty, found.outputs[0].status) == (status, guilty, status)
    assert found.outputs[0].reason == reason
    assert found.reason == (f"y: {reason}" if reason else "")


@pytest.mark.parametrize("narrowed", [False, True])
@pytest.mark.parametrize("stored", ["", stored_as.HALF, stored_as.CALIBRATED[0], stored_as.STEPS_AT_RUN_TIME[0]])
def test_activations_with_steps_are_not_judged(stored: str, narrowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = stored in (stored_as.CALIBRATED[0], stored_as.STEPS_AT_RUN_TIME[0])
    found = judged(monkeypatch, WRONG, stored=stored, narrowed=SimpleNamespace() if narrowed else None)
    assert found.status == (PASS if stepped and narrowed else FAIL)
