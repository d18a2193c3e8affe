"""Sets on which the target follows the source need no reference; the others get one as in a small model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Verdict
from convert.parity.method import VerifyMethod
from convert.parity.verify import verify
from convert.request.options import Options
from tests.support.sides import SOURCE, TARGET, Arrays, F, Function, Side, Sides, scaled

U = 2.0**-24
ROUNDS = 20 * U
"""The source's own error. The lowest noise floor is 4 u."""


def large_graph() -> ir.Model:
    """Return the graph of `tests.support.sides`, with so many weights that float64 runs are avoided."""
    g = Graph()
    x = g.input("x", F, ["n", 6])
    weights = np.zeros((1_000_001,), np.float32)
    weights[0] = 2.0
    g.output(g.Mul(g.Tanh(x), g.Gather(weights, np.int64(0), axis=0)), "y")
    return g.model()


def wrong(share: float, rows: int, *, ones: bool = False, rounds: float = ROUNDS) -> Function:
    """Return y with errors like the source's; on sets of this many rows of finite numbers, one element or all have an
    error of `share`.
    """

    def run(arrays: Arrays) -> dict[str, np.ndarray]:
        right = scaled(2.0, np.float64)(arrays)["y"]
        signs = np.random.default_rng(7 + len(right)).choice([-1, 1], right.shape)
        off = np.zeros(right.shape)
        if len(right) == rows and np.isfinite(right).all():
            off[(-1, -1) if ones else ...] = share
        return {"y": (right * (1 + rounds * signs) + off).astype(np.float32)}

    return run


def counted_float64(rows: list[int]) -> Function:
    """Return the source in float64, which records the number of rows of each set."""

    def run(arrays: Arrays) -> dict[str, np.ndarray]:
        rows.append(len(arrays["x"]))
        return scaled(2.0, np.float64)(arrays)

    return run


def verdict_on(
    monkeypatch: pytest.MonkeyPatch, target: Function, double: Function | None = None, **method: Any
) -> tuple[Verdict, list[int]]:
    """Return the verdict on a target, and the rows of the sets on which the source ran in float64."""
    rows: list[int] = []
    source = Side(float32=wrong(0.0, 0), float64=double or counted_float64(rows))
    Sides(monkeypatch, source, Side(float32=target))
    return verify(SOURCE, TARGET, large_graph(), Options(), VerifyMethod(**method)), rows


def test_a_target_that_follows_needs_one_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    found, rows = verdict_on(monkeypatch, wrong(0.0, 0))
    assert (found.status, rows) == (PASS, [1])
    assert found.reference == "the source in float64"
    assert found.covered.endswith("; in float64 on 1 of the sets")
    assert found.sets == "3 input sets, n 1–3"
    assert sorted(label[:6] for label in found.feeds[:3]) == ["seed 0", "seed 1", "seed 2"]


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize(("share", "ones", "status"), [
    (2 * ROUNDS, False, PASS), (20 * ROUNDS, False, FAIL), (10 * ROUNDS, True, PASS), (100 * ROUNDS, True, FAIL),
])  # fmt: skip
def test_a_target_that_does_not_follow_is_held_to_a_reference(
    monkeypatch: pytest.MonkeyPatch, rows: int, share: float, ones: bool, status: str
) -> None:
    found, given = verdict_on(monkeypatch, wrong(share, rows, ones=ones))
    assert found.status == status, found.reason
    if status == FAIL:
        assert rows in given
        assert given[0] == 1


def test_without_a_run_of_the_source_in_float64_the_graph_is_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(arrays: Arrays) -> dict[str, np.ndarray]:
        raise Unsupported("no float64")

    found, _ = verdict_on(monkeypatch, wrong(0.0, 0), none)
    assert (found.status, found.reference) == (PASS, "the shared graph in float64")
    assert found.covered.endswith("; in float64 on 1 of the sets")
    found, _ = verdict_on(monkeypatch, wrong(100 * ROUNDS, 3), none)
    assert (found.status, found.reference) == (FAIL, "the shared graph in float64")
    assert found.covered.endswith("; in float64 on 2 of the sets")


def test_tolerances_are_for_every_set(monkeypatch: pytest.MonkeyPatch) -> None:
    found, rows = verdict_on(monkeypatch, wrong(2 * ROUNDS, 3), rtol=ROUNDS / 2)
    assert found.status == FAIL
    assert sorted(rows) == [1, 2, 3]


def zero(run: Function, rows: tuple[int, ...]) -> Function:
    """Wrap the function so that it returns zeros on sets of this many rows."""
    return lambda arrays: {n: y * (len(y) not in rows) for n, y in run(arrays).items()}


@pytest.mark.parametrize(("rows", "status"), [((1,), PASS), ((1, 2, 3), INCONCLUSIVE)])
def test_followed_sets_show_whether_an_output_is_constant(
    monkeypatch: pytest.MonkeyPatch, rows: tuple[int, ...], status: str
) -> None:
    """The set with a reference has a single value, like the score of an absent class."""
    g = Graph()
    x = g.input("x", F, ["n", 6])
    size = g.Gather(g.Shape(x), np.int64(0), axis=0)
    factor = g.Gather(np.where(np.isin(np.arange(1_000_001), rows), 0, 2).astype(np.float32), size, axis=0)
    g.output(g.Mul(g.Tanh(x), factor), "y")
    deployed = zero(wrong(0.0, 0), rows)
    Sides(monkeypatch, Side(float32=deployed, float64=zero(scaled(2.0, np.float64), rows)), Side(float32=deployed))
    assert verify(SOURCE, TARGET, g.model(), Options(), VerifyMethod()).status == status


def test_what_the_source_refuses_in_float64_is_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses_three(arrays: Arrays) -> dict[str, np.ndarray]:
        if len(arrays["x"]) == 3:
            raise BadInput("not three rows")
        return scaled(2.0, np.float64)(arrays)

    found, _ = verdict_on(monkeypatch, wrong(0.0, 0), refuses_three)
    assert found.status == PASS, "which is not run, as the target follows there"
    with pytest.raises(BadInput, match="not three rows"):
        verdict_on(monkeypatch, wrong(100 * ROUNDS, 3), refuses_three)


@pytest.mark.parametrize(("rounds", "given"), [(ROUNDS, [1]), (2e-3, [1, 2, 3])])
def test_a_large_noise_floor_is_not_lent_to_other_sets(
    monkeypatch: pytest.MonkeyPatch, rounds: float, given: list[int]
) -> None:
    """Rounding has to explain a floor above 1e-3 on each set."""
    rows: list[int] = []
    deployed = wrong(0.0, 0, rounds=rounds)
    Sides(monkeypatch, Side(float32=deployed, float64=counted_float64(rows)), Side(float32=deployed))
    verify(SOURCE, TARGET, large_graph(), Options(), VerifyMethod())
    assert sorted(rows) == given
