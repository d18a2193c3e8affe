"""LSTM, GRU and plain recurrent layers, their cells, and packed sequences.

Packed sequences hold the rows of all sequences step by step, longest sequence first. They are kept together with the
padded sequences that they were computed from, or that were computed with them. Unpacking returns those sequences, and
the rows themselves are computed only if something else reads them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import BadInput, Unsupported
from convert.graph import Dim, Graph
from convert.graph.metadata import RANGE_KEY
from convert.graph.tensors import dims_of, lazy_tensor
from convert.graph.values import known_dims

from ..common.values import as_value, cast
from ..rules import torch_op
from .nn import transposed_weight

# -- cells: one step each ---------------------------------------------------------------------------------------------


def _affine(g: Graph, x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
    return torch_op.apply(g, "linear", [x, weight, bias])


@torch_op("lstm_cell")
def lstm_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    sums = g.Add(_affine(g, input, w_ih, b_ih), _affine(g, hx[0], w_hh, b_hh))
    out, c = lstm_step(g, sums, hx[1])
    return [out, c]


def lstm_step(g: Graph, sums: ir.Value, c: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the new output and cell state from the sums before the gates: input, forget, cell, output."""
    i, f, new, o = g.Split(sums, axis=-1, num_outputs=4, outputs=4)
    c = g.Add(g.Mul(g.Sigmoid(f), c), g.Mul(g.Sigmoid(i), g.Tanh(new)))
    return g.Mul(g.Sigmoid(o), g.Tanh(c)), c


@torch_op("gru_cell")
def gru_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return gru_step(g, _affine(g, input, w_ih, b_ih), _affine(g, hx, w_hh, b_hh), hx)


def gru_step(g: Graph, ours: ir.Value, theirs: ir.Value, h: ir.Value) -> ir.Value:
    """Return the new state from the sums of input and state before the gates: reset, update, new.

    The reset gate is applied after the product with the hidden state.
    """
    mine, before = (g.Split(sums, axis=-1, num_outputs=3, outputs=3) for sums in (ours, theirs))
    reset, update = (g.Sigmoid(g.Add(a, b)) for a, b in zip(mine[:2], before[:2], strict=True))
    new = g.Tanh(g.Add(mine[2], g.Mul(reset, before[2])))
    return g.Add(g.Mul(update, g.Sub(h, new)), new)


@torch_op("rnn_tanh_cell")
def rnn_tanh_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return g.Tanh(g.Add(_affine(g, input, w_ih, b_ih), _affine(g, hx, w_hh, b_hh)))


@torch_op("rnn_relu_cell")
def rnn_relu_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return g.Relu(g.Add(_affine(g, input, w_ih, b_ih), _affine(g, hx, w_hh, b_hh)))


# -- LSTM layers with a projected output, which ONNX's LSTM lacks: a Scan over the steps ------------------------------


def projected_layer(
    g: Graph,
    x: ir.Value,
    initial: Sequence[ir.Value],
    params: Sequence[ir.Value],
    directions: int,
    lengths: ir.Value | None,
) -> tuple[ir.Value, list[ir.Value]]:
    """Return one layer; x is [steps, batch, features], the final states [directions, batch, size], the projected one
    first.
    """
    per = len(params) // directions
    outs, hs, cs = [], [], []
    for direction in range(directions):
        own = params[direction * per : (direction + 1) * per]
        h, c = (g.Gather(state, direction, axis=0) for state in initial)
        ordered = _reverse_steps(g, x, lengths) if direction else x
        out, h, c = _projected_direction(g, ordered, h, c, own, lengths)
        outs.append(_reverse_steps(g, out, lengths) if direction else out)
        hs.append(g.Unsqueeze(h, [0]))
        cs.append(g.Unsqueeze(c, [0]))
    if directions == 1:
        return outs[0], [hs[0], cs[0]]
    return g.Concat(*outs, axis=-1), [g.Concat(*hs, axis=0), g.Concat(*cs, axis=0)]


def _reverse_steps(g: Graph, x: ir.Value, lengths: ir.Value | None) -> ir.Value:
    """Return the steps of each sequence from last to first; padding stays at the end."""
    if lengths is not None:
        return g.ReverseSequence(x, lengths, time_axis=0, batch_axis=1)
    return g.Slice(x, np.array([-1]), np.array([-(2**31)]), np.array([0]), np.array([-1]))


def _projected_direction(
    g: Graph, x: ir.Value, h: ir.Value, c: ir.Value, params: Sequence[ir.Value], lengths: ir.Value | None
) -> tuple[ir.Value, ir.Value, ir.Value]:
    w_ih, w_hh, *biases, w_hr = params
    sums = g.MatMul(x, transposed_weight(g, w_ih))
    for bias in biases:
        sums = g.Add(sums, bias)
    recurrent, projection = transposed_weight(g, w_hh), transposed_weight(g, w_hr)
    body = g.body("step")
    gates = g.shape(w_hh)[0]
    assert isinstance(gates, int)
    shapes: list[list[Dim]] = [[None, g.shape(w_hr)[0]], [None, gates // 4], [None, gates]]
    before, state, row = (
        body.input(name, g.dtype(x), shape) for name, shape in zip(("h", "c", "sums"), shapes, strict=True)
    )
    goes_on = None if lengths is None else body.input("goes_on", ir.DataType.BOOL, [None, 1])
    out, new = lstm_step(body, body.Add(row, body.MatMul(before, recurrent)), state)
    out = body.MatMul(out, projection)
    shown = out
    if goes_on is not None:
        # After its end a sequence keeps its last state and returns zeros.
        shown = body.Where(goes_on, out, body.Mul(out, cast(body, body.const(0.0), g.dtype(x))))
        out, new = body.Where(goes_on, out, before), body.Where(goes_on, new, state)
    for value in (out, new, shown):
        body.output(value)
    scanned = [sums]
    if lengths is not None:
        steps = g.Range(0, g.Gather(g.Shape(x), 0, axis=0), 1)
        scanned.append(g.Unsqueeze(g.Less(g.Unsqueeze(steps, [1]), g.Unsqueeze(lengths, [0])), [2]))
    h, c, outs = g.node("Scan", [h, c, *scanned], {"body": body, "num_scan_inputs": len(scanned)}, outputs=3)
    steps, batch, _ = g.shape(x)
    width = g.shape(w_hr)[0]
    g.facts(h, g.dtype(x), [batch, width])
    g.facts(c, g.dtype(x), [batch, gates // 4])
    return g.facts(outs, g.dtype(x), [steps, batch, width]), h, c


# -- layers: one ONNX node each, with weights reordered lazily --------------------------------------------------------


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
    _check_widths(g, hx, params[:per], projected)
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


def _check_widths(g: Graph, hx: Sequence[ir.Value], params: Sequence[ir.Value], projected: bool) -> None:
    """Raise `BadInput` if the first layer's weights are for states of another width.

    PyTorch makes the initial states as wide as the module's `hidden_size` says, without comparing it with the weights.
    Its kernels then read beyond the weights, or end the process.
    """
    columns = g.shape(params[1])[1]
    widths = [columns, g.shape(params[-1])[1]] if projected else [columns] * len(hx)
    for state, width in zip(hx, widths, strict=True):
        *_, given = known_dims(state) or (None,)
        if isinstance(given, int) and isinstance(width, int) and given != width:
            raise BadInput(
                f"a recurrent layer has states of {given} features, and weights for {width}",
                hint="correct the layer's hidden_size or proj_size, or its weights",
            )


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


# -- packed sequences -------------------------------------------------------------------------------------------------


_KEY = "convert.padded"


@torch_op("_pack_padded_sequence")
def pack_padded_sequence(g, input, lengths, batch_first):
    lengths = cast(g, lengths, torch.int64)
    x = g.Transpose(input, perm=[1, 0, *range(2, g.rank(input))]) if batch_first else input
    _note_range(lengths, g.shape(x)[0])
    # The rest of the graph is as long as the longest sequence, not as the padding.
    x = g.Slice(x, g.const(np.array([0])), g.ReduceMax(lengths, keepdims=1), g.const(np.array([0])))
    steps = g.Range(0, _dim_length(g, x, 0), 1)
    mask = g.Less(g.Unsqueeze(steps, [1]), g.Unsqueeze(lengths, [0]))
    return _packed_rows(g, x, mask, lengths), g.ReduceSum(cast(g, mask, torch.int64), [1], keepdims=0)


@torch_op("_pad_packed_sequence")
def pad_packed_sequence(g, data, batch_sizes, batch_first, padding_value, total_length):
    x, lengths = _padded_sequences(g, data, batch_sizes)
    if not isinstance(total_length, int) or total_length > 0:
        missing = g.Sub(as_value(g, total_length, torch.int64), _dim_length(g, x, 0))
        pads = g.Concat(g.const(np.zeros(g.rank(x), np.int64)), g.Unsqueeze(missing, [0]),
                        g.const(np.zeros(g.rank(x) - 1, np.int64)), axis=0)  # fmt: skip
        x = g.Pad(x, pads)
    if padding_value:
        mask = g.Less(g.Unsqueeze(g.Range(0, _dim_length(g, x, 0), 1), [1]), g.Unsqueeze(lengths, [0]))
        x = g.Where(_expand_mask(g, mask, x), x, as_value(g, padding_value, g.dtype(x)))
    return (g.Transpose(x, perm=[1, 0, *range(2, g.rank(x))]) if batch_first else x), lengths


def _note_range(lengths: ir.Value, steps: int | str | None) -> None:
    """Record on the input of the lengths that they are at least one, at most all steps, and sorted if necessary."""
    order = ["descending"]
    value: ir.Value | None = lengths
    while value is not None and (node := value.producer()) is not None and node.inputs:
        if node.op_type in ("TopK", "GatherElements", "Gather"):
            order = []
        elif node.op_type not in ("Cast", "Identity"):
            return
        value = node.inputs[0]
    if value is not None and value.is_graph_input() and steps is not None:
        value.metadata_props.setdefault(RANGE_KEY, json.dumps([1, steps, *order]))


def _dim_length(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    return g.Gather(g.Shape(x), axis, axis=0)


def _expand_mask(g: Graph, mask: ir.Value, x: ir.Value) -> ir.Value:
    """Return a mask over steps and sequences with trailing dims for those of x."""
    return g.Unsqueeze(mask, list(range(2, g.rank(x)))) if g.rank(x) > 2 else mask


def _packed_rows(g: Graph, x: ir.Value, mask: ir.Value, lengths: ir.Value) -> ir.Value:
    """Return the rows of x [steps, sequences, …] that the mask keeps."""
    places = g.Squeeze(g.NonZero(g.Reshape(mask, [-1])), [0])
    tail = g.Slice(g.Shape(x), np.array([2]), np.array([2**31]), np.array([0]))
    rows = g.Gather(g.Reshape(x, g.Concat(g.const(np.array([-1])), tail, axis=0)), places, axis=0)
    rows.meta[_KEY] = (x, lengths)
    return rows


def _padded_sequences(g: Graph, data: ir.Value, batch_sizes: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return sequences padded with zeros [steps, sequences, …], and their lengths."""
    if _KEY in data.meta:
        return data.meta[_KEY]
    sizes = cast(g, batch_sizes, torch.int64)
    mask = _sequence_mask(g, sizes)
    counted = cast(g, mask, torch.int64)
    flat = g.Reshape(counted, [-1])
    places = g.Max(g.Sub(g.CumSum(flat, 0), 1), g.const(0))
    tail = g.Slice(g.Shape(data), np.array([1]), np.array([2**31]), np.array([0]))
    rows = g.Reshape(g.Gather(data, places, axis=0), g.Concat(g.Shape(mask), tail, axis=0))
    rows = g.facts(rows, shape=[None, None, *g.shape(data)[1:]])
    return g.Where(_expand_mask(g, mask, rows), rows, as_value(g, 0, g.dtype(data))), g.ReduceSum(
        counted, [0], keepdims=0
    )


def _sequence_mask(g: Graph, sizes: ir.Value) -> ir.Value:
    """Return which sequences continue at each step: the first ones, as many as the step has."""
    places = g.Range(0, g.Gather(sizes, 0, axis=0), 1)
    return g.Less(g.Unsqueeze(places, [0]), g.Unsqueeze(sizes, [1]))


def _packed_rule(kind: str, activation: str | None = None) -> Any:
    def rule(
        g: Graph,
        data: ir.Value,
        batch_sizes: ir.Value,
        hx: Any,
        params: Sequence[ir.Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> list[ir.Value]:
        x, lengths = _padded_sequences(g, data, batch_sizes)
        states = hx if kind == "LSTM" else [hx]
        sizes = (has_biases, num_layers, dropout, train, bidirectional)
        out, ends = recurrent_layers(g, kind, x, states, params, *sizes, False, activation, lengths)
        return [_packed_rows(g, out, _sequence_mask(g, cast(g, batch_sizes, torch.int64)), lengths), *ends]

    return rule


torch_op.same(_packed_rule, **{"lstm.data": "LSTM", "gru.data": "GRU"})
torch_op.same(lambda activation: _packed_rule("RNN", activation), **{"rnn_tanh.data": "Tanh", "rnn_relu.data": "Relu"})
