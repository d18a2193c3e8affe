"""Reference kernels of RNN, GRU and LSTM: both directions, sequence lengths, peepholes, clipping, all activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.reference.kernels.math import sigmoid
from convert.reference.table import kernel

Array = Any
Function = Callable[[Array], Array]
Step = Callable[[Array, tuple[Array, ...]], tuple[Array, ...]]
"""Maps the input product x·Wᵀ [batch, gates × hidden] of one time step and the states to new states, the output
first.
"""

_PROJECTED = 1 << 26
"""Largest size in bytes of the products of all time steps with the input's weights."""


@kernel("RNN")
def rnn(
    count: int,
    x: Array,
    w: Array,
    r: Array,
    b: Array = None,
    lengths: Array = None,
    h: Array = None,
    *,
    activation_alpha: Any,
    activation_beta: Any,
    activations: Any,
    clip: Any,
    direction: str,
    hidden_size: Any,
    layout: int,
) -> Any:
    """RNN-22: h' = f(x·Wᵀ + h·Rᵀ + Wb + Rb)."""
    functions = _activations(activations or ["Tanh"] * len(w), activation_alpha, activation_beta)

    def step(d: int) -> Step:
        def advance(given: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            total = given + state[0] @ r[d].T + _bias(b, d, x)
            return (functions[d](_clip(total, clip)),)

        return advance

    return _run_directions(count, x, w, [step(d) for d in range(len(w))], lengths, (h,), direction, r.shape[-1], layout)


@kernel("GRU")
def gru(
    count: int,
    x: Array,
    w: Array,
    r: Array,
    b: Array = None,
    lengths: Array = None,
    h: Array = None,
    *,
    activation_alpha: Any,
    activation_beta: Any,
    activations: Any,
    clip: Any,
    direction: str,
    hidden_size: Any,
    layout: int,
    linear_before_reset: int,
) -> Any:
    """GRU-22, with gates in the order z, r, h."""
    functions = _activations(activations or ["Sigmoid", "Tanh"] * len(w), activation_alpha, activation_beta)
    size = r.shape[-1]

    def step(d: int) -> Step:
        f, g = functions[2 * d : 2 * d + 2]
        biases = np.zeros(6 * size, x.dtype) if b is None else b[d]
        wb, rb = biases[: 3 * size], biases[3 * size :]

        def advance(given: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            before, given = state[0], given + wb
            gates = f(_clip(given[:, : 2 * size] + before @ r[d][: 2 * size].T + rb[: 2 * size], clip))
            update, reset = gates[:, :size], gates[:, size:]
            last = r[d][2 * size :].T
            if linear_before_reset:
                recurrent = reset * (before @ last + rb[2 * size :])
            else:
                recurrent = (reset * before) @ last + rb[2 * size :]
            hidden = g(_clip(given[:, 2 * size :] + recurrent, clip))
            return ((1 - update) * hidden + update * before,)

        return advance

    return _run_directions(count, x, w, [step(d) for d in range(len(w))], lengths, (h,), direction, size, layout)


def _peeping(gate: Array, weights: Array | None, cell: Array) -> Array:
    return gate if weights is None else gate + weights * cell


@kernel("LSTM")
def lstm(
    count: int,
    x: Array,
    w: Array,
    r: Array,
    b: Array = None,
    lengths: Array = None,
    h: Array = None,
    c: Array = None,
    p: Array = None,
    *,
    activation_alpha: Any,
    activation_beta: Any,
    activations: Any,
    clip: Any,
    direction: str,
    hidden_size: Any,
    input_forget: int,
    layout: int,
) -> Any:
    """LSTM-22, with gates in the order i, o, f, c, and peepholes in the order i, o, f."""
    functions = _activations(activations or ["Sigmoid", "Tanh", "Tanh"] * len(w), activation_alpha, activation_beta)
    size = r.shape[-1]

    def step(d: int) -> Step:
        f, g, out = functions[3 * d : 3 * d + 3]
        # None avoids a product with zeros, which turns an infinite state into NaN.
        peep_i, peep_o, peep_f = (None,) * 3 if p is None else np.split(p[d], 3)

        def advance(given: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            hidden, cell = state
            i, o, forget, new = np.split(given + hidden @ r[d].T + _bias(b, d, x), 4, axis=1)
            i = f(_clip(_peeping(i, peep_i, cell), clip))
            forget = 1 - i if input_forget else f(_clip(_peeping(forget, peep_f, cell), clip))
            cell = forget * cell + i * g(_clip(new, clip))
            return f(_clip(_peeping(o, peep_o, cell), clip)) * out(cell), cell

        return advance

    return _run_directions(count, x, w, [step(d) for d in range(len(w))], lengths, (h, c), direction, size, layout)


def _run_directions(
    count: int,
    x: Array,
    w: Array,
    steps: Sequence[Step],
    lengths: Array,
    initial: tuple[Array, ...],
    direction: str,
    size: int,
    layout: int,
) -> Any:
    """Run the steps of each direction over time; beyond a sequence's end, states stay and outputs are zero."""
    if layout:
        x = np.swapaxes(x, 0, 1)
        initial = tuple(None if s is None else np.swapaxes(s, 0, 1) for s in initial)
    time, batch = x.shape[:2]
    ends = np.full(batch, time) if lengths is None else np.asarray(lengths)
    outputs = np.zeros((time, len(steps), batch, size), x.dtype)
    finals: list[tuple[Array, ...]] = []
    for d, step in enumerate(steps):
        state = tuple(np.zeros((batch, size), x.dtype) if s is None else s[d] for s in initial)
        backwards = direction == "reverse" or d == 1
        project = _projection(x, w[d])
        for t in range(time):
            # A reversed sequence starts at its own end, not at the end of the longest sequence.
            position = ends - 1 - t if backwards else np.full(batch, t)
            alive = (t < ends)[:, None]
            rows = np.arange(batch)
            new = step(project(np.maximum(position, 0), rows), state)
            state = tuple(np.where(alive, a, s) for a, s in zip(new, state, strict=True))
            live = alive[:, 0]
            outputs[position[live], d, rows[live]] = state[0][live]
        finals.append(state)
    last = [np.stack([f[i] for f in finals]).astype(x.dtype) for i in range(len(initial))]
    if layout:
        outputs, last = outputs.transpose(2, 0, 1, 3), [np.swapaxes(s, 0, 1) for s in last]
    return tuple([outputs, *last][:count])


def _projection(x: Array, w: Array) -> Callable[[Array, Array], Array]:
    """Return a function that gives x·Wᵀ at given times and rows.

    One product serves all times, unless the weights are a class that rounds what is multiplied.
    """
    if type(w) is np.ndarray and x.shape[0] * x.shape[1] * w.shape[0] * x.dtype.itemsize <= _PROJECTED:
        whole = x @ w.T
        return lambda times, rows: whole[times, rows]
    return lambda times, rows: x[times, rows] @ w.T


def _bias(b: Array, d: int, x: Array) -> Array:
    return np.zeros((), x.dtype) if b is None else b[d][: b.shape[1] // 2] + b[d][b.shape[1] // 2 :]


def _clip(values: Array, clip: Any) -> Array:
    return values if not clip else np.clip(values, -clip, clip)


_DEFAULTS = {
    "LeakyRelu": (0.01, 0.0),
    "ThresholdedRelu": (1.0, 0.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, 0.0),
    "ScaledTanh": (1.0, 1.0),
    "Affine": (1.0, 0.0),
}
"""Alpha and beta if a node omits them (ONNX Operators.md, activations; those without a default are neutral)."""


_NAMES = {n.lower(): n for n in (*_DEFAULTS, "Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")}


def _activations(names: Sequence[str], alphas: Any, betas: Any) -> list[Function]:
    alphas, betas = list(alphas or []), list(betas or [])
    made = []
    for name in names:
        known = _NAMES.get(name.lower(), name)
        default = _DEFAULTS.get(known)
        alpha = alphas.pop(0) if alphas and default else (default or (0.0, 0.0))[0]
        takes_beta = known in ("HardSigmoid", "ScaledTanh", "Affine")
        beta = betas.pop(0) if betas and takes_beta else (default or (0.0, 0.0))[1]
        made.append(_activation(known, alpha, beta))
    return made


def _expit(values: Array) -> Array:
    if type(values) is np.ndarray:
        return sigmoid(1, values)
    from scipy import special

    return special.expit(values)  # a single ufunc: weights that round intermediate results must see one operation


def _activation(name: str, alpha: float, beta: float) -> Function:
    table: dict[str, Function] = {
        "Relu": lambda v: np.maximum(v, 0),
        "Tanh": np.tanh,
        "Sigmoid": _expit,
        "Softsign": lambda v: v / (1 + np.abs(v)),
        "Softplus": lambda v: np.logaddexp(0, v),
        "Affine": lambda v: alpha * v + beta,
        "LeakyRelu": lambda v: np.where(v >= 0, v, alpha * v),
        "ThresholdedRelu": lambda v: np.where(v >= alpha, v, 0),
        "ScaledTanh": lambda v: alpha * np.tanh(beta * v),
        "HardSigmoid": lambda v: np.clip(alpha * v + beta, 0, 1),
        "Elu": lambda v: np.where(v >= 0, v, alpha * np.expm1(np.minimum(v, 0))),
    }
    if name not in table:
        raise Unsupported(f"the activation {name!r} is not one of ONNX's")
    return table[name]
