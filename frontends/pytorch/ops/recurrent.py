"""LSTM, GRU and plain recurrent layers: one ONNX node per layer, with weights reordered lazily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dims_of, lazy_tensor

from ..rules import torch_op
from .projected import projected_layer

# PyTorch orders an LSTM's gates input, forget, cell, output, ONNX input, output, forget, cell; a GRU's reset, update,
# new in PyTorch, update, reset, new in ONNX.
_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


@torch_op("lstm", "lstm.input")
def lstm(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    out, states = recurrent_layers(
        g, "LSTM", input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )
    return [out, *states]


@torch_op("gru", "gru.input")
def gru(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    out, states = recurrent_layers(
        g, "GRU", input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )
    return [out, *states]


def _plain_rnn(activation: str) -> Any:
    def rule(
        g: Graph,
        input: Any,
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[ir.Value]:
        out, states = recurrent_layers(
            g,
            "RNN",
            input,
            [hx],
            params,
            has_biases,
            num_layers,
            dropout,
            train,
            bidirectional,
            batch_first,
            activation,
        )
        return [out, *states]

    return rule


torch_op.same(_plain_rnn, rnn_tanh="Tanh", rnn_relu="Relu")


def recurrent_layers(
    g: Graph,
    kind: str,
    x: ir.Value,
    hx: Sequence[ir.Value],
    params: Sequence[ir.Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    activation: str | None = None,
    lengths: ir.Value | None = None,
) -> tuple[ir.Value, list[ir.Value]]:
    """Return the last layer's output and the final states of all layers [layers · directions, batch, hidden].

    `lengths` are those of the sequences if they differ: x is padded after them then, and so is the output.
    """
    if train and dropout:
        raise Unsupported("dropout between recurrent layers draws random numbers; put the module in eval mode")
    directions = 2 if bidirectional else 1
    per = 4 if has_biases else 2
    projected = len(params) == (per + 1) * directions * num_layers
    per += projected
    if len(params) != per * directions * num_layers:
        raise Unsupported(f"{len(params)} weights for {num_layers} recurrent layers")
    lone = g.rank(x) == 2
    if lone:
        x, hx = g.Unsqueeze(x, [1]), [g.Unsqueeze(state, [1]) for state in hx]
    elif batch_first:
        x = g.Transpose(x, perm=[1, 0, 2])
    parts = [_split_state(g, state, directions, num_layers) for state in hx]
    finals: list[list[ir.Value]] = [[] for _ in hx]
    for layer in range(num_layers):
        own = params[layer * per * directions : (layer + 1) * per * directions]
        initial = [p[layer] for p in parts]
        if projected:
            x, ends = projected_layer(g, x, initial, own, directions, lengths)
        else:
            x, ends = _recurrent_layer(g, kind, x, initial, own, has_biases, directions, activation, lengths)
        for collected, end in zip(finals, ends, strict=True):
            collected.append(end)
    states = [ends[0] if num_layers == 1 else g.Concat(*ends, axis=0) for ends in finals]
    if lone:
        return g.Squeeze(x, [1]), [g.Squeeze(state, [1]) for state in states]
    return (g.Transpose(x, perm=[1, 0, 2]) if batch_first else x), states


def _split_state(g: Graph, state: ir.Value, directions: int, layers: int) -> list[ir.Value]:
    return [state] if layers == 1 else g.Split(state, [directions] * layers, axis=0, outputs=layers)


def _recurrent_layer(
    g: Graph,
    kind: str,
    x: ir.Value,
    initial: Sequence[ir.Value],
    params: Sequence[ir.Value],
    has_biases: bool,
    directions: int,
    activation: str | None,
    lengths: ir.Value | None,
) -> tuple[ir.Value, list[ir.Value]]:
    per = len(params) // directions
    order, hidden = _ORDER[kind], g.shape(params[1])[1]
    w = _stacked_weights(g, [[params[d * per]] for d in range(directions)], order)
    r = _stacked_weights(g, [[params[d * per + 1]] for d in range(directions)], order)
    b = (
        _stacked_weights(g, [[params[d * per + 2], params[d * per + 3]] for d in range(directions)], order)
        if has_biases
        else None
    )
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else None}
    if kind == "GRU":
        attributes["linear_before_reset"] = 1
    if activation:
        attributes["activations"] = [activation] * directions
    ends = 2 if kind == "LSTM" else 1
    ends_at = None if lengths is None else g.Cast(lengths, to=ir.DataType.INT32)
    out = g.node(kind, [x, w, r, b, ends_at, *initial], attributes, outputs=1 + ends)
    # [steps, directions, batch, hidden] -> [steps, batch, directions · hidden]
    if directions == 1:
        return g.Squeeze(out[0], [1]), out[1:]
    assert isinstance(hidden, int)
    return g.Reshape(g.Transpose(out[0], perm=[0, 2, 1, 3]), [0, 0, 2 * hidden]), out[1:]


def _stacked_weights(g: Graph, rows: Sequence[Sequence[ir.Value]], order: Sequence[int]) -> ir.Value:
    """Return directions stacked in front, each the concatenation of its parts with the gates reordered."""
    parts = [p for row in rows for p in row]
    if all(p.const_value is not None for p in parts):
        tensors = [[p.const_value for p in row if p.const_value is not None] for row in rows]
        first = tensors[0][0]
        length, *rest = dims_of(first)
        shape = [len(rows), length * len(rows[0]), *rest]

        def make() -> np.ndarray:
            return np.stack([np.concatenate([_reorder_gates(t.numpy(), order) for t in row]) for row in tensors])

        return g.initializer(f"{parts[0].name}.onnx", lazy_tensor(first.dtype, shape, make))
    return g.Concat(
        *(g.Unsqueeze(g.Concat(*(_emit_gate_order(g, p, order) for p in row), axis=0), [0]) for row in rows), axis=0
    )


def _reorder_gates(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    gates = np.split(array, len(order))
    return np.concatenate([gates[i] for i in order])


def _emit_gate_order(g: Graph, x: ir.Value, order: Sequence[int]) -> ir.Value:
    if len(order) == 1:
        return x
    gates = g.Split(x, axis=0, num_outputs=len(order), outputs=len(order))
    return g.Concat(*(gates[i] for i in order), axis=0)
