"""RNN, GRU and LSTM: one Keras layer for each direction, over [batch, time, features]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported
from convert.graph.values import input_at
from convert.legalize.recurrent import activations_of_node

from ..constants import Constant
from ..emitter import Emitter, Value
from ..rules import onnx_op

_NAMES = {name: name.lower() for name in ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")}


def _is_layer(node: ir.Node) -> bool:
    """Return whether Keras's layer computes the node; the weights must be constant too, which folding may show."""
    a = node.attributes
    functions = activations_of_node(node)
    plain = all(f.name in _NAMES for one in functions for f in one) and "clip" not in a
    cell = input_at(node, 7) is None and not a.get_int("input_forget", 0)
    return plain and cell and (node.op_type != "LSTM" or all(g == h for _, g, h in functions))


_NO_LAYER = "a cell that Keras has no layer for, over a dynamic number of steps"


def _activation_names(k: Emitter) -> list[list[str]]:
    """Return Keras's names of the activation functions of each direction."""
    assert k.node is not None
    return [[_NAMES[f.name] for f in of_direction] for of_direction in activations_of_node(k.node)]


def _is_zero_state(k: Emitter, index: int) -> bool:
    """Return whether an initial state consists of zeros."""
    assert k.node is not None
    value = input_at(k.node, index)
    if value is None:
        return True
    maker = value.producer()
    if value.const_value is None and maker is not None and maker.op_type == "Expand":
        value = maker.inputs[0]
        assert value is not None
    elif maker is not None and maker.op_type == "ConstantOfShape":
        fill = maker.attributes.get("value")
        return fill is None or not fill.as_tensor().numpy().any()
    return value.const_value is not None and not value.const_value.numpy().any()


def _run_directions(
    k: Emitter,
    kind: type[layers.Layer],
    arguments: Sequence[dict[str, Any]],
    x: KerasTensor,
    lengths: Value,
    states: Sequence[KerasTensor],
    weights_of: Callable[[int], dict[str, Constant]],
    direction: str,
    layout: int,
) -> tuple[KerasTensor, ...]:
    """Return all hidden states [time, directions, batch, hidden] and the last of each state [directions, batch,
    hidden].
    """
    if not layout:
        x = ops.transpose(x, (1, 0, 2))
    if x.shape[-1] is None:  # the layer creates its variables from this shape
        x = k.layer(layers.Reshape, x, target_shape=(-1, weights_of(0)["cell.kernel"].shape[0]))
    # Keras 3.15 creates orthogonal matrices before it loads weights, by a QR that TensorFlow 2.21 lacks for bfloat16.
    start = {"recurrent_initializer": "glorot_uniform"} if x.dtype == "bfloat16" else {}
    mask = None if lengths is None else _step_mask(k, x, layout, lengths)
    every, last = [], []
    for d, config in enumerate(arguments):
        backwards = direction == "reverse" or d == 1
        call = {} if mask is None else {"mask": mask}
        if states:
            call["initial_state"] = [s[:, d] if layout else s[d] for s in states]
        config = {"return_sequences": True, "return_state": True, "go_backwards": backwards, **start, **config}
        made = k.layer(kind, x, weights_of(d), call, **config)
        y, *final = made
        y = ops.flip(y, axis=1) if backwards else y
        if mask is not None:  # the output is zero beyond the end of a sequence
            y = ops.where(ops.expand_dims(mask, -1), y, ops.zeros_like(y))
        every.append(y)
        last.append(final)
    axis = 1 if layout else 0
    finals = [ops.stack(list(parts), axis=axis) for parts in zip(*last, strict=True)]
    if layout:
        return ops.stack(every, axis=2), *finals
    return ops.transpose(ops.stack(every, axis=2), (1, 2, 0, 3)), *finals


def _step_mask(k: Emitter, x: Value, layout: int, lengths: Value) -> KerasTensor:
    """Return whether each step is inside its sequence: [batch, time]."""
    steps = k.places(k.sizes_of(0, x)[1 if layout else 0], "int64")
    return ops.less(steps, ops.expand_dims(ops.cast(k.tensor(lengths), "int64"), -1))


def _cell_weights(
    w: Value, r: Value, b: Value, order: Sequence[int], split_bias: bool = False
) -> Callable[[int], dict[str, Constant]]:
    """Return a function for the variables of a direction's cell, with ONNX's gates reordered."""
    if not isinstance(w, Constant) or not isinstance(r, Constant) or not isinstance(b, Constant | None):
        raise Unsupported("weights computed at run time")
    hidden = r.shape[-1]
    gates = len(order)

    def columns(x: np.ndarray, d: int) -> np.ndarray:
        """Return [gates · hidden, n] as [n, gates · hidden] in Keras's order."""
        parts = np.split(x[d], gates)
        return np.concatenate([parts[i] for i in order]).T

    def bias(x: np.ndarray, d: int) -> np.ndarray:
        both = np.stack([columns(part[None], 0) for part in np.split(x[d], 2)])
        return both if split_bias else both.sum(0)

    def of(d: int) -> dict[str, Constant]:
        found = {
            "cell.kernel": w.map((w.shape[2], gates * hidden), lambda x: columns(x, d)),
            "cell.recurrent_kernel": r.map((hidden, gates * hidden), lambda x: columns(x, d)),
        }
        if b is not None:
            shape = (2, gates * hidden) if split_bias else (gates * hidden,)
            found["cell.bias"] = b.map(shape, lambda x: bias(x, d))
        return found

    return of


@onnx_op("RNN", when=_is_layer, otherwise=_NO_LAYER)
def rnn(
    k, x, w, r, b, lengths, initial_h,
    *, activation_alpha, activation_beta, activations, clip, direction, hidden_size, layout,
):  # fmt: skip
    weights = _cell_weights(w, r, b, [0])
    functions = _activation_names(k)
    arguments = [{"units": r.shape[-1], "activation": f, "use_bias": b is not None} for (f,) in functions]
    states = [] if _is_zero_state(k, 5) else [k.tensor(initial_h)]
    return _run_directions(k, layers.SimpleRNN, arguments, x, lengths, states, weights, direction, layout)


@onnx_op("GRU", when=_is_layer, otherwise=_NO_LAYER)
def gru(
    k, x, w, r, b, lengths, initial_h,
    *, activation_alpha, activation_beta, activations, clip, direction, hidden_size, layout, linear_before_reset,
):  # fmt: skip
    weights = _cell_weights(w, r, b, [0, 1, 2], split_bias=bool(linear_before_reset))
    functions = _activation_names(k)
    arguments = [
        {
            "units": r.shape[-1],
            "activation": g,
            "recurrent_activation": f,
            "reset_after": bool(linear_before_reset),
            "use_bias": b is not None,
        }
        for f, g in functions
    ]
    states = [] if _is_zero_state(k, 5) else [k.tensor(initial_h)]
    return _run_directions(k, layers.GRU, arguments, x, lengths, states, weights, direction, layout)


@onnx_op("LSTM", when=_is_layer, otherwise=_NO_LAYER)
def lstm(
    k, x, w, r, b, lengths, initial_h, initial_c, peepholes,
    *, activation_alpha, activation_beta, activations, clip, direction, hidden_size, input_forget, layout,
):  # fmt: skip
    # ONNX orders the gates input, output, forget, cell; Keras input, forget, cell, output.
    weights = _cell_weights(w, r, b, [0, 2, 3, 1])
    functions = _activation_names(k)
    arguments = [
        {"units": r.shape[-1], "activation": g, "recurrent_activation": f, "use_bias": b is not None}
        for f, g, _ in functions
    ]
    states = []
    if not (_is_zero_state(k, 5) and _is_zero_state(k, 6)):
        given = [h if h is not None else c for h, c in ((initial_h, initial_c), (initial_c, initial_h))]
        states = [k.tensor(s) for s in given]
        if initial_h is None or initial_c is None:
            states = [
                s if own is not None else ops.zeros_like(s)
                for s, own in zip(states, (initial_h, initial_c), strict=True)
            ]
    return _run_directions(k, layers.LSTM, arguments, x, lengths, states, weights, direction, layout)
