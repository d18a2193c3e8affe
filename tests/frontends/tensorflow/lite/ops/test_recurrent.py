"""The rules of `frontends/tensorflow/lite/ops/recurrent.py` against ai-edge-litert."""

from __future__ import annotations

import pytest

from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade
from tests.frontends.tensorflow.lite.ops.lite_support import check, file_case
from tests.support.cases import Case, f32, params


def _lstm(time_major: bool, *, coupled: bool = False, peepholes: bool = False) -> object:
    """An LSTM layer, of which the input gate may be one minus the forget gate."""
    steps = f32(T, B, N) if time_major else f32(B, T, N)
    gates = [None if coupled and k == 0 else constant(f32(H, N, low=-1 - k / 9)) for k in range(4)]
    gates += [None if coupled and k == 0 else constant(f32(H, H, low=-1 - k / 9)) for k in range(4)]
    looks = [constant(f32(H, low=-1 - k / 9)) if peepholes else None for k in range(3)]
    biases = [None if coupled and k == 0 else constant(f32(H, low=-1 - k / 9)) for k in range(4)]
    states = [Result((B, H), variable=True), Result((B, H), variable=True)]
    inputs = [steps, *gates, *looks, *biases, None, None, *states]
    options = {"fusedActivationFunction": 4, "timeMajor": time_major}
    make = handmade("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [Result((*steps.shape[:2], H))],
                    ("UnidirectionalSequenceLSTM", options))  # fmt: skip
    return file_case("UNIDIRECTIONAL_SEQUENCE_LSTM", make, steps)


def _rnn(time_major: bool, activation: int) -> object:
    steps = f32(T, B, N) if time_major else f32(B, T, N)
    inputs = [steps, constant(f32(H, N)), constant(f32(H, H)), constant(f32(H)), Result((B, H), variable=True)]
    options = {"fusedActivationFunction": activation, "timeMajor": time_major}
    make = handmade("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, [Result((*steps.shape[:2], H))], ("SequenceRNN", options))
    return file_case("UNIDIRECTIONAL_SEQUENCE_RNN", make, steps)


T, B, N, H = 3, 2, 4, 5

ROWS = [
    _lstm(True),
    _lstm(False),
    _lstm(False, coupled=True),
    _lstm(True, peepholes=True),
    _rnn(True, 4),
    _rnn(False, 1),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row)
