"""How long an explanation of a difference is looked for: a minute, and what is not found by then is no excuse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import ResourceLimit
from convert.graph import Graph
from convert.parity import flipped_steps, floors, sensitive, small_elements, tied_counts
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs
from convert.parity.small_elements import _Errors, _Judge, _Part
from convert.verdict import FAIL, OutputVerdict, SetErrors, Verdict

F = ir.DataType.FLOAT
X = np.linspace(1, 2, 6).astype(np.float32)
FEED = Feed("one", {"x": X})


def model(build: Any) -> ir.Model:
    g = Graph()
    g.output(build(g, g.input("x", F, [6])), "y")
    return g.model()


def quantized(g: Graph, x: ir.Value) -> ir.Value:
    return g.DequantizeLinear(g.QuantizeLinear(x, np.float32(0.1), np.uint8(0)), np.float32(0.1), np.uint8(0))


def flipped() -> bool:
    made = model(quantized)
    return flipped_steps.is_of_flipped_steps(made, "y", [FEED], [X], [X + np.float32(1e-3)])


def tied() -> bool:
    made = model(lambda g, x: g.ArgMax(x, axis=0))
    return tied_counts.is_of_tied_scores(made, "y", [FEED], [np.array([5])], [np.array([4])], 1e9)


def of_order() -> bool:
    exact, target = {"y": X.astype(np.float64)}, {"y": X * np.float32(1 + 1e-4)}
    runs = RunOutputs({"float32": [{"y": X}], "float64": [exact]}, [target], [exact])
    row = OutputVerdict("y", FAIL, error=1e-4, floor=1e-5, twin=0.0, sets=[SetErrors(1e-4, 1e-5, 1e-4)])
    verdict = Verdict(FAIL, outputs=[row], guilty="backend")
    floors.excuse_order(verdict, model(lambda g, x: g.Neg(x)), [FEED], runs)
    return verdict.status != FAIL


def explained() -> bool:
    exact, own = np.ones(6), np.ones(6)
    own[0] += 1e-3
    return sensitive.unexplained_error(model(lambda g, x: g.Neg(x)), "y", FEED, exact, own) < 0.5e-3


def small_of_order() -> bool:
    runs = RunOutputs({"float32": [{"y": X}], "float64": [{"y": X}]}, [{"y": X}], [{"y": X}])
    judge = _Judge(model(lambda g, x: g.Neg(x)), [FEED], runs, lambda feeds: [], steps=False, stored="")
    part = _Part(np.ones(6, bool), _Errors(1.0, 1.0), _Errors(), 2.0**-24, 0.0)
    return judge._is_of_order(part, _Errors(1e-3, 1e-3), X.astype(np.float64), 0, "y")


@pytest.mark.parametrize(
    ("room", "ask"),
    [(flipped_steps, flipped), (tied_counts, tied), (floors, of_order), (sensitive, explained),
     (small_elements, small_of_order)],
)  # fmt: skip
def test_what_a_minute_does_not_explain_is_not_excused(room: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    @contextlib.contextmanager
    def limited_time(seconds: float) -> Iterator[None]:
        asked.append(seconds)
        yield
        raise ResourceLimit("too long")

    monkeypatch.setattr(room, "limited_time", limited_time)
    assert not ask()
    assert asked == [60.0]
