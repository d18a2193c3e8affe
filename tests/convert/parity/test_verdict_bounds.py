"""Every bound of the method, at the bound and at the next number; powers of two avoid rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import Unsupported
from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, SetErrors
from convert.parity.compare.narrow import NarrowOutput, compare_narrow
from convert.parity.compare.outputs import compare, vacuous_reason
from convert.parity.evidence import RunOutputs
from convert.parity.inputs.feeds import Feed
from convert.parity.method import VerifyMethod
from tests.support.verdict_on import verdict_on

F = ir.DataType.FLOAT
ONE = np.array([2.0, 0.0, 0.0, 0.0])
"""An array with a root mean square of 1: a number added to one of its zeros gives half that number as error."""
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
    """The source is exact, and its noise floor is four roundings of 2**-24."""
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
    """2**-21 for elements of 2, and 16 times that is 2**-17."""
    exact = np.where(np.arange(4096) % 2, 2.0, -2.0).astype(np.float64)
    for by, status in ((2.0**-17, PASS), (2.0**-17 * (1 + 2.0**-5), FAIL)):
        target = exact.copy()
        target[0] += by
        row = compare("y", [exact], [exact.astype(np.float32)], [target.astype(np.float32)])
        assert row.status == status, by


@pytest.mark.parametrize(("noise", "status"), [(0.25, INCONCLUSIVE), (0.249, PASS)])
def test_narrow_numbers_that_move_a_quarter(noise: float, status: str) -> None:
    rounded = off(2 * noise).astype(np.float32)
    assert (
        compare_narrow("y", NarrowOutput([ONE, 2 * ONE], [rounded, 2 * rounded], [rounded, 2 * rounded])).status
        == status
    )
    failed = compare_narrow("y", NarrowOutput([ONE], [rounded], [rounded[:2]]))
    assert failed.status == FAIL
    far = compare_narrow("y", NarrowOutput([ONE, 2 * ONE], [rounded, 2 * rounded], [10 * rounded, 2 * rounded]))
    assert far.status == FAIL


def test_where_the_reference_is_not_finite_nothing_is_measured() -> None:
    """Float64 has NaN or infinity and float32 a number, or the other way round."""
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
    """The sign of zero shows which element was the first."""
    assert vacuous_reason([np.array([-0.0, 0.0, 0.0])]) == "the output has one value everywhere, -0.0"
    assert vacuous_reason([np.array([0.0, -0.0, -0.0])]) == "the output has one value everywhere, 0.0"


@SIDES
def test_outputs_that_differ_by_a_rounding_of_their_size_do_not_depend_on_inputs(beyond: bool) -> None:
    other = off(2.0**-24 * (BEYOND if beyond else 1))
    assert vacuous_reason([ONE, other]) == ("" if beyond else "the output does not depend on the inputs")
    assert vacuous_reason([ONE, ONE, other]) == ("" if beyond else "the output does not depend on the inputs")


# -- the verdict ------------------------------------------------------------------------------------------------------


def runs_of(source: Any, exact: Any, target: Any, own: Any) -> RunOutputs:
    """Return the runs on one feed."""
    single = [{"y": np.asarray(source).astype(np.float32)}]
    double = exact if isinstance(exact, Unsupported) else [{"y": exact}]
    return RunOutputs({"float32": single, "float64": double}, [{"y": np.asarray(target).astype(np.float32)}],
                      own if isinstance(own, Unsupported) else [{"y": own}])  # fmt: skip


@SIDES
def test_the_graph_in_float64_may_be_a_billionth_off(beyond: bool) -> None:
    by = 1e-9 * (BEYOND if beyond else 1)
    verdict = verdict_on(model(), [Feed("one", {})], runs_of(ONE, ONE, ONE, off(by)), VerifyMethod())
    assert verdict.status == (FAIL if beyond else PASS)
    assert verdict.at_fault == ("frontend" if beyond else "")
    # Up to there, the failure of the backend stays the backend's.
    verdict = verdict_on(model(), [Feed("one", {})], runs_of(ONE, ONE, 2 * ONE, off(by)), VerifyMethod())
    assert verdict.at_fault == ("frontend" if beyond else "backend")


NO = Unsupported("no")


LEAST = np.nextafter(0, 1)
BELOW = 1 - 2.0**-20
