"""The rules of `frontends/tensorflow/lite/ops/recurrent.py` against ai-edge-litert."""

from __future__ import annotations

import numpy as np
import pytest

from convert.errors import Unsupported
from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case
from tests.frontends.tensorflow.lite.ops.state_support import check_steps
from tests.support.cases import Case, f32, params


def _lstm_inputs(x: np.ndarray, *, coupled: bool = False, peepholes: bool = False) -> list[object]:
    """Return the 24 inputs of an LSTM; the input gate may be left out, and is then one minus the forget gate."""
    gates = [None if coupled and k == 0 else constant(f32(H, N, low=-1 - k / 9)) for k in range(4)]
    gates += [None if coupled and k == 0 else constant(f32(H, H, low=-1 - k / 9)) for k in range(4)]
    looks = [constant(f32(H, low=-1 - k / 9)) if peepholes else None for k in range(3)]
    biases = [None if coupled and k == 0 else constant(f32(H, low=-1 - k / 9)) for k in range(4)]
    states = [Result((B, H), variable=True), Result((B, H), variable=True)]
    return [x, *gates, *looks, *biases, None, None, *states]


def _lstm(time_major: bool, *, coupled: bool = False, peepholes: bool = False, clip: float = 0.0) -> object:
    """An LSTM layer."""
    steps = f32(T, B, N) if time_major else f32(B, T, N)
    inputs = _lstm_inputs(steps, coupled=coupled, peepholes=peepholes)
    options = {"fusedActivationFunction": 4, "timeMajor": time_major, "cellClip": clip}
    make = handmade("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [Result((*steps.shape[:2], H))],
                    ("UnidirectionalSequenceLSTM", options))  # fmt: skip
    return file_case("UNIDIRECTIONAL_SEQUENCE_LSTM", make, steps)


def _rnn(time_major: bool, activation: int) -> object:
    steps = f32(T, B, N) if time_major else f32(B, T, N)
    inputs = [steps, constant(f32(H, N)), constant(f32(H, H)), constant(f32(H)), Result((B, H), variable=True)]
    options = {"fusedActivationFunction": activation, "timeMajor": time_major}
    make = handmade("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, [Result((*steps.shape[:2], H))], ("SequenceRNN", options))
    return file_case("UNIDIRECTIONAL_SEQUENCE_RNN", make, steps)


def _basic_lstm(**options: object) -> object:
    """Return one step, which gets the results of the previous step."""
    x, before, cell = f32(B, N), f32(B, H, low=-0.7), f32(B, H, low=-1.3)
    inputs = [x, before, constant(f32(4 * H, N + H)), constant(f32(4 * H)), cell]
    results = [Result((B, H)), Result((B, H)), Result((B, N + H)), Result((B, 4 * H))]
    make = handmade("LSTM", inputs, results, ("LSTM", {"fusedActivationFunction": 4, "kernelType": 1, **options}))
    return file_case("LSTM", make, x, before, cell)


T, B, N, H = 3, 2, 4, 5

ROWS = [
    _lstm(True),
    _lstm(False),
    _lstm(False, coupled=True),
    _lstm(True, peepholes=True),
    _lstm(False, clip=10.0),
    _lstm(True, clip=float(T)),
    _rnn(True, 4),
    _rnn(False, 1),
    _basic_lstm(),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)


@pytest.mark.parametrize("time_major", [True, False])
def test_an_lstm_that_may_reach_its_clip_is_refused(time_major: bool) -> None:
    with pytest.raises(Unsupported, match=r"clips its cells at 2\.5"):
        check(_lstm(time_major, clip=2.5))


@pytest.mark.parametrize("options", [{"cellClip": 0.5}, {"projClip": 0.5}, {"fusedActivationFunction": 1}], ids=str)
def test_what_the_basic_lstm_has_no_rule_for_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(Unsupported, match="a basic LSTM that clips"):
        check(_basic_lstm(**options))


def _steps(operator: str, inputs: list[object], results: list[Result], options: tuple[str, dict[str, object]]) -> Case:
    """Return a row of several calls, each with other numbers; `inputs` has one array, the input."""
    first = next(a for a in inputs if isinstance(a, np.ndarray))
    calls = [first, first * -0.5, f32(*first.shape, low=-3.0), f32(*first.shape, low=0.5)]
    states = sum(isinstance(part, Result) and part.variable for part in inputs)
    return Case(operator, (handmade(operator, inputs, results, options), *calls), {"states": states})


def _svdf(rank: int, activation: int, *, bias: bool) -> Case:
    units, memory = 3, 4
    inputs = [
        *(f32(B, N), constant(f32(units * rank, N)), constant(f32(units * rank, memory))),
        constant(f32(units)) if bias else None,
        Result((B, units * rank * memory), variable=True),
    ]
    return _steps("SVDF", inputs, [Result((B, units))],
                  ("SVDF", {"rank": rank, "fusedActivationFunction": activation}))  # fmt: skip


def _one_lstm(*, coupled: bool = False, peepholes: bool = False) -> Case:
    inputs = _lstm_inputs(f32(B, N), coupled=coupled, peepholes=peepholes)
    return _steps("LSTM", inputs, [Result((B, H))], ("LSTM", {"fusedActivationFunction": 4}))


STEPS = [
    _svdf(1, 0, bias=True),
    _svdf(2, 1, bias=False),
    _steps("RNN", [f32(B, N), constant(f32(H, N)), constant(f32(H, H)), constant(f32(H)),
                   Result((B, H), variable=True)], [Result((B, H))], ("RNN", {"fusedActivationFunction": 4})),
    _one_lstm(),
    _one_lstm(coupled=True),
    _one_lstm(peepholes=True),
]  # fmt: skip


@pytest.mark.parametrize("row", params(STEPS))
def test_calls_in_a_row(row: Case) -> None:
    make, *calls = row.inputs
    check_steps(make(), calls, row.attributes["states"], row.operator)
