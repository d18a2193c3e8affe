"""Recurrent cells: one step each."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph import Graph

from ..rules import torch_op


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
