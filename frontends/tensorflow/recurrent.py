"""Loops that are an LSTM, a GRU or a simple RNN, recognised in the subgraph that their body became."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.tensors import lazy

from .affine import Part
from .cells import Cell, gru, lstm, simple
from .shaping import cast, int64

Recognised = tuple[list[ir.Value], ir.Value, ir.Value]


def recurrent(
    g: Graph,
    body: Graph,
    iteration: ir.Value,
    inner: Sequence[Any],
    initial: Sequence[Any],
    results: Sequence[Any],
    items: Sequence[ir.Value],
    rounds: tuple[ir.Value, Any],
    sizes: Sequence[Any],
) -> Recognised | None:
    """Final states, all outputs and the last output of a loop over a sequence by one ONNX node, or None.

    inner, initial, results: the states inside a round, before the loop and after the round. items: what a round adds
    to each list. rounds: how many there are, and what is known of that. sizes: of each list, None for one that grows
    or keeps the last round alone. Where rounds end early, or for single sequences by their lengths, the operator is
    told so; outputs behind the end are zeros then.
    """
    if not 1 <= len(inner) <= 2 or not all(isinstance(v, ir.Value) for v in (*inner, *results)):
        return None
    here = {o for n in body.graph for o in n.outputs}
    read = [n for n in body.graph if n.op_type == "Gather" and _is_round(n.inputs[1], iteration)]
    if len(read) != 1 or read[0].inputs[0] is None or read[0].attributes["axis"].as_int() != 0:
        return None
    sequence, element = read[0].inputs[0], read[0].outputs[0]
    dims = g.shape(sequence) if sequence.shape is not None else ()
    if len(dims) != 3 or not isinstance(dims[2], int) or sequence in here:
        return None
    if any(size is not None and size != dims[0] for size in sizes):
        return None
    lengths: list[ir.Value | None] = []
    results = [_advanced(new, old, iteration, here, lengths) for new, old in zip(results, inner, strict=True)]
    items = [_advanced(item, None, iteration, here, lengths) for item in items]
    cell = _cell(element, list(inner), list(results))
    if cell is None or any(item is not cell.hidden for item in items) or any(n is not lengths[0] for n in lengths):
        return None
    ends = None
    if lengths[0] is not None or dims[0] is None or dims[0] != rounds[1]:
        # A sequence without elements ends with zeros in ONNX, not with the state that it started with.
        if not all(map(_is_zero, initial)) or None in sizes:
            return None
        ends = _ends(g, lengths[0], rounds[0], sequence)
    outputs, states = _node(g, cell, sequence, ends, [initial[k] for k in cell.order])
    placed = dict(zip(cell.order, states, strict=True))
    return [placed[k] for k in range(len(inner))], outputs, states[0]


def _advanced(
    new: ir.Value,
    old: ir.Value | None,
    iteration: ir.Value,
    here: set[ir.Value],
    lengths: list[ir.Value | None],
) -> ir.Value:
    """`new` before it was replaced, behind the end of its sequence, by `old` (None: zeros); `lengths` grows."""
    maker = new.producer()
    if maker is not None and maker.op_type == "Where":
        past, kept, advanced = maker.inputs
        length = _length(past, iteration, here)
        same = kept is not None and (kept is old if old is not None else _is_zero(kept))
        if length is not None and same and advanced is not None:
            lengths.append(length)
            return advanced
    lengths.append(None)
    return new


def _length(past: ir.Value | None, iteration: ir.Value, here: set[ir.Value]) -> ir.Value | None:
    """The lengths, [batch], that the number of the round has reached where `past` holds."""
    maker = past.producer() if past is not None else None
    if maker is not None and maker.op_type == "Unsqueeze" and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer()
    if maker is None or maker.op_type != "GreaterOrEqual" or not _is_round(maker.inputs[0], iteration):
        return None
    length = maker.inputs[1]
    return length if length is not None and length not in here and length.shape is not None \
        and len(length.shape) == 1 else None  # fmt: skip


def _ends(g: Graph, lengths: ir.Value | None, rounds: ir.Value, sequence: ir.Value) -> ir.Value:
    """Where each sequence ends, int32 [batch]: no later than the rounds do, and no later than there are elements."""
    last = g.Min(rounds, g.Squeeze(g.Shape(sequence, start=0, end=1), [0]))
    if lengths is None:
        return cast(g, g.Expand(last, g.Shape(sequence, start=1, end=2)), ir.DataType.INT32)
    nothing = g.const(0, ir.DataType.INT64)
    return cast(g, g.Max(g.Min(int64(g, lengths), last), nothing), ir.DataType.INT32)


def _is_round(value: ir.Value | None, iteration: ir.Value) -> bool:
    """Whether an index is the number of the round itself."""
    while value is not None and value is not iteration:
        maker = value.producer()
        if maker is None or maker.op_type not in ("Cast", "Identity"):
            return False
        value = maker.inputs[0]
    return value is not None


def _cell(x: ir.Value, inner: list[ir.Value], results: list[ir.Value]) -> Cell | None:
    if len(inner) == 2:
        for order in ([0, 1], [1, 0]):
            h, c = order
            found = lstm(x, inner[h], inner[c], results[h], results[c])
            if found is not None:
                found.order = order
                return found
        return None
    return gru(x, inner[0], results[0]) or simple(x, inner[0], results[0])


def _node(
    g: Graph, cell: Cell, sequence: ir.Value, ends: ir.Value | None, initial: Sequence[ir.Value]
) -> tuple[ir.Value, list[ir.Value]]:
    """The operator on `sequence`, [time, batch, features]: outputs [time, batch, units] and final states."""
    w = _weights(g, f"{cell.operator}_W", cell.inputs)
    r = _weights(g, f"{cell.operator}_R", cell.hiddens)
    b = _biases(g, cell)
    starts = [None if _is_zero(s) else g.Unsqueeze(s, [0]) for s in initial]
    count = 2 + (cell.operator == "LSTM")
    units = cell.units
    attributes: dict[str, Any] = {"hidden_size": units, **cell.attributes}
    outputs = g.node(cell.operator, [sequence, w, r, b, ends, *starts], attributes, outputs=count)
    time, batch = g.shape(sequence)[:2]
    y = g.facts(g.Squeeze(outputs[0], [1]), g.dtype(sequence), [time, batch, units])
    finals = [g.facts(g.Squeeze(o, [0]), g.dtype(sequence), [batch, units]) for o in outputs[1:]]
    return y, finals


def _weights(g: Graph, name: str, gates: Sequence[Part]) -> ir.Value:
    """[1, gates·units, in] from one [in, units] for each gate, put together when it is written."""
    first = gates[0]
    shape = [1, len(gates) * first.width, first.height]
    return g.initializer(
        name, lazy(first.dtype, shape, lambda: np.concatenate([gate.content().T for gate in gates])[None])
    )


def _biases(g: Graph, cell: Cell) -> ir.Value | None:
    """[1, 2·gates·units]: those that go with the input, then those that go with the state."""
    if not any(cell.input_biases) and not any(cell.hidden_biases):
        return None
    dtype, units = cell.inputs[0].dtype, cell.units

    def make() -> np.ndarray:
        rows = [
            sum((part.content().reshape(-1) for part in parts), np.zeros(units, dtype.numpy()))
            for parts in (*cell.input_biases, *cell.hidden_biases)
        ]
        return np.concatenate(rows)[None]

    shape = [1, units * (len(cell.input_biases) + len(cell.hidden_biases))]
    return g.initializer(f"{cell.operator}_B", lazy(dtype, shape, make))


def _is_zero(value: ir.Value) -> bool:
    """Whether a state starts as zeros, which is what ONNX does without one."""
    maker = value.producer()
    if value.const_value is not None:
        return value.const_value.nbytes < 1 << 20 and not value.const_value.numpy().any()
    return maker is not None and maker.op_type == "Expand" and maker.inputs[0] is not None and _is_zero(maker.inputs[0])
