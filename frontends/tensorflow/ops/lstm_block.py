"""TensorFlow's fused recurrent kernels: cells of one step, and LSTMs over a whole sequence.

The arithmetic is that of lstm_ops.h and gru_ops.h: all gates in one product, with the input's weights above the
state's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dims_of, lazy_tensor

from ..common import shape_values
from ..common.lazy_reshape import LAST_KEY, int64
from ..rules import tf_op

_V1, _V2 = "icfo", "ifco"
"""The order of the gates: input, candidate (c), forget, output."""


@dataclass(frozen=True)
class CellWeights:
    """The weights of a cell: `w` is [inputs + units, 4·units], peepholes are [units] or None."""

    w: ir.Value
    b: ir.Value
    peepholes: Sequence[ir.Value] | None
    order: str
    forget_bias: float
    clip: float

    @property
    def units(self) -> int:
        shape = self.w.shape
        if shape is None or not isinstance(shape[1], int):
            raise Unsupported("weights of unknown size")
        return shape[1] // 4


def _emit_cell_step(g: Graph, x: ir.Value, c: ir.Value, h: ir.Value, cell: CellWeights) -> list[ir.Value]:
    """Return i, cs, f, o, ci, co, h of one step, each [batch, units]."""
    gates = g.Add(g.MatMul(g.Concat(x, h, axis=1), cell.w), cell.b)
    parts = dict(zip(cell.order, g.Split(gates, axis=1, num_outputs=4, outputs=4), strict=True))
    i, f, o = parts["i"], parts["f"], parts["o"]
    if cell.forget_bias:
        f = g.Add(f, np.array(cell.forget_bias, g.dtype(x).numpy()))
    if cell.peepholes is not None:
        i, f = g.Add(i, g.Mul(c, cell.peepholes[0])), g.Add(f, g.Mul(c, cell.peepholes[1]))
    i, f, ci = g.Sigmoid(i), g.Sigmoid(f), g.Tanh(parts["c"])
    cs = g.Add(g.Mul(f, c), g.Mul(i, ci))
    if cell.clip > 0:
        limit = np.array(cell.clip, g.dtype(x).numpy())
        cs = g.Clip(cs, -limit, limit)
    if cell.peepholes is not None:
        o = g.Add(o, g.Mul(cs, cell.peepholes[2]))
    o, co = g.Sigmoid(o), g.Tanh(cs)
    return [i, cs, f, o, ci, co, g.Mul(o, co)]


@tf_op("LSTMBlockCell")
def lstm_block_cell(
    g: Graph, x: ir.Value, cs_prev: ir.Value, h_prev: ir.Value, w: ir.Value, wci: ir.Value, wcf: ir.Value,
    wco: ir.Value, b: ir.Value, *, forget_bias: float, cell_clip: float, use_peephole: bool,
) -> list[ir.Value]:  # fmt: skip
    cell = CellWeights(w, b, [wci, wcf, wco] if use_peephole else None, _V1, forget_bias, cell_clip)
    return _emit_cell_step(g, x, cs_prev, h_prev, cell)


@tf_op("GRUBlockCell")
def gru_block_cell(
    g: Graph, x: ir.Value, h_prev: ir.Value, w_ru: ir.Value, w_c: ir.Value, b_ru: ir.Value, b_c: ir.Value
) -> list[ir.Value]:
    """Return r, u, c and h, with h' = u·h + (1 - u)·c."""
    gates = g.Sigmoid(g.Add(g.MatMul(g.Concat(x, h_prev, axis=1), w_ru), b_ru))
    r, u = g.Split(gates, axis=1, num_outputs=2, outputs=2)
    c = g.Tanh(g.Add(g.MatMul(g.Concat(x, g.Mul(r, h_prev), axis=1), w_c), b_c))
    one = np.array(1, g.dtype(x).numpy())
    return [r, u, c, g.Add(g.Mul(u, h_prev), g.Mul(g.Sub(one, u), c))]


@tf_op("BlockLSTM")
def block_lstm(
    g: Graph, seq_len_max: ir.Value, x: ir.Value, cs_prev: ir.Value, h_prev: ir.Value, w: ir.Value, wci: ir.Value,
    wcf: ir.Value, wco: ir.Value, b: ir.Value, *, forget_bias: float, cell_clip: float, use_peephole: bool,
) -> list[ir.Value]:  # fmt: skip
    cell = CellWeights(w, b, [wci, wcf, wco] if use_peephole else None, _V1, forget_bias, cell_clip)
    return _emit_sequence(g, seq_len_max, x, cs_prev, h_prev, cell)


@tf_op("BlockLSTMV2")
def block_lstm_v2(
    g: Graph, seq_len_max: ir.Value, x: ir.Value, cs_prev: ir.Value, h_prev: ir.Value, w: ir.Value, wci: ir.Value,
    wcf: ir.Value, wco: ir.Value, b: ir.Value, *, cell_clip: float, use_peephole: bool,
) -> list[ir.Value]:  # fmt: skip
    cell = CellWeights(w, b, [wci, wcf, wco] if use_peephole else None, _V2, 0.0, cell_clip)
    return _emit_sequence(g, seq_len_max, x, cs_prev, h_prev, cell)


def _emit_sequence(g: Graph, end: ir.Value, x: ir.Value, c: ir.Value, h: ir.Value, cell: CellWeights) -> list[ir.Value]:
    """Return the seven results of each step, [time, batch, units], with zeros from step `end` on.

    All come from a Scan. The outputs and the last state come from an LSTM if it computes the same; if nothing else is
    read, the Scan is dropped.
    """
    time = g.shape(x)[0]
    rounds, steps = shape_values.content(end), _emit_scan(g, x, c, h, cell)
    whole = rounds is not None and time is not None and rounds.item() == time
    if not whole:
        steps = [_zero_after_end(g, step, end) for step in steps]
    elif cell.clip <= 0 and cell.w.const_value is not None and cell.b.const_value is not None:
        steps[6], last = _emit_lstm(g, x, c, h, cell)
        steps[1].meta[LAST_KEY] = last
    return steps


def _emit_scan(g: Graph, x: ir.Value, c: ir.Value, h: ir.Value, cell: CellWeights) -> list[ir.Value]:
    batch, units = g.shape(x)[1], cell.units
    inside = g.body("step")
    c_in, h_in = (inside.input(name, g.dtype(x), [batch, units]) for name in ("c", "h"))
    element = inside.input("x", g.dtype(x), g.shape(x)[1:])
    found = _emit_cell_step(inside, element, c_in, h_in, cell)
    for value in (found[1], found[6], *found):
        inside.output(value, inside.unique("result"))
    outputs = g.Scan(c, h, x, body=inside, num_scan_inputs=1, outputs=9)[2:]
    return [g.facts(o, g.dtype(x), [g.shape(x)[0], batch, units]) for o in outputs]


def _zero_after_end(g: Graph, step: ir.Value, end: ir.Value) -> ir.Value:
    """Return `step` with zeros from `end` on."""
    places = g.Range(0, g.Squeeze(g.Shape(step, start=0, end=1), [0]), 1)
    there = g.Reshape(g.Less(places, int64(g, end)), [-1, 1, 1])
    return g.facts(g.Where(there, step, g.const(0, g.dtype(step))), shape=g.shape(step))


def _emit_lstm(g: Graph, x: ir.Value, c: ir.Value, h: ir.Value, cell: CellWeights) -> tuple[ir.Value, ir.Value]:
    """Return the outputs of every step and the last state, from a single operator."""
    units, dtype = cell.units, g.dtype(x)
    w, b = cell.w.const_value, cell.b.const_value
    assert w is not None
    assert b is not None
    inputs = dims_of(w)[0] - units
    places = [cell.order.index(gate) for gate in "iofc"]

    def rows(start: int, stop: int) -> np.ndarray:
        array = w.numpy()[start:stop]
        return np.concatenate([array[:, p * units : (p + 1) * units].T for p in places])[None]

    def biases() -> np.ndarray:
        array = b.numpy().reshape(4, units)[places]
        later = np.zeros_like(array)
        later[2] = cell.forget_bias
        return np.concatenate([array.reshape(-1), later.reshape(-1)])[None]

    weight = g.initializer("LSTM_W", lazy_tensor(dtype, [1, 4 * units, inputs], lambda: rows(0, inputs)))
    recurrent = g.initializer("LSTM_R", lazy_tensor(dtype, [1, 4 * units, units], lambda: rows(inputs, inputs + units)))
    bias = g.initializer("LSTM_B", lazy_tensor(dtype, [1, 8 * units], biases))
    peepholes = None
    if cell.peepholes is not None:
        i, f, o = cell.peepholes
        peepholes = g.Unsqueeze(g.Concat(i, o, f, axis=0), [0])
    starts = [g.Unsqueeze(s, [0]) for s in (h, c)]
    y, _, last = g.LSTM(x, weight, recurrent, bias, None, *starts, peepholes, hidden_size=units, outputs=3)
    batch = g.shape(x)[1]
    outputs = g.facts(g.Squeeze(y, [1]), dtype, [g.shape(x)[0], batch, units])
    return outputs, g.facts(g.Squeeze(last, [0]), dtype, [batch, units])
