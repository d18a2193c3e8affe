"""Special values are run in float64 if source and target differ on them, and only then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convert.errors import ConvertError, Unsupported
from convert.outcome.verdict import PASS, Verdict
from convert.parity import verify as verification
from convert.parity.verify import verify
from convert.request.options import Options
from tests.support.sides import SOURCE, TARGET, Arrays, Function, Side, Sides, graph, scaled

SOURCE_SIDE = Side(float32=scaled(2.0), float64=scaled(2.0, np.float64))


def judged(monkeypatch: pytest.MonkeyPatch, source: Side, target: Side) -> Verdict:
    Sides(monkeypatch, source, target)
    return verify(SOURCE, TARGET, graph(), Options())


def counted(function: Function, found: list[bool]) -> Function:
    """Wrap the function so that it records for each set whether it contains NaN."""

    def made(arrays: Arrays) -> dict[str, np.ndarray]:
        found.append(bool(np.isnan(arrays["x"]).any()))
        return function(arrays)

    return made


@pytest.mark.parametrize("own", [True, False])
def test_special_values_are_run_in_float64_where_they_decide(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An overflow in float32 does not occur in float64; source and target may differ there."""

    def overflows(limit: float) -> Function:
        def function(arrays: Arrays) -> dict[str, np.ndarray]:
            found = scaled(2.0)(arrays)["y"]
            return {"y": np.where(arrays["x"] == np.inf, np.float32(limit), found)}

        return function

    given: list[bool] = []
    source = Side(float32=overflows(3.0), float64=counted(scaled(2.0, np.float64), given))
    verdict = judged(monkeypatch, source, Side(float32=overflows(3.0 if own else 2.5)))
    # In float64 the source turns infinity into 2, where both others have something else.
    assert given.count(True) == (0 if own else 1)
    assert verdict.status == PASS
    assert len(verdict.feeds) == 7


def test_special_values_that_the_graph_does_not_take_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(arrays: Arrays) -> dict[str, np.ndarray]:
        return {"y": np.where(np.isinf(arrays["x"]), np.float32(0), scaled(2.0)(arrays)["y"])}

    plain = verification._graph_outputs

    def refusing(made: Any, arrays: Any, *rest: Any) -> Any:
        return ConvertError("no") if np.isinf(arrays[0]["x"]).any() else plain(made, arrays, *rest)

    monkeypatch.setattr(verification, "_graph_outputs", refusing)
    verdict = judged(monkeypatch, SOURCE_SIDE, Side(float32=other))
    assert verdict.status == PASS
    assert verdict.notes == ["special values are not verified: the source takes them, and the graph's executor does "
                             "not"]  # fmt: skip
    monkeypatch.setattr(verification, "_graph_outputs", lambda *given: Unsupported("no kernel"))
    assert judged(monkeypatch, SOURCE_SIDE, Side(float32=other)).reason.startswith("y: on special values")
