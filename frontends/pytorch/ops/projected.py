"""LSTM layers with a projected output, which ONNX's LSTM lacks: a Scan over the steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Dim, Graph

from ..common.values import cast
from .cells import lstm_step
from .nn import transposed_weight


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
