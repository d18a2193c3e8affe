"""Activation functions of RNN, GRU and LSTM: names, defaults, alphas and betas (opset 22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convert.errors import Unsupported

DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
"""Default functions of one direction: of the gates (except RNN), of the new value, and of the output (LSTM)."""

ALPHAS = {"Affine": 1.0, "Elu": 1.0, "HardSigmoid": 0.2, "LeakyRelu": 0.01, "ScaledTanh": 1.0, "ThresholdedRelu": 1.0}
"""Functions with an alpha, and its default; if ONNX leaves the default open, it is neutral."""

BETAS = {"Affine": 0.0, "HardSigmoid": 0.5, "ScaledTanh": 1.0}
"""Functions with a beta, and its default."""

_NAMES = {name.lower(): name for name in (*ALPHAS, "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")}


@dataclass(frozen=True)
class Activation:
    """One function by its ONNX name; alpha and beta are zero if it has none."""

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
    """Return the functions of each direction of an RNN, GRU or LSTM.

    Names are matched case-insensitively. Alphas and betas are assigned in order to the functions that have one. Raises
    `Unsupported` for an unknown name and for a wrong number of names.
    """
    default = DEFAULTS[operator]
    if names and len(names) != len(default) * directions:
        raise Unsupported(f"{len(names)} activations in {directions} directions of {len(default)} each")
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
