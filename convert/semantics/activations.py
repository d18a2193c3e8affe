"""Activation functions of RNN, GRU and LSTM: names, defaults, and which numbers belong to which (ONNX RNN-22, GRU-22,
LSTM-22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convert.errors import Unsupported

DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
"""The functions of one direction where a node names none: of all gates but the new value's, of that, of the output."""

ALPHAS = {"Affine": 1.0, "Elu": 1.0, "HardSigmoid": 0.2, "LeakyRelu": 0.01, "ScaledTanh": 1.0, "ThresholdedRelu": 1.0}
"""Functions with an alpha, and what it is where the node does not say; what ONNX leaves open is neutral."""

BETAS = {"Affine": 0.0, "HardSigmoid": 0.5, "ScaledTanh": 1.0}
"""The same for beta."""

_NAMES = {name.lower(): name for name in (*ALPHAS, "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")}


@dataclass(frozen=True)
class Activation:
    """One function by ONNX's name; alpha and beta are zero where it has none."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


def activations(
    operator: str,
    names: Sequence[str] | None,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    directions: int,
) -> list[list[Activation]]:
    """The functions of each direction of an RNN, GRU or LSTM. Names are matched whatever their case.

    Alphas and betas are used up in order by the functions that take one. Raises `Unsupported` for another name.
    """
    default = DEFAULTS[operator]
    alphas, betas = list(alphas or []), list(betas or [])
    made = []
    for given in names or default * directions:
        name = _NAMES.get(given.lower())
        if name is None:
            raise Unsupported(f"the activation {given!r}")
        alpha = (alphas.pop(0) if alphas else ALPHAS[name]) if name in ALPHAS else 0.0
        beta = (betas.pop(0) if betas else BETAS[name]) if name in BETAS else 0.0
        made.append(Activation(name, float(alpha), float(beta)))
    return [made[d * len(default) : (d + 1) * len(default)] for d in range(directions)]
