"""Every bound of the method at the number itself and at the next one: powers of two, of which nothing is rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import Unsupported
from convert.graph import Graph
from convert.parity import floors
from convert.parity.compare import compare, compare_narrow, float64_error, is_source_far, mark_doubtful, vacuous_reason
from convert.parity.floors import (
    _is_explained,
    _is_of_numbers,
    excuse_cancelled,
    excuse_order,
    hold_floors,
    without_foreign_float64,
)
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs, VerifyMethod, judge
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, SetErrors, Verdict

F = ir.DataType.FLOAT
ONE = np.array([2.0, 0.0, 0.0, 0.0])
"""Its root mean square is 1, and what is added to one of the zeros is an error of half as much."""
BEYOND = 1 + 2.0**-20
SIDES = pytest.mark.parametrize("beyond", [False, True])


def off(by: float) -> np.ndarray:
    return ONE + np.array([0.0, by, 0.0, 0.0])


def model(count: int = 4, dtype: ir.DataType = F) -> ir.Model:
    g = Graph()
    g.output(g.facts(g.Neg(g.input("x", F, [count])), dtype, [count]), "y")
    return g.model()


@SIDES
def test_an_error_of_four_floors_passes(beyond: bool) -> None:
    """Of an exact source, whose floor is four roundings of 2**-24."""
    by = 2 * 4 * 2.0**-22 * (BEYOND if beyond else 1)
    row = compare("y", [ONE, 2 * ONE], [ONE.astype(np.float32), 2 * ONE.astype(np.float32)],
                  [off(by).astype(np.float32), 2 * ONE.astype(np.float32)])  # fmt: skip
    assert row.status == (FAIL if beyond else PASS)


@SIDES
def test_an_element_of_sixteen_times_the_sources_worst_passes(beyond: bool) -> None:
    exact = np.where(np.arange(64) % 2, 1.0, -1.0)
    source, target = exact + 2.0**-10, exact.copy()
    target[0] += 2.0**-6 + (2.0**-20 if beyond else 0)
    row = compare("y", [exact], [source.astype(np.float32)], [target.astype(np.float32)])
    assert row.status == (FAIL if beyond else PASS)
    assert row.reason.startswith("an element is off by") == beyond


def test_the_worst_of_an_exact_source_is_four_roundings_of_its_largest() -> None:
    """2**-21 of elements of 2, and 16 times that is 2**-17."""
    exact = np.where(np.arange(4096) % 2, 2.0, -2.0).astype(np.float64)
    for by, status in ((2.0**-17, PASS), (2.0**-17 * (1 + 2.0**-5), FAIL)):
        target = exact.copy()
        target[0] += by
        row = compare("y", [exact], [exact.astype(np.float32)], [target.astype(np.float32)])
        assert row.status == status, by


@pytest.mark.parametrize(("noise", "status"), [(0.25, INCONCLUSIVE), (0.249, PASS)])
def test_narrow_numbers_that_move_a_quarter(noise: float, status: str) -> None:
    rounded = off(2 * noise).astype(np.float32)
    assert compare_narrow("y", [ONE, 2 * ONE], [rounded, 2 * rounded], [rounded, 2 * rounded]).status == status
    failed = compare_narrow("y", [ONE], [rounded], [rounded[:2]])
    assert failed.status == FAIL
    far = compare_narrow("y", [ONE, 2 * ONE], [rounded, 2 * rounded], [10 * rounded, 2 * rounded])
    assert far.status == FAIL


def test_where_the_reference_is_not_finite_nothing_is_measured() -> None:
    """In float64 there is NaN or infinity, in float32 a number, and the other way round."""
    exact = np.array([np.nan, 2.0, 0.0, np.inf, 0.0, 0.0])
    source = np.array([1.0, 2.0, 0.0, 3.0, 0.0, 0.0], np.float32)
    row = compare("y", [exact], [source], [source])
    assert (row.status, row.error, row.worst) == (PASS, 0, 0)
    assert row.floor == 4 * 2.0**-24
    row = compare("y", [source.astype(np.float64)], [exact.astype(np.float32)], [exact.astype(np.float32)])
    assert (row.status, row.error) == (PASS, 0)


def test_integers_have_no_floor_and_no_worst_element() -> None:
    row = compare("y", [np.arange(4)], [np.arange(4)], [np.array([0, 1, 2, 9])])
    assert (row.status, row.error, row.floor, row.worst) == (FAIL, 0.25, 0.0, 0.0)
    assert row.sets == [SetErrors(0.25, 0.0, 0.0)]
    assert compare("y", [np.array(3)], [np.array(3)], [np.array(4)]).error == 1.0


def test_the_first_value_of_a_constant_output_is_told() -> None:
    """A zero has a sign, by which the first is told from the others."""
    assert vacuous_reason([np.array([-0.0, 0.0, 0.0])]) == "the output has one value everywhere, -0.0"
    assert vacuous_reason([np.array([0.0, -0.0, -0.0])]) == "the output has one value everywhere, 0.0"


@SIDES
def test_outputs_that_differ_by_a_rounding_of_their_size_do_not_depend_on_inputs(beyond: bool) -> None:
    other = off(2.0**-24 * (BEYOND if beyond else 1))
    assert vacuous_reason([ONE, other]) == ("" if beyond else "the output does not depend on the inputs")
    assert vacuous_reason([ONE, ONE, other]) == ("" if beyond else "the output does not depend on the inputs")


def test_shapes_that_are_longer_or_shorter_are_infinitely_far() -> None:
    for a, b in ((3, 4), (4, 3)):
        assert float64_error(np.ones(a), np.ones(b)) == np.inf
        assert floors.distance(np.ones(a), np.ones(b)) == np.inf
    assert floors.distance(np.array([True, False]), np.array([False, True])) == pytest.approx(np.sqrt(2))


@SIDES
@pytest.mark.parametrize("error", [0.0, 2.0**-20])
def test_a_source_is_far_from_sixteen_errors_on(beyond: bool, error: float) -> None:
    least = 16 * max(error, 4 * 2.0**-24)
    row = OutputVerdict("y", sets=[SetErrors(error, least * (BEYOND if beyond else 1), 0.0)])
    assert is_source_far(row) == beyond
    verdict = Verdict(PASS, outputs=[row])
    mark_doubtful(verdict)
    assert verdict.status == (INCONCLUSIVE if beyond else PASS)


# -- the verdict ------------------------------------------------------------------------------------------------------


def runs_of(source: Any, exact: Any, target: Any, own: Any) -> RunOutputs:
    """Runs on one feed."""
    single = [{"y": np.asarray(source).astype(np.float32)}]
    double = exact if isinstance(exact, Unsupported) else [{"y": exact}]
    return RunOutputs({"float32": single, "float64": double}, [{"y": np.asarray(target).astype(np.float32)}],
                      own if isinstance(own, Unsupported) else [{"y": own}])  # fmt: skip


@SIDES
def test_the_graph_in_float64_may_be_a_billionth_off(beyond: bool) -> None:
    by = 1e-9 * (BEYOND if beyond else 1)
    verdict = judge(model(), [Feed("one", {})], runs_of(ONE, ONE, ONE, off(by)), VerifyMethod())
    assert verdict.status == (FAIL if beyond else PASS)
    assert verdict.guilty == ("frontend" if beyond else "")
    # The backend's failure stays the backend's up to there.
    verdict = judge(model(), [Feed("one", {})], runs_of(ONE, ONE, 2 * ONE, off(by)), VerifyMethod())
    assert verdict.guilty == ("frontend" if beyond else "backend")


NO = Unsupported("no")


def held(floor: float, explained: float, exact: bool, beside: float = 0.5) -> Verdict:
    """The verdict on a source that is `floor` off, where rounding explains so much; the target is `beside` of it."""
    verdict, source = Verdict(PASS, outputs=[OutputVerdict("y")]), off(2 * floor)
    runs = runs_of(source, ONE if exact else NO, source, ONE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floors, "explained_floors", lambda *a: {0: explained})
        patch.setattr(floors, "_pooled", lambda found, wanted: {0: floor if wanted[0]["y"] is ONE else beside})
        hold_floors(verdict, model(), [Feed("one", {})], runs, lambda feeds: [])
    return verdict


@pytest.mark.parametrize(
    ("floor", "explained", "exact", "beside", "status"),
    [
        (1e-3, 0.0, False, 0.5, PASS),  # not above what is suspicious
        (np.nextafter(1e-3, 1), 0.0, False, 0.5, FAIL),
        (2.0**-5, 2.0**-9, False, 0.5, PASS),  # sixteen times what is explained
        (2.0**-5, 2.0**-9 * (1 - 2.0**-20), False, 0.5, FAIL),
        (2.0**-5, 2.0**-9 * (1 - 2.0**-20), True, 0.5, INCONCLUSIVE),
        (2.0**-5, 2.0**-12, True, 2.0**-8, PASS),  # the target does as the source, to sixteen times the rounding
        (2.0**-5, 2.0**-12, True, 2.0**-8 * BEYOND, INCONCLUSIVE),
        (2.0**-5, 2.0**-12, False, 2.0**-8, FAIL),  # which counts for nothing where the graph is its own reference
        (0.1, 1.0, False, 0.5, INCONCLUSIVE),  # never a pass
        (np.nextafter(0.1, 0), 1.0, False, 0.5, PASS),
        (0.1, 1.0, True, 0.5, INCONCLUSIVE),
        (np.nextafter(0.1, 0), 1.0, True, 0.5, PASS),
    ],
)
def test_which_floors_are_explained(floor: float, explained: float, exact: bool, beside: float, status: str) -> None:
    found = held(floor, explained, exact, beside)
    assert found.status == status
    assert found.guilty == ("frontend" if status == FAIL else "")


def test_what_explains_nothing_explains_no_floor() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floors, "explained_floors", lambda *a: {})
        verdict = Verdict(PASS, outputs=[OutputVerdict("y")])
        runs = runs_of(off(2.0**-4), NO, off(2.0**-4), ONE)
        hold_floors(verdict, model(), [Feed("one", {})], runs, lambda feeds: [])
    assert verdict.status == FAIL
    assert "rounding explains 0.0e+00 of it" in verdict.reason


LEAST = np.nextafter(0, 1)
BELOW = 1 - 2.0**-20


@pytest.mark.parametrize(
    ("explained", "error", "twin", "status"),
    [
        (1.0, 16.0, None, INCONCLUSIVE),
        (1.0, 16.0 * BEYOND, None, FAIL),
        (BELOW, 1.0, None, FAIL),  # it has to be moved by its own size
        (1.0, 1.0, 2.0**-25, INCONCLUSIVE),  # 16 by 2**-53 / 2**-24
        (1.0, 1.0, 2.0**-25 * BEYOND, FAIL),
        (2.0, 1.0, 2.0**-24, INCONCLUSIVE),
        (2.0, 1.0, 2.0**-24 * BEYOND, FAIL),
        (1.0, LEAST, None, INCONCLUSIVE),
        (1.0, 0.0, None, FAIL),  # it failed by something else than its numbers
        (2.0**1000, np.inf, None, FAIL),
    ],
)
def test_what_nothing_but_rounding_is_left_of(explained: float, error: float, twin: float | None, status: str) -> None:
    verdict = Verdict(FAIL, outputs=[OutputVerdict("y", FAIL, "why", error=error, twin=twin)], guilty="backend")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floors, "explained_floors", lambda *a: {0: explained})
        excuse_cancelled(verdict, model(), [Feed("one", {})], runs_of(ONE, ONE, ONE, ONE), lambda feeds: [])
    assert (verdict.status, verdict.outputs[0].status) == (status, status)
    assert verdict.guilty == ("" if status == INCONCLUSIVE else "backend")


def test_one_failure_that_is_not_excused_is_one() -> None:
    rows = [OutputVerdict(n, FAIL, "why", error=e) for n, e in (("y", 1.0), ("z", 17.0))]
    rows.insert(0, OutputVerdict("x", PASS))
    verdict = Verdict(FAIL, "y: why", outputs=rows, guilty="backend")
    arrays = [dict.fromkeys("xyz", ONE.astype(np.float32))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floors, "explained_floors", lambda *a: {1: 1.0, 2: 1.0})
        runs = RunOutputs({"float32": arrays, "float64": NO}, arrays, NO)
        excuse_cancelled(verdict, model(), [Feed("one", {})], runs, lambda feeds: [])
    assert [r.status for r in rows] == [PASS, INCONCLUSIVE, FAIL]
    assert (verdict.status, verdict.reason, verdict.guilty) == (FAIL, "y: why", "backend")


@pytest.mark.parametrize("guilty", ["", "frontend"])
def test_sums_excuse_the_backend_alone(guilty: str) -> None:
    row = OutputVerdict("y", FAIL, "why", error=1e-9, twin=0.0, sets=[SetErrors(1e-9, 1e-12, 1e-9)])
    verdict = Verdict(FAIL, outputs=[row], guilty=guilty)
    feeds = [Feed("one", {"x": ONE.astype(np.float32)})]
    excuse_order(verdict, model(), feeds, runs_of(-ONE, -ONE, -ONE, -ONE))
    assert verdict.status == FAIL


@pytest.mark.parametrize(
    ("errors", "floors_of_sets", "explained"),
    [
        ([0.02], [0.01], True),  # twice the floor
        ([0.0201], [0.01], False),
        ([1.0, 0.02], [0.001, 0.01], False),  # an earlier set of inputs fails as well
        ([0.0, 0.02], [0.001, 0.01, 0.0], True),  # what came after it was not looked at
        ([0.0, 0.02], [0.01, 0.001, 0.01], False),  # the floor is that of the set that failed
        ([0.15, 0.02], [0.1, 0.01], False),  # nor does a floor explain what is never excused, in any set
        ([0.09, 0.02], [0.05, 0.01], False),
        ([0.0, 0.0, 0.02], [0.001, 0.001, 0.01], True),
        ([0.0, 0.0, 0.02], [0.01, 0.01, 0.001], False),
        ([0.0, 0.0, 0.0, 0.02], [0.001, 0.001, 0.001, 0.01, 0.001], True),
        ([0.09], [0.049], True),  # 2 * 0.049 is less than what is never excused
        ([0.09], [0.05], False),
    ],
)
def test_sums_explain_twice_their_own_error(errors: list[float], floors_of_sets: list[float], explained: bool) -> None:
    row = OutputVerdict("y", FAIL, error=errors[-1], sets=[SetErrors(e, 1e-12, e) for e in errors])
    assert _is_explained(row, floors_of_sets) == explained


def test_an_error_of_four_floors_needs_no_other_explanation() -> None:
    for error, explained in ((2.0**-8, True), (2.0**-8 * BEYOND, False)):
        row = OutputVerdict("y", FAIL, error=0.02, sets=[SetErrors(error, 2.0**-10, 0.0), SetErrors(0.02, 0.0, 0.0)])
        assert _is_explained(row, [0.0, 0.01]) == explained
    for floor, explained in ((0.05, False), (0.049, True)):
        row = OutputVerdict("y", FAIL, error=0.09, sets=[SetErrors(0.09, 1.0, 0.0)])
        assert _is_explained(row, [floor]) == explained


def test_sums_that_explain_all_failures_name_the_first() -> None:
    arrays = [{"y": -ONE, "z": -ONE}]
    rows = [OutputVerdict(n, FAIL, n, error=1e-9, twin=0.0, sets=[SetErrors(1e-9, 1.0, 0.0)]) for n in "yz"]
    verdict = Verdict(FAIL, outputs=rows, guilty="backend")
    g = Graph()
    x = g.input("x", F, [4])
    g.output(g.Neg(x), "y")
    g.output(g.Neg(x), "z")
    feeds = [Feed("one", {"x": ONE.astype(np.float32)})]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floors, "distance", lambda a, b: 1e-9)
        excuse_order(verdict, g.model(), feeds, RunOutputs({"float32": arrays, "float64": arrays}, arrays, arrays))
    assert verdict.status == INCONCLUSIVE
    assert verdict.reason.startswith("y: y; sums")


@pytest.mark.parametrize("outputs", [[], [OutputVerdict("y", PASS)]])
def test_a_failure_of_no_output_stays(outputs: list[OutputVerdict]) -> None:
    for status in (FAIL, INCONCLUSIVE):
        verdict = Verdict(status, "why", outputs=list(outputs), guilty="backend")
        runs = runs_of(ONE, ONE, ONE, ONE)
        excuse_cancelled(verdict, model(), [Feed("one", {})], runs, lambda feeds: 1 / 0)  # type: ignore[arg-type]
        excuse_order(verdict, model(), [Feed("one", {})], runs)
        assert (verdict.status, verdict.reason, verdict.guilty) == (status, "why", "backend")


def test_draws_have_one_floor_for_sums() -> None:
    """The largest of the draws and of what they were made from."""
    x = np.random.default_rng(0).uniform(1, 2, (2, 2000)).astype(np.float32)
    feeds = [Feed("one", {"x": x[0]}), Feed("draw", {"x": x[0][::-1].copy()}, draw_of="one")]
    g = Graph()
    g.output(g.ReduceSum(g.input("x", F, [2000]), [0], keepdims=1), "y")
    exact = [{"y": f.arrays["x"].astype(np.float64).sum(keepdims=True)} for f in feeds]
    single = [{"y": o["y"].astype(np.float32)} for o in exact]
    floor = 1e-7
    for error, status in ((1.9 * floor, INCONCLUSIVE), (2.1 * floor, FAIL)):
        row = OutputVerdict("y", FAIL, "why", error=error, twin=0.0, sets=[SetErrors(error, 1e-12, error)])
        verdict = Verdict(FAIL, outputs=[row], guilty="backend")
        found = iter([0.0, floor])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(floors, "distance", lambda a, b: next(found))  # noqa: B023
            excuse_order(verdict, g.model(), feeds, RunOutputs({"float32": single, "float64": exact}, single, exact))
        assert verdict.status == status


def test_a_float64_run_is_foreign_from_a_billionth_and_sixteen_distances_on() -> None:
    """exact is off by a, the source by b from the graph: one of both has to be beyond its bound."""
    for a, b, foreign in ((0.9e-9, 0.0, False), (2.0**-10, 2.0**-11, False), (2.0**-10, 2.0**-16, True)):
        runs = runs_of(off(2 * b), off(2 * a), ONE, ONE)
        found = without_foreign_float64(model(), runs).source["float64"]
        assert isinstance(found, Unsupported) == foreign, (a, b)


@pytest.mark.parametrize(("error", "told"), [(0.0, False), (LEAST, True), (1e300, True), (np.inf, False)])
def test_a_failure_of_numbers_has_an_error_that_is_one(error: float, told: bool) -> None:
    assert _is_of_numbers(0, OutputVerdict("y", FAIL, error=error), runs_of(ONE, ONE, ONE, ONE)) == told
