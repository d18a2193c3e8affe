"""RNN, GRU and LSTM as PyTorch's own layers; other cells are written out (`convert/legalize/recurrent.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch import Tensor

from convert.graph.values import constant, input_at
from convert.legalize.recurrent import activations_of_node

from ..rules import onnx_op


def _is_layer(node: ir.Node) -> bool:
    """Return whether PyTorch's layer computes the node."""
    a = node.attributes
    names = {tuple(f.name for f in functions) for functions in activations_of_node(node)}
    usual = {
        "RNN": names in ({("Tanh",)}, {("Relu",)}),
        "GRU": names == {("Sigmoid", "Tanh")} and a.get_int("linear_before_reset", 0) != 0,
        "LSTM": names == {("Sigmoid", "Tanh", "Tanh")} and not a.get_int("input_forget", 0),
    }
    plain = input_at(node, 4) is None and input_at(node, 7) is None
    return plain and "clip" not in a and not a.get_int("layout", 0) and usual[node.op_type]


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
) -> tuple[Tensor, ...]:
    """Call the PyTorch layer. Returns all outputs [time, directions, batch, hidden] and the last states."""
    w, r, b = weights
    assert w is not None
    assert r is not None
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
    return y.flip(0) if direction == "reverse" else y, *last


def _start(x: Tensor, given: Tensor | None, r: Tensor) -> Tensor:
    """Return the given initial state, or zeros [directions, batch, hidden]."""
    return x.new_zeros([r.shape[0], x.shape[1], r.shape[-1]]) if given is None else given


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


@onnx_op("RNN", when=_is_layer)
def rnn(t, x, w, r, b, sequence_lens, initial_h, *, activation_alpha, activation_beta, activations, clip, direction,
        hidden_size, layout):  # fmt: skip
    layer = torch.rnn_relu if [n.lower() for n in activations or ()][:1] == ["relu"] else torch.rnn_tanh
    return _as_layer(layer, x, (w, r, _trained(t, b)), [_start(x, initial_h, r)], (0,), direction)


@onnx_op("GRU", when=_is_layer)
def gru(t, x, w, r, b, sequence_lens, initial_h, *, activation_alpha, activation_beta, activations, clip, direction,
        hidden_size, layout, linear_before_reset):  # fmt: skip
    # ONNX orders the gates update, reset, new; PyTorch reset, update, new.
    return _as_layer(torch.gru, x, (w, r, b), [_start(x, initial_h, r)], (1, 0, 2), direction)


@onnx_op("LSTM", when=_is_layer)
def lstm(t, x, w, r, b, sequence_lens, initial_h, initial_c, p, *, activation_alpha, activation_beta, activations, clip,
         direction, hidden_size, input_forget, layout):  # fmt: skip
    # ONNX orders the gates input, output, forget, cell; PyTorch input, forget, cell, output.
    states = [_start(x, v, r) for v in (initial_h, initial_c)]
    return _as_layer(torch.lstm, x, (w, r, _trained(t, b)), states, (0, 2, 3, 1), direction)
