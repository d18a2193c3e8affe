"""The rules of `frontends/pytorch/ops/recurrent.py` against PyTorch."""

from __future__ import annotations

import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, layers
from tests.support.cases import Case, case, f32, params


def _recurrent(
    name: str,
    gates: int,
    states: int,
    layers: int = 1,
    both: bool = False,
    bias: bool = True,
    batch_first: bool = False,
):
    directions = 2 if both else 1
    weights = []
    for layer in range(layers):
        width = 3 if layer == 0 else 4 * directions
        for direction in range(directions):
            shapes = [(gates * 4, width), (gates * 4, 4), *([(gates * 4,), (gates * 4,)] if bias else [])]
            weights += [f32(*s, low=-0.5 - direction, high=0.5) for s in shapes]
    state = f32(layers * directions, 2, 4)
    hx = [state, state + 0.1] if states == 2 else state
    x = f32(2, 5, 3) if batch_first else f32(5, 2, 3)
    return case(name, x, hx, weights, bias, layers, 0.0, False, both, batch_first)


ROWS = [
    *layers(
        _recurrent("lstm", 4, 2),
        _recurrent("lstm.input", 4, 2, layers=2, both=True),
        _recurrent("lstm.input", 4, 2, bias=False, batch_first=True).named("no bias"),
        _recurrent("gru", 3, 1),
        _recurrent("gru.input", 3, 1, layers=2, both=True),
        _recurrent("gru.input", 3, 1, bias=False, batch_first=True).named("no bias"),
        _recurrent("rnn_tanh", 1, 1, both=True),
        _recurrent("rnn_relu", 1, 1),
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
