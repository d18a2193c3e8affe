"""RNN, GRU and LSTM: PyTorch's own layers if they compute the same, else unrolled steps or a scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from convert.graph.values import constant
from convert.semantics.activations import Activation
from convert.semantics.activations import activations as activations_of

from ..common import own_tensor
from ..rules import onnx_op

Function: TypeAlias = Callable[[Tensor], Tensor]
Step: TypeAlias = Callable[..., list[Tensor]]
"""`step(x_t [batch, input], *states [batch, hidden]) -> states`; the first state is the output of the layer."""
Cell: TypeAlias = Callable[..., Step]
"""`cell(direction, *weights of that direction) -> step`; weights that the layer lacks are None."""

_PLAIN: dict[str, Function] = {
    "Relu": F.relu,
    "Tanh": torch.tanh,
    "Sigmoid": torch.sigmoid,
    "Softsign": F.softsign,
    "Softplus": F.softplus,
}
_WITH_NUMBERS: dict[str, Callable[..., Tensor]] = {
    "Affine": lambda x, alpha, beta: alpha * x + beta,
    "LeakyRelu": lambda x, alpha, beta: F.leaky_relu(x, alpha),
    "ThresholdedRelu": lambda x, alpha, beta: torch.where(x > alpha, x, torch.zeros_like(x)),
    "ScaledTanh": lambda x, alpha, beta: alpha * torch.tanh(beta * x),
    "HardSigmoid": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0.0, 1.0),
    "Elu": lambda x, alpha, beta: F.elu(x, alpha),
}
_WRITTEN_OUT = 64
"""Maximum number of steps that are unrolled for a cell without a PyTorch layer; longer sequences use a scan."""


def _functions(found: Sequence[Sequence[Activation]]) -> list[list[Function]]:
    """Return the functions of each direction."""
    return [[_function(f) for f in one] for one in found]


def _names(found: Sequence[Sequence[Activation]]) -> set[tuple[str, ...]]:
    """Return the names of the activation functions, as a set of one tuple per direction."""
    return {tuple(f.name for f in one) for one in found}


def _function(f: Activation) -> Function:
    return _PLAIN.get(f.name) or partial(_WITH_NUMBERS[f.name], alpha=f.alpha, beta=f.beta)


def _ordered(w: Tensor, order: Sequence[int]) -> Tensor:
    """Return gates [gates · hidden, …] in another order."""
    if list(order) == sorted(order):
        return w
    parts = torch.chunk(w, len(order), 0)
    return torch.cat([parts[i] for i in order], 0)


def _as_layer(
    function: Callable[..., Sequence[Tensor]],
    x: Tensor,
    weights: Sequence[Tensor | None],
    states: list[Tensor],
    order: Sequence[int],
    direction: str,
    layout: int,
) -> tuple[Tensor, ...]:
    """Call the PyTorch layer. Returns all outputs [time, directions, batch, hidden] and the last states."""
    w, r, b = weights
    assert w is not None
    assert r is not None
    x = x.transpose(0, 1) if layout else x
    states = [s.transpose(0, 1) for s in states] if layout else states
    if direction == "reverse":
        x = x.flip(0)
    directions = states[0].shape[0]
    own = []
    for d in range(directions):
        own += [_ordered(w[d], order), _ordered(r[d], order)]
        if b is not None:
            own += [_ordered(part, order) for part in torch.chunk(b[d], 2, 0)]
    start = tuple(s.contiguous() for s in states)
    hx = start if len(start) > 1 else start[0]
    y, *last = function(x, hx, own, b is not None, 1, 0.0, False, directions > 1, False)
    y = y.reshape(x.shape[0], x.shape[1], directions, -1).transpose(1, 2)
    return _laid_out(y.flip(0) if direction == "reverse" else y, last, layout)


def _laid_out(y: Tensor, last: Sequence[Tensor], layout: int) -> tuple[Tensor, ...]:
    if layout:
        return y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in last)
    return y, *last


def _by_steps(
    x: Tensor,
    lengths: Tensor | None,
    states: list[Tensor],
    cell: Cell,
    weights: Sequence[Tensor | None],
    direction: str,
    layout: int,
) -> tuple[Tensor, ...]:
    """Run one step of `cell` per time. Returns the outputs [time, directions, batch, hidden] and the last states."""
    x = x.transpose(0, 1) if layout else x
    states = [s.transpose(0, 1) for s in states] if layout else states
    every, last = [], []
    for d in range(states[0].shape[0]):
        backwards = direction == "reverse" or d == 1
        rows = _reversed(x, lengths) if backwards else x
        y, after = _one_direction(rows, lengths, [s[d] for s in states], partial(cell, d),
                                  [None if w is None else w[d] for w in weights])  # fmt: skip
        every.append(_reversed(y, lengths) if backwards else y)
        last.append(after)
    return _laid_out(torch.stack(every, 1), [torch.stack(parts) for parts in zip(*last, strict=True)], layout)


def _one_direction(
    x: Tensor, lengths: Tensor | None, states: list[Tensor], cell: Cell, weights: Sequence[Tensor | None]
) -> tuple[Tensor, list[Tensor]]:
    steps, count = x.shape[0], len(states)
    if isinstance(steps, int) and steps <= _WRITTEN_OUT:
        shown = []
        step = cell(*weights)
        for i in range(steps):
            y, states = _alive(step(x[i], *states), states, None if lengths is None else i < lengths)
            shown.append(y)
        return torch.stack(shown) if shown else x.new_zeros([0, *states[0].shape]), states
    # A function called by a scan sees every tensor as an operand.
    given = [w.clone() for w in (*weights, lengths) if w is not None]

    def combine(*parts: Tensor) -> tuple[Tensor, ...]:
        own, (x_t, i), rest = parts[:count], parts[count : count + 2], iter(parts[count + 2 :])
        step = cell(*(None if w is None else next(rest) for w in weights))
        y, new = _alive(step(x_t, *own), own, None if lengths is None else i < next(rest))
        return (*(own_tensor(s) for s in new), own_tensor(y))

    found = torch.ops.higher_order.scan(
        combine, [own_tensor(s) for s in states], [x, torch.arange(steps)], tuple(given)
    )
    return found[count], list(found[:count])


def _alive(after: Sequence[Tensor], before: Sequence[Tensor], mask: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """Return a step's output and states, updated only for the sequences that have not ended."""
    if mask is None:
        return after[0], list(after)
    mask = mask[:, None]
    shown = torch.where(mask, after[0], torch.zeros_like(after[0]))
    return shown, [torch.where(mask, a, b) for a, b in zip(after, before, strict=True)]


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return x.flip(0)
    time = torch.arange(x.shape[0])[:, None]
    count = lengths.to(torch.int64)[None]
    places = torch.where(time < count, count - 1 - time, time)
    return torch.gather(x, 0, places[..., None].expand(x.shape))


def _start(x: Tensor, given: Tensor | None, r: Tensor, layout: int) -> Tensor:
    """Return the given initial state, or zeros [directions, batch, hidden]."""
    if given is not None:
        return given
    batch, directions, hidden = x.shape[0 if layout else 1], r.shape[0], r.shape[-1]
    return x.new_zeros([batch, directions, hidden] if layout else [directions, batch, hidden])


def _biases(b: Tensor | None, r: Tensor) -> tuple[Tensor, Tensor]:
    """Return the biases of the input and of the state, [gates · hidden] each."""
    if b is None:
        return r.new_zeros([r.shape[0]]), r.new_zeros([r.shape[0]])
    own, recurrent = torch.chunk(b, 2, 0)
    return own, recurrent


def _trained(t: Any, b: Tensor | None) -> Tensor | None:
    """Return the biases [directions, 2 · gates · hidden]; zero biases of the state are excluded from training.

    Both biases have the same gradient. A source with one bias (Keras, TensorFlow) would be trained at twice the rate if
    both were updated.
    """
    content = constant(t.node.inputs[3]) if b is not None else None
    if b is None or content is None:
        return b
    half = b.shape[1] // 2
    if content.numpy()[:, half:].any():
        return b
    own, recurrent = torch.chunk(b, 2, 1)
    return torch.cat([own, torch.zeros_like(recurrent)], 1)


@onnx_op("RNN")
def rnn(t, x, w, r, b, sequence_lens, initial_h, *, activation_alpha, activation_beta, activations, clip, direction,
        hidden_size, layout):  # fmt: skip
    states, b = [_start(x, initial_h, r, layout)], _trained(t, b)
    found = activations_of("RNN", activations, activation_alpha, activation_beta, r.shape[0])
    names = _names(found)
    if sequence_lens is None and clip is None and names in ({("Tanh",)}, {("Relu",)}):
        layer = torch.rnn_tanh if names == {("Tanh",)} else torch.rnn_relu
        return _as_layer(layer, x, (w, r, b), states, (0,), direction, layout)
    functions = _functions(found)

    def cell(d: int, w: Tensor, r: Tensor, b: Tensor | None) -> Step:
        (f,), (wb, rb) = functions[d], _biases(b, r)

        def step(x_t: Tensor, h: Tensor) -> list[Tensor]:
            return [f(_clipped(x_t @ w.T + h @ r.T + wb + rb, clip))]

        return step

    return _by_steps(x, sequence_lens, states, cell, (w, r, b), direction, layout)


def _clipped(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else torch.clamp(x, -clip, clip)


@onnx_op("GRU")
def gru(t, x, w, r, b, sequence_lens, initial_h, *, activation_alpha, activation_beta, activations, clip, direction,
        hidden_size, layout, linear_before_reset):  # fmt: skip
    states, b = [_start(x, initial_h, r, layout)], b if linear_before_reset else _trained(t, b)
    found = activations_of("GRU", activations, activation_alpha, activation_beta, r.shape[0])
    usual = _names(found) == {("Sigmoid", "Tanh")}
    if sequence_lens is None and clip is None and usual and linear_before_reset:
        # ONNX orders the gates update, reset, new; PyTorch reset, update, new.
        return _as_layer(torch.gru, x, (w, r, b), states, (1, 0, 2), direction, layout)
    functions = _functions(found)

    def cell(d: int, w: Tensor, r: Tensor, b: Tensor | None) -> Step:
        (f, g), (wb, rb) = functions[d], _biases(b, r)
        weights, bias = torch.chunk(r, 3, 0), torch.chunk(rb, 3, 0)

        def step(x_t: Tensor, h: Tensor) -> list[Tensor]:
            a = torch.chunk(x_t @ w.T + wb, 3, -1)
            z = f(_clipped(a[0] + h @ weights[0].T + bias[0], clip))
            reset = f(_clipped(a[1] + h @ weights[1].T + bias[1], clip))
            own = h @ weights[2].T + bias[2] if linear_before_reset else (reset * h) @ weights[2].T + bias[2]
            own = reset * own if linear_before_reset else own
            new = g(_clipped(a[2] + own, clip))
            return [(1 - z) * new + z * h]

        return step

    return _by_steps(x, sequence_lens, states, cell, (w, r, b), direction, layout)


@onnx_op("LSTM")
def lstm(t, x, w, r, b, sequence_lens, initial_h, initial_c, p, *, activation_alpha, activation_beta, activations, clip,
         direction, hidden_size, input_forget, layout):  # fmt: skip
    states, b = [_start(x, v, r, layout) for v in (initial_h, initial_c)], _trained(t, b)
    found = activations_of("LSTM", activations, activation_alpha, activation_beta, r.shape[0])
    usual = _names(found) == {("Sigmoid", "Tanh", "Tanh")}
    if sequence_lens is None and clip is None and p is None and not input_forget and usual:
        # ONNX orders the gates input, output, forget, cell; PyTorch input, forget, cell, output.
        return _as_layer(torch.lstm, x, (w, r, b), states, (0, 2, 3, 1), direction, layout)
    functions = _functions(found)

    def cell(d: int, w: Tensor, r: Tensor, b: Tensor | None, p: Tensor | None) -> Step:
        (f, g, shown), (wb, rb) = functions[d], _biases(b, r)
        peep = [0, 0, 0] if p is None else torch.chunk(p, 3, 0)

        def step(x_t: Tensor, h: Tensor, c: Tensor) -> list[Tensor]:
            i, o, forget, new = torch.chunk(x_t @ w.T + h @ r.T + wb + rb, 4, -1)
            i = f(_clipped(i + peep[0] * c, clip))
            forget = 1 - i if input_forget else f(_clipped(forget + peep[2] * c, clip))
            c_new = forget * c + i * g(_clipped(new, clip))
            o = f(_clipped(o + peep[1] * c_new, clip))
            return [o * shown(c_new), c_new]

        return step

    return _by_steps(x, sequence_lens, states, cell, (w, r, b, p), direction, layout)
