"""Recurrent layers: over whole sequences as ONNX's LSTM and RNN, and single steps.

In a file, the states of whole sequences are variables that start at zero and keep their values between calls. A
converted model starts every call at zero, as a file does after its variables are reset. An operator of one step would
then have no past, so its state becomes an input and an output of the converted model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.graph.values import int64s

from ..rules import fused_activation, tflite_op
from ..state import LiteVariable

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
    """UNIDIRECTIONAL_SEQUENCE_LSTM, inputs as numbered by kernels/lstm_shared.h. A missing input gate is 1 - forget
    gate.

    1 - σ(x) is σ(-x), so that gate has the forget gate's weights negated.
    """
    if diagonal_recurrent_tensors:
        raise Unsupported("diagonal recurrent weights")
    given = [*inputs, *[None] * (24 - len(inputs))]
    assert given[0] is not None
    steps = _to_time_major(g, given[0], time_major)
    y, _, _ = _lstm(g, steps, given, _activation_name(fused_activation_function), cell_clip)
    return _from_time_major(g, y, time_major)


def _lstm(
    g: Graph,
    steps: ir.Value,
    given: Sequence[Any],
    activation: str,
    cell_clip: float,
    starts: Sequence[ir.Value | None] = (None, None),
) -> list[ir.Value]:
    """Return ONNX's LSTM over [time, batch, …]. given: the 24 inputs; starts: the initial states, as [1, batch, …]."""
    for place, what in _EXTRA.items():
        if given[place] is not None:
            raise Unsupported(f"an LSTM with {what}")
    if cell_clip and not _stays_below(g, steps, activation, starts, cell_clip):
        raise Unsupported(f"an LSTM that clips its cells at {cell_clip:g}, which more steps or other states may reach")
    weights, biases = list(given[1:9]), list(given[12:16])
    if weights[0] is None:
        weights[0], weights[4], biases[0] = (_negate(g, v) for v in (weights[1], weights[5], biases[1]))
    order = (0, 3, 1, 2)  # ONNX orders the gates input, output, forget, cell
    kernel, recurrent = _concat_gates(g, [weights[k] for k in order]), _concat_gates(g, [weights[4 + k] for k in order])
    hidden = g.shape(recurrent)[-1]
    bias = _concat_biases(g, [biases[k] for k in order], hidden)
    peepholes = None
    if given[10] is not None:
        cell = given[9] if given[9] is not None else _negate(g, given[10])
        peepholes = _concat_gates(g, [cell, given[11], given[10]])
    attributes = {"hidden_size": hidden, "activations": ["Sigmoid", activation, activation]}
    return list(g.node("LSTM", [steps, kernel, recurrent, bias, None, *starts, peepholes], attributes, outputs=3))


def _stays_below(g: Graph, steps: ir.Value, activation: str, starts: Sequence[ir.Value | None], clip: float) -> bool:
    """Return whether no cell can pass the clip.

    A step adds at most 1 to a cell, as the gates and tanh are at most 1. TensorFlow 2.15 writes a clip of 10 for the
    layers of Keras.
    """
    shape = steps.shape
    known = shape[0] if shape is not None else None
    return isinstance(known, int) and known <= clip and activation == "Tanh" and starts[1] is None


@tflite_op("LSTM")
def lstm(
    g: Graph,
    *inputs: Any,
    fused_activation_function: int,
    cell_clip: float,
    proj_clip: float,
    kernel_type: int = 0,
) -> ir.Value | list[ir.Value]:
    """LSTM of one step: the full kernel, with inputs as for a sequence, or the basic one, with its state as inputs."""
    activation = _activation_name(fused_activation_function)
    if kernel_type == 1:
        if cell_clip or proj_clip or activation != "Tanh":
            raise Unsupported("a basic LSTM that clips, or with another activation than Tanh")
        return _basic_lstm(g, *inputs)
    given = [*inputs, *[None] * (24 - len(inputs))]  # the projection, to which `proj_clip` applies, is refused
    if not isinstance(given[18], LiteVariable) or not isinstance(given[19], LiteVariable):
        raise Unsupported("an LSTM whose state is no variable")
    starts = [g.Unsqueeze(state.read(g), [0]) for state in given[18:20]]
    y, *after = _lstm(g, g.Unsqueeze(given[0], [0]), given, activation, cell_clip, starts)
    for state, value in zip(given[18:20], after, strict=True):
        state.write(g, g.Squeeze(value, [0]))
    return g.Squeeze(y, [0, 1])


def _basic_lstm(g: Graph, x: ir.Value, before: ir.Value, weights: ir.Value, bias: ir.Value, cell: ir.Value) -> Any:
    """Basic LSTM; gates in the order input, cell, forget, output (reference_ops.h, LstmCell); scratch tensors follow
    the results.
    """
    both = g.Concat(x, before, axis=1)
    gates = g.Add(g.MatMul(both, g.Transpose(weights, perm=[1, 0])), bias)
    i, c, f, o = g.Split(gates, axis=1, num_outputs=4, outputs=4)
    after = g.Add(g.Mul(g.Sigmoid(i), g.Tanh(c)), g.Mul(g.Sigmoid(f), cell))
    return [g.Mul(g.Sigmoid(o), g.Tanh(after)), after, both, gates]


@tflite_op("RNN")
def rnn(
    g: Graph,
    x: ir.Value,
    weights: ir.Value,
    recurrent: ir.Value,
    bias: ir.Value,
    state: LiteVariable,
    *,
    fused_activation_function: int,
) -> ir.Value:
    """RNN of one step (kernels/basic_rnn.cc)."""
    sums = [g.MatMul(a, g.Transpose(b, perm=[1, 0])) for a, b in ((x, weights), (state.read(g), recurrent))]
    after = fused_activation(g, g.Add(g.Add(*sums), bias), fused_activation_function)
    state.write(g, after)
    return after


@tflite_op("SVDF")
def svdf(
    g: Graph,
    x: ir.Value,
    features: ir.Value,
    times: ir.Value,
    bias: ir.Value | None,
    state: LiteVariable,
    *,
    rank: int,
    fused_activation_function: int,
) -> ir.Value:
    """SVDF: projections of the last `memory` inputs, weighted by how old they are (reference/svdf.h, EvalFloatSVDF)."""
    filters, memory = g.shape(times)
    if not isinstance(filters, int) or not isinstance(memory, int) or rank <= 0 or filters % rank:
        raise BadInput(f"an SVDF of {filters} filters, {memory} steps and rank {rank}")
    before = g.Reshape(state.read(g), int64s((-1, filters, memory)))
    made = g.Unsqueeze(g.MatMul(x, g.Transpose(features, perm=[1, 0])), [2])
    after = g.Concat(g.Slice(before, int64s([1]), int64s([memory]), int64s([2])), made, axis=2)
    state.write(g, g.Reshape(after, int64s((-1, filters * memory))))
    weighed = g.ReduceSum(g.Mul(after, times), int64s([2]), keepdims=0)
    sums = g.ReduceSum(g.Reshape(weighed, int64s((-1, filters // rank, rank))), int64s([2]), keepdims=0)
    return fused_activation(g, sums if bias is None else g.Add(sums, bias), fused_activation_function)


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
    """Concatenate the parts of one direction along the gates, with a leading dim for the direction."""
    given = [p for p in parts if p is not None]
    if len(given) != len(parts):
        raise Unsupported("a gate without weights")
    return g.Unsqueeze(g.Concat(*given, axis=0) if len(given) > 1 else given[0], [0])


def _concat_biases(g: Graph, parts: Sequence[ir.Value | None], hidden: object) -> ir.Value | None:
    """Concatenate biases; ONNX has a second bias for the recurrent side."""
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
