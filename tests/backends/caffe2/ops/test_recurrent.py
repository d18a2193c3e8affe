"""RNN, GRU and LSTM, which Caffe2 has no rules for, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import Nets, Row, both, check, weight
from tests.support.cases import case, f32


def layer(operator: str, gates: int, directions: int = 1, hidden: int = 4, size: int = 3) -> list:
    """The weights of a recurrent layer."""
    return [
        weight(f32(directions, gates * hidden, size, low=-0.7, high=0.7)),
        weight(f32(directions, gates * hidden, hidden, low=-0.7, high=0.7)),
    ]


def bias(gates: int, directions: int = 1, hidden: int = 4) -> object:
    return weight(f32(directions, 2 * gates * hidden))


X = f32(5, 2, 3)
LENGTHS = np.array([5, 3], np.int32)

ROWS = both(
    [
        *(
            case(
                name, X, *layer(name, gates, count), bias(gates, count), hidden_size=4, direction=way, outputs=n
            ).named(way)
            for name, gates, n in (("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3))
            for way, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2))
        ),
        *(
            case(
                name, X, *layer(name, gates, 2), None, LENGTHS, hidden_size=4, direction="bidirectional", outputs=n
            ).named("lengths")
            for name, gates, n in (("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3))
        ),
        case("RNN", X, *layer("RNN", 1), hidden_size=4, activations=["Relu"], clip=0.5, outputs=2).named("relu"),
        *(
            case("RNN", X, *layer("RNN", 1), hidden_size=4, activations=[name], outputs=2).named(name)
            for name in ("Elu", "HardSigmoid", "LeakyRelu", "Softsign", "Softplus")
        ),
        *(
            case(
                "RNN",
                X,
                *layer("RNN", 1),
                hidden_size=4,
                activations=[name],
                outputs=2,
                activation_alpha=[0.5],
                activation_beta=[0.25],
            ).named(name)
            for name in ("Affine", "ScaledTanh", "ThresholdedRelu")
        ),
        case("GRU", X, *layer("GRU", 3), bias(3), hidden_size=4, linear_before_reset=1, outputs=2).named("reset"),
        case("GRU", X, *layer("GRU", 3), None, None, f32(1, 2, 4), hidden_size=4, outputs=2).named("initial"),
        case(
            "LSTM",
            X,
            *layer("LSTM", 4),
            bias(4),
            None,
            f32(1, 2, 4),
            f32(1, 2, 4),
            weight(f32(1, 12)),
            hidden_size=4,
            outputs=3,
        ).named("peepholes"),
        case("LSTM", X, *layer("LSTM", 4), bias(4), hidden_size=4, clip=0.4, outputs=3).named("clip"),
        case("LSTM", f32(70, 2, 3), *layer("LSTM", 4), bias(4), hidden_size=4, outputs=3).named("long"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
