"""Limits of the searches for sizes and permutations, at the limit and one beyond."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.outcome.verdict import PASS, Verdict
from convert.parity import verify as verification
from convert.parity.inputs import size_guards, size_search
from convert.parity.inputs.size_guards import evaluate, fit_sizes
from convert.parity.inputs.size_search import _that_fit
from convert.parity.locate.profile import TargetValues
from convert.parity.magnitudes import smaller_columns, smaller_parts
from convert.parity.method import VerifyMethod
from convert.parity.runs import memory
from convert.processes.run_here import Limits
from convert.request.options import Options
from tests.convert.parity.input_models import plain
from tests.support.sides import SOURCE, TARGET

F = ir.DataType.FLOAT


@pytest.mark.parametrize(
    ("text", "value"),
    [("2 ** 64", 2**64), ("2 ** 65", None), ("1099511627776 ** 2", 2**80), ("1099511627777 ** 2", None),
     ("(-1099511627776) ** 1", -(2**40)), ("(-1099511627777) ** 1", None)],
)  # fmt: skip
def test_powers_of_files_from_anywhere_are_small(text: str, value: int | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match="too large a power"):
            evaluate(text, {})
    else:
        assert evaluate(text, {}) == value


@pytest.mark.parametrize(("wanted", "found"), [(133, 133), (134, 100), (67, 67), (66, 100)])
def test_sizes_are_looked_for_33_away(wanted: int, found: int) -> None:
    assert fit_sizes({"h": 100}, [f"h == {wanted}"], {}) == {"h": found}


@pytest.mark.parametrize(("count", "fits"), [(1, True), (8, True), (9, False)])
def test_eight_conditions_are_met_one_after_another(count: int, fits: bool) -> None:
    guards = [f"d{n} == 17" for n in range(count)]
    sizes = dict.fromkeys((f"d{n}" for n in range(count)), 16)
    assert fit_sizes(sizes, guards, {}) == (dict.fromkeys(sizes, 17) if fits else sizes)


@pytest.mark.parametrize(("characters", "tries"), [(6, 4000), (2_000_000, 5), (2_666_667, 3)])
def test_so_many_sizes_are_tried_for_conditions_of_so_many_characters(
    characters: int, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight million size–character products in all, and one more."""
    asked: list[int] = []

    def islice(values: Any, count: int) -> list[Any]:
        asked.append(count)
        return []

    monkeypatch.setattr(size_guards, "itertools", SimpleNamespace(islice=islice, product=itertools.product))
    monkeypatch.setattr(size_guards, "broken_guards", lambda guards, sizes: ["h == 1"])
    fit_sizes({"h": 16}, ["h == 1".ljust(characters)], {})
    assert asked == [tries]


@pytest.mark.parametrize("agree", [True, False])
def test_sets_of_sizes_that_are_thought_of_and_taken(agree: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 are considered and 60 used; all of them if inference rejects each."""
    monkeypatch.setattr(size_search, "_shapes_agree", lambda graph, proto, sizes: agree)
    found = [s["n"] for s in _that_fit(plain(shape=["n"]), ({"n": n} for n in itertools.count(1)))]
    assert found == list(range(1, 61 if agree else 2001))


def test_shapes_are_inferred_for_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each inference takes a second here, and the first is always made."""
    clock = itertools.count(100)
    monkeypatch.setattr(size_search, "monotonic", lambda: next(clock))
    monkeypatch.setattr(size_search, "_shapes_agree", lambda graph, proto, sizes: True)
    found = list(_that_fit(plain(shape=["n"]), [{"n": n} for n in range(1, 50)]))
    assert len(found) == 9


def test_a_verification_has_twenty_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    @contextlib.contextmanager
    def limited_time(seconds: float) -> Iterator[None]:
        asked.append(seconds)
        yield

    monkeypatch.setattr(verification, "limited_time", limited_time)
    monkeypatch.setattr(verification, "_verify", lambda *given: Verdict(PASS))
    verification.verify(SOURCE, TARGET, plain(), Options(), VerifyMethod(limits=Limits(seconds=7)))
    assert asked == [140]


@pytest.mark.parametrize(("given", "scarce"), [(48 * 1000, False), (48 * 1000 - 1, True)])
def test_four_runs_are_in_memory_at_once(given: int, scarce: bool) -> None:
    """Each takes 1,000 numbers of 4 bytes, and of 8 bytes again."""
    g = Graph()
    g.output(g.Mul(g.input("x", F, [1000]), g.initializer("w", ir.Tensor(np.ones(1000, np.float32)))), "y")
    assert memory.is_scarce(g.model(), Limits(memory=given)) == scarce


@pytest.mark.parametrize(("size", "parts"), [(1e4, 1), (9999.5, 0)])
def test_zeros_are_apart_from_ten_thousand_on(size: float, parts: int) -> None:
    assert len(smaller_parts(np.array([size, 0.0, size]))) == parts


@pytest.mark.parametrize(("gap", "parts"), [(1e4, 1), (9999.5, 0)])
def test_a_gap_is_of_ten_thousand(gap: float, parts: int) -> None:
    assert len(smaller_parts(np.array([1.0, 1.0, gap]))) == parts


@pytest.mark.parametrize(("rows", "masks"), [(7, 0), (8, 1)])
def test_a_column_has_eight_elements_at_the_least(rows: int, masks: int) -> None:
    array = np.ones((rows, 4))
    array[:, 1] = 1e-3
    assert len(smaller_columns(array)) == masks


def test_the_four_nearest_values_of_a_target_are_tried() -> None:
    """The values are chosen by minimum, maximum, mean and root mean square. Among equally near values, the first are
    used.
    """
    reference = np.array([3.0, 1.0, 2.0, 4.0])
    others = [np.array(order) for order in itertools.permutations([1.0, 2.0, 3.0, 4.0]) if order[0] != 3.0]
    for before, found in ((3, 0.0), (4, None)):
        values = {str(n): a for n, a in enumerate([*others[:before], reference])}
        nearest = TargetValues(values).nearest(reference)
        assert nearest == found if found == 0.0 else nearest is None or nearest > 0.0
