"""RNN, GRU and LSTM, which TensorFlow has no rules for (`convert/legalize/recurrent.py`), against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, params


def rnn(
    operator: str,
    gates: int,
    directions: int = 1,
    layout: int = 0,
    peepholes: bool = False,
    lengths: bool = False,
    **attributes: Any,
):
    """Return a recurrent layer over 5 steps of 3 sequences of 4 numbers, with 6 hidden units.

    The recurrent weights are below 1/2, so that steps do not amplify the rounding errors of those before.
    """
    x = f32(3, 5, 4) if layout else f32(5, 3, 4)
    state = f32(3, directions, 6) if layout else f32(directions, 3, 6)
    inputs = [
        x,
        const(f32(directions, gates * 6, 4)),
        const(f32(directions, gates * 6, 6, low=-0.5, high=0.5)),
        const(f32(directions, gates * 12)),
        np.array([5, 2, 3], np.int32) if lengths else None,
        state,
    ]
    if operator == "LSTM":
        inputs += [state, const(f32(directions, 18)) if peepholes else None]
    return case(
        operator,
        *inputs,
        hidden_size=6,
        direction="bidirectional" if directions == 2 else "forward",
        layout=layout,
        _outputs=3 if operator == "LSTM" else 2,
        **attributes,
    )


ROWS = [
    *(
        rnn(name, gates, directions, lengths=lengths)
        for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
        for directions, lengths in ((1, False), (2, True))
    ),
    rnn("LSTM", 4, peepholes=True),
    rnn("LSTM", 4, 2, clip=0.5),
    rnn("GRU", 3, linear_before_reset=1),
    rnn("LSTM", 4, input_forget=1),
    case("LSTM", f32(5, 3, 4), f32(1, 24, 4), const(f32(1, 24, 6)), hidden_size=6, direction="reverse", _outputs=3),
    rnn("RNN", 1, activations=["LeakyRelu"], activation_alpha=[0.2]),
    rnn("GRU", 3, activations=["HardSigmoid", "Softsign"]),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS, ("GRU", "LSTM", "RNN")))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
