"""Recurrent layers over whole sequences as ONNX's LSTM and RNN.

Their states are variables of the file, which start at zero and keep their values from call to call; a converted model
starts every call at zero, as a file does when its variables are reset.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import tflite_op

_NAMES = {1: "Relu", 4: "Tanh"}
_EXTRA = {16: "a projection", 17: "a projection", 20: "layer normalization"}


@tflite_op("UNIDIRECTIONAL_SEQUENCE_LSTM")
def unidirectional_sequence_lstm(
    g: Graph,
    *inputs: ir.Value | None,
    fused_activation_function: int,
    cell_clip: float,
    proj_clip: float,
    time_major: bool,
    diagonal_recurrent_tensors: bool = False,
) -> ir.Value:
    """Inputs as kernels/lstm_shared.h numbers them; where there is no input gate it is one minus the forget gate.

    1 - σ(x) is σ(-x), so that gate has the other's weights with the sign turned.
    """
    given = [*inputs, *[None] * (24 - len(inputs))]
    for place, what in _EXTRA.items():
        if given[place] is not None:
            raise Unsupported(f"an LSTM with {what}")
    if cell_clip or diagonal_recurrent_tensors:
        raise Unsupported("an LSTM that clips its cells" if cell_clip else "diagonal recurrent weights")
    x, *weights = given[:9]
    biases = given[12:16]
    assert x is not None
    if weights[0] is None:
        weights[0], weights[4], biases[0] = (_negate(g, v) for v in (weights[1], weights[5], biases[1]))
    order = (0, 3, 1, 2)  # ONNX has the gates as input, output, forget, cell
    kernel, recurrent = _concat_gates(g, [weights[k] for k in order]), _concat_gates(g, [weights[4 + k] for k in order])
    hidden = g.shape(recurrent)[-1]
    bias = _concat_biases(g, [biases[k] for k in order], hidden)
    peepholes = None
    if given[10] is not None:
        cell = given[9] if given[9] is not None else _negate(g, given[10])
        peepholes = _concat_gates(g, [cell, given[11], given[10]])
    name = _activation_name(fused_activation_function)
    attributes = {"hidden_size": hidden, "activations": ["Sigmoid", name, name]}
    values = [_to_time_major(g, x, time_major), kernel, recurrent, bias, None, None, None, peepholes]
    y = g.node("LSTM", values, attributes, outputs=3)[0]
    return _from_time_major(g, y, time_major)


@tflite_op("UNIDIRECTIONAL_SEQUENCE_RNN")
def unidirectional_sequence_rnn(
    g: Graph,
    x: ir.Value,
    weights: ir.Value,
    recurrent: ir.Value,
    bias: ir.Value,
    state: None = None,
    *,
    fused_activation_function: int,
    time_major: bool,
) -> ir.Value:
    hidden = g.shape(recurrent)[-1]
    attributes = {"hidden_size": hidden, "activations": [_activation_name(fused_activation_function)]}
    values = [
        _to_time_major(g, x, time_major),
        _concat_gates(g, [weights]),
        _concat_gates(g, [recurrent]),
        _concat_biases(g, [bias], hidden),
    ]
    return _from_time_major(g, g.node("RNN", values, attributes, outputs=2)[0], time_major)


def _activation_name(number: int) -> str:
    if number not in _NAMES:
        raise Unsupported(f"the activation function {number} in a recurrent layer")
    return _NAMES[number]


def _negate(g: Graph, value: ir.Value | None) -> ir.Value | None:
    return None if value is None else g.Neg(value)


def _concat_gates(g: Graph, parts: Sequence[ir.Value | None]) -> ir.Value:
    """Parts of one direction under each other, with a first dim for the direction."""
    given = [p for p in parts if p is not None]
    if len(given) != len(parts):
        raise Unsupported("a gate without weights")
    return g.Unsqueeze(g.Concat(*given, axis=0) if len(given) > 1 else given[0], [0])


def _concat_biases(g: Graph, parts: Sequence[ir.Value | None], hidden: object) -> ir.Value | None:
    """ONNX has a second bias for the recurrent side."""
    if all(p is None for p in parts):
        return None
    if not isinstance(hidden, int):
        raise Unsupported("recurrent weights of unknown size")
    given = [g.const(np.zeros(hidden, np.float32)) if p is None else p for p in parts]
    return g.Unsqueeze(g.Concat(*given, np.zeros(len(parts) * hidden, np.float32), axis=0), [0])


def _to_time_major(g: Graph, x: ir.Value, time_major: bool) -> ir.Value:
    return x if time_major else g.Transpose(x, perm=[1, 0, 2])


def _from_time_major(g: Graph, y: ir.Value, time_major: bool) -> ir.Value:
    flat = g.Squeeze(y, [1])
    return flat if time_major else g.Transpose(flat, perm=[1, 0, 2])
