"""Packed sequences: the rows of all sequences step by step, longest sequence first, and recurrent layers on them.

Packed rows are kept together with the padded sequences that they were computed from, or that were computed with them.
Unpacking returns those sequences, and the rows themselves are computed only if something else reads them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY

from ..common.values import as_value, cast
from ..rules import torch_op
from .recurrent import recurrent_layers

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
