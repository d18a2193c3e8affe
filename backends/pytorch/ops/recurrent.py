"""RNN, GRU and LSTM: PyTorch's own layers where they compute the same, else a step for each time."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from convert.errors import Unsupported
from convert.semantics.activations import activations as activations_of

from ..rules import onnx_op

_PLAIN = {"Relu": F.relu, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Softsign": F.softsign, "Softplus": F.softplus}
_WITH_NUMBERS = {
    "Affine": lambda x, alpha, beta: alpha * x + beta,
    "LeakyRelu": lambda x, alpha, beta: F.leaky_relu(x, alpha),
    "ThresholdedRelu": lambda x, alpha, beta: torch.where(x > alpha, x, torch.zeros_like(x)),
    "ScaledTanh": lambda x, alpha, beta: alpha * torch.tanh(beta * x),
    "HardSigmoid": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0, 1),
    "Elu": lambda x, alpha, beta: F.elu(x, alpha),
}


_STEPS = "a number of steps that is not known before: torch.export writes recurrent layers out step by step"
_FIX = "give the number of steps: --input 'x:float32[batch,16,8]'"
for _operator in ("RNN", "GRU", "LSTM"):
    onnx_op.limit(_operator, _STEPS)


def _functions(operator: Any, names: Any, alphas: Any, betas: Any, directions: Any) -> Any:
    return [
        [_PLAIN.get(f.name) or partial(_WITH_NUMBERS[f.name], alpha=f.alpha, beta=f.beta) for f in found]
        for found in activations_of(operator, names, alphas, betas, directions)
    ]


def _ordered(w: Any, order: Any) -> Any:
    """Gates [gates · hidden, …] in another order."""
    parts = torch.chunk(w, len(order), 0)
    return torch.cat([parts[i] for i in order], 0)


def _as_layer(
    function: Any, x: Any, w: Any, r: Any, b: Any, states: Any, order: Any, directions: Any, direction: Any, layout: Any
) -> Any:
    """The layer of PyTorch: all outputs [time, directions, batch, hidden] and the last states."""
    x = x.transpose(0, 1) if layout else x
    if not isinstance(x.shape[0], int):  # torch.export writes the steps out, as many as its example has
        raise Unsupported(_STEPS, hint=_FIX)
    states = [s.transpose(0, 1) for s in states] if layout else states
    if direction == "reverse":
        x = x.flip(0)
    weights = []
    for d in range(directions):
        weights += [_ordered(w[d], order), _ordered(r[d], order)]
        if b is not None:
            both = torch.chunk(b[d], 2, 0)
            weights += [_ordered(both[0], order), _ordered(both[1], order)]
    hidden = tuple(s.contiguous() for s in states)
    y, *last = function(
        x, hidden if len(hidden) > 1 else hidden[0], weights, b is not None, 1, 0.0, False, directions > 1, False
    )
    steps, batch = x.shape[:2]
    y = y.reshape(steps, batch, directions, -1).transpose(1, 2)
    y = y.flip(0) if direction == "reverse" else y
    return _laid_out(y, last, layout)


def _laid_out(y: Any, last: Any, layout: Any) -> Any:
    if layout:
        return y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in last)
    return y, *last


def _by_steps(x: Any, lengths: Any, states: Any, cell: Any, direction: Any, layout: Any) -> Any:
    """A step of `cell(d)(x_t, *states)` for each time. Raises `Unsupported` where their number is not known."""
    x = x.transpose(0, 1) if layout else x
    states = [s.transpose(0, 1) for s in states] if layout else states
    steps = x.shape[0]
    if not isinstance(steps, int):
        raise Unsupported(_STEPS, hint=_FIX)
    every, last = [], []
    for d in range(2 if direction == "bidirectional" else 1):
        backwards = direction == "reverse" or d == 1
        rows = _reversed(x, lengths) if backwards else x
        step, before, shown = cell(d), [s[d] for s in states], []
        for i in range(steps):
            after = step(rows[i], *before)
            if lengths is None:
                shown.append(after[0])
            else:
                alive = (i < lengths)[:, None]
                shown.append(torch.where(alive, after[0], torch.zeros_like(after[0])))
                after = [torch.where(alive, a, b) for a, b in zip(after, before, strict=True)]
            before = after
        y = torch.stack(shown) if shown else x.new_zeros([0, *states[0].shape[1:]])
        every.append(_reversed(y, lengths) if backwards else y)
        last.append(before)
    return _laid_out(torch.stack(every, 1), [torch.stack(parts) for parts in zip(*last, strict=True)], layout)


def _reversed(x: Any, lengths: Any) -> Any:
    if lengths is None:
        return x.flip(0)
    time = torch.arange(x.shape[0])[:, None]
    count = lengths.to(torch.int64)[None]
    places = torch.where(time < count, count - 1 - time, time)
    return torch.gather(x, 0, places[..., None].expand(x.shape))


def _start(x: Any, given: Any, directions: Any, hidden: Any, layout: Any) -> Any:
    if given is not None:
        return given
    batch = x.shape[0 if layout else 1]
    return x.new_zeros([batch, directions, hidden] if layout else [directions, batch, hidden])


def _bias(b: Any, d: Any, r: Any, gates: Any, hidden: Any) -> Any:
    if b is None:
        zero = r.new_zeros([gates * hidden])
        return zero, zero
    return b[d][: gates * hidden], b[d][gates * hidden :]


@onnx_op("RNN")
def rnn(t, x, w, r, b, sequence_lens, initial_h, *, activation_alpha, activation_beta, activations, clip, direction,
        hidden_size, layout):  # fmt: skip
    hidden, directions = r.shape[-1], r.shape[0]
    states = [_start(x, initial_h, directions, hidden, layout)]
    found = activations_of("RNN", activations, activation_alpha, activation_beta, directions)
    names = {f.name for one in found for f in one}
    if sequence_lens is None and clip is None and len(names) == 1 and names <= {"Tanh", "Relu"}:
        layer = torch.rnn_tanh if names == {"Tanh"} else torch.rnn_relu
        return _as_layer(layer, x, w, r, b, states, (0,), directions, direction, layout)
    functions = _functions("RNN", activations, activation_alpha, activation_beta, directions)

    def cell(d: Any) -> Any:
        (f,), (wb, rb) = functions[d], _bias(b, d, r, 1, hidden)

        def step(x_t: Any, h: Any) -> Any:
            return [f(_clipped(x_t @ w[d].T + h @ r[d].T + wb + rb, clip))]

        return step

    return _by_steps(x, sequence_lens, states, cell, direction, layout)


def _clipped(x: Any, clip: Any) -> Any:
    return x if clip is None else torch.clamp(x, -clip, clip)


@onnx_op("GRU")
def gru(t, x, w, r, b, sequence_lens, initial_h, *, activation_alpha, activation_beta, activations, clip, direction,
        hidden_size, layout, linear_before_reset):  # fmt: skip
    hidden, directions = r.shape[-1], r.shape[0]
    states = [_start(x, initial_h, directions, hidden, layout)]
    usual = _names(activations, "GRU") == {("Sigmoid", "Tanh")}
    if sequence_lens is None and clip is None and usual and linear_before_reset:
        # ONNX has the gates as update, reset, new; PyTorch as reset, update, new.
        return _as_layer(torch.gru, x, w, r, b, states, (1, 0, 2), directions, direction, layout)
    functions = _functions("GRU", activations, activation_alpha, activation_beta, directions)

    def cell(d: Any) -> Any:
        (f, g), (wb, rb) = functions[d], _bias(b, d, r, 3, hidden)

        def step(x_t: Any, h: Any) -> Any:
            a = torch.chunk(x_t @ w[d].T + wb, 3, -1)
            weights, bias = torch.chunk(r[d], 3, 0), torch.chunk(rb, 3, 0)
            z = f(_clipped(a[0] + h @ weights[0].T + bias[0], clip))
            reset = f(_clipped(a[1] + h @ weights[1].T + bias[1], clip))
            own = h @ weights[2].T + bias[2] if linear_before_reset else (reset * h) @ weights[2].T + bias[2]
            own = reset * own if linear_before_reset else own
            new = g(_clipped(a[2] + own, clip))
            return [(1 - z) * new + z * h]

        return step

    return _by_steps(x, sequence_lens, states, cell, direction, layout)


def _names(activations: Any, operator: Any) -> Any:
    """The activation functions of each direction, as a set of tuples."""
    directions = 1 if not activations else max(1, len(activations) // {"GRU": 2, "LSTM": 3}[operator])
    found = activations_of(operator, activations, None, None, directions)
    return {tuple(f.name for f in one) for one in found}


@onnx_op("LSTM")
def lstm(t, x, w, r, b, sequence_lens, initial_h, initial_c, p, *, activation_alpha, activation_beta, activations, clip,
         direction, hidden_size, input_forget, layout):  # fmt: skip
    hidden, directions = r.shape[-1], r.shape[0]
    states = [_start(x, v, directions, hidden, layout) for v in (initial_h, initial_c)]
    usual = _names(activations, "LSTM") == {("Sigmoid", "Tanh", "Tanh")}
    if sequence_lens is None and clip is None and p is None and not input_forget and usual:
        # ONNX has the gates as input, output, forget, cell; PyTorch as input, forget, cell, output.
        return _as_layer(torch.lstm, x, w, r, b, states, (0, 2, 3, 1), directions, direction, layout)
    functions = _functions("LSTM", activations, activation_alpha, activation_beta, directions)

    def cell(d: Any) -> Any:
        (f, g, h_), (wb, rb) = functions[d], _bias(b, d, r, 4, hidden)
        peep = [0, 0, 0] if p is None else torch.chunk(p[d], 3, 0)

        def step(x_t: Any, h: Any, c: Any) -> Any:
            i, o, forget, new = torch.chunk(x_t @ w[d].T + h @ r[d].T + wb + rb, 4, -1)
            i = f(_clipped(i + peep[0] * c, clip))
            forget = 1 - i if input_forget else f(_clipped(forget + peep[2] * c, clip))
            c_new = forget * c + i * g(_clipped(new, clip))
            o = f(_clipped(o + peep[1] * c_new, clip))
            return [o * h_(c_new), c_new]

        return step

    return _by_steps(x, sequence_lens, states, cell, direction, layout)
