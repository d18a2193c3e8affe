"""Recurrent layers that quantize inputs and states dynamically (`torch.ao.nn.quantized.dynamic`).

The arithmetic is that of PyTorch's aten/src/ATen/native/RNN.cpp. On a CPU a layer quantizes the whole sequence with one
range, but each state with its own, so the steps are a Scan. The weights are packed in objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import torch_op
from .quantized_layers import linear_dynamic, linear_dynamic_fp16
from .recurrent import gru_step, lstm_step

Step = Callable[[Graph, ir.Value, ir.Value, Sequence[ir.Value]], Sequence[ir.Value]]
"""(body, sums of the input, sums of the state, states) -> new states, the output first."""


@torch_op("quantized_lstm.input")
def quantized_lstm(
    g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, dtype=None,
    use_dynamic=False,
):  # fmt: skip
    """(`dtype` and `use_dynamic` repeat the packed weights.)"""
    return _layers(g, _lstm, input, hx, params, num_layers, dropout, train, bidirectional, batch_first)


@torch_op("quantized_gru.input")
def quantized_gru(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return _layers(g, _gru, input, [hx], params, num_layers, dropout, train, bidirectional, batch_first)


def _lstm(g: Graph, ours: ir.Value, theirs: ir.Value, states: Sequence[ir.Value]) -> Sequence[ir.Value]:
    return lstm_step(g, g.Add(theirs, ours), states[1])


def _gru(g: Graph, ours: ir.Value, theirs: ir.Value, states: Sequence[ir.Value]) -> Sequence[ir.Value]:
    return [gru_step(g, ours, theirs, states[0])]


def _layers(
    g: Graph,
    step: Step,
    x: ir.Value,
    hx: Sequence[ir.Value],
    params: Sequence[Any],
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[ir.Value]:
    """Return all layers: the last one's output, and the final states [layers · directions, batch, hidden]."""
    if train and dropout:
        raise Unsupported("dropout between recurrent layers draws random numbers; put the module in eval mode")
    x = g.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    directions = 2 if bidirectional else 1
    finals: list[list[ir.Value]] = [[] for _ in hx]
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            place = layer * directions + direction
            initial = [g.Gather(state, place, axis=0) for state in hx]
            out, ends = _direction(g, step, x, initial, params[place], direction)
            outs.append(out)
            for collected, end in zip(finals, ends, strict=True):
                collected.append(g.Unsqueeze(end, [0]))
        x = g.Concat(*outs, axis=-1) if bidirectional else outs[0]
    out = g.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    return [out, *(g.Concat(*ends, axis=0) for ends in finals)]


def _direction(
    g: Graph, step: Step, x: ir.Value, initial: Sequence[ir.Value], packed: Any, reverse: int
) -> tuple[ir.Value, list[ir.Value]]:
    """Return one layer in one direction; x is [steps, batch, features]."""
    linear_ih, linear_hh = _linear_layers(packed)
    sums = linear_ih(g, x)
    body = g.body("step")
    before = [body.input(f"state_{k}", g.dtype(x), g.shape(state)) for k, state in enumerate(initial)]
    row = body.input("sums", g.dtype(x), g.shape(sums)[1:])
    after = step(body, row, linear_hh(body, before[0]), before)
    for value in (*after, after[0]):
        body.output(value)
    attributes = {
        "body": body, "num_scan_inputs": 1, "scan_input_directions": [reverse], "scan_output_directions": [reverse],
    }  # fmt: skip
    *ends, out = g.node("Scan", [*initial, sums], attributes, outputs=len(initial) + 1)
    for end, start in zip(ends, initial, strict=True):
        g.facts(end, g.dtype(x), g.shape(start))
    return g.facts(out, g.dtype(x), [*g.shape(x)[:2], g.shape(initial[0])[-1]]), ends


def _linear_layers(packed: Any) -> list[Callable[[Graph, ir.Value], ir.Value]]:
    """Return the products for input and state, from the packed weights of a recurrent layer.

    `__getstate__` of a CellParamsBase holds kind, tensors, numbers and weights. Raises `Unsupported` for other kinds of
    weights than int8 and float16.
    """
    kind, _, _, numbers, weights = packed.__getstate__()[0]
    if kind == "quantized_fp16":
        return [partial(_multiply, linear_dynamic_fp16, (w,)) for w in weights]
    if kind != "quantized_dynamic":
        raise Unsupported(f"weights of a recurrent layer packed as {kind}")
    reduce_range = bool(np.asarray(numbers).any())
    return [partial(_multiply, linear_dynamic, (w, reduce_range)) for w in weights]


def _multiply(rule: Callable[..., ir.Value], packed: tuple[Any, ...], g: Graph, x: ir.Value) -> ir.Value:
    return rule(g, x, *packed)


def _cell(step: Step, count: int) -> Any:
    def rule(g: Graph, input: ir.Value, hx: Any, w_ih: Any, w_hh: Any, b_ih: ir.Value, b_hh: ir.Value) -> Any:
        """Return the layer; the given biases are ignored, because the packed weights contain them."""
        states = list(hx) if count > 1 else [hx]
        after = step(g, linear_dynamic(g, input, w_ih, True), linear_dynamic(g, states[0], w_hh, True), states)
        return list(after) if count > 1 else after[0]

    return rule


def _plain(activation: str) -> Step:
    def step(g: Graph, ours: ir.Value, theirs: ir.Value, states: Sequence[ir.Value]) -> Sequence[ir.Value]:
        return [getattr(g, activation)(g.Add(theirs, ours))]

    return step


torch_op("quantized::quantized_lstm_cell_dynamic")(_cell(_lstm, 2))
torch_op("quantized::quantized_gru_cell_dynamic")(_cell(_gru, 1))
torch_op("quantized::quantized_rnn_tanh_cell_dynamic")(_cell(_plain("Tanh"), 1))
torch_op("quantized::quantized_rnn_relu_cell_dynamic")(_cell(_plain("Relu"), 1))
torch_op.gap("packed sequences in a layer that is quantized as it runs; pad them", "quantized_lstm.data",
             "quantized_gru.data")  # fmt: skip
