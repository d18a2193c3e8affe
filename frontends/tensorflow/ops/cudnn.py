"""The recurrent kernels of cuDNN: one layer in one direction, with its weights in one vector.

The order of that vector is the one that Keras writes (`_cudnn_lstm`, `_cudnn_gru` and `_standardize_cudnn_weights` in
its TensorFlow backend): a matrix [units, in] per gate, one [units, units] per gate, and a bias for the input and one
for the state per gate. Keras uses these kernels in place of its own layers, so tests compare with Keras's layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.graph.tensors import lazy_tensor

from ..common import shape_values
from ..common.lazy_reshape import cast
from ..rules import tf_op

_OPERATORS = ("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
_KINDS = {"lstm": ("LSTM", [0, 3, 1, 2]), "gru": ("GRU", [1, 0, 2])}
"""ONNX's operator, and the positions of its gates in cuDNN's order. cuDNN has i, f, g, o for ONNX's i, o, f, g, and r,
z, h for z, r, h.
"""

_LAYERS = (
    "several layers, two directions, a projection and simple cells: there is no GPU to check their weights' order on"
)
_LIMITS = [tf_op.limit(name, _LAYERS) for name in _OPERATORS]


@tf_op(*_OPERATORS)
def cudnn_rnn(
    g: Graph,
    input: ir.Value,
    input_h: ir.Value,
    input_c: ir.Value,
    params: ir.Value,
    sequence_lengths: ir.Value | None = None,
    *,
    rnn_mode: str,
    input_mode: str,
    direction: str,
    dropout: float,
    seed: int,
    seed2: int,
    is_training: bool,
    num_proj: int = 0,
    time_major: bool = True,
) -> list[Any]:
    """CudnnRNN: outputs, and the last states with a dim of 1 for the layer; the gradient's data is empty."""
    layer = 0 if time_major else 1
    simple = rnn_mode in _KINDS and input_mode == "linear_input" and direction == "unidirectional" and not num_proj
    if not simple or g.shape(input_h)[layer] != 1:
        raise Unsupported(_LAYERS)
    if is_training and dropout:
        raise Unsupported("dropout between layers, as in training")
    operator, order = _KINDS[rnn_mode]
    x = input if time_major else g.Transpose(input, perm=[1, 0, 2])
    states = [input_h, input_c] if operator == "LSTM" else [input_h]
    starts = states if time_major else [g.Transpose(s, perm=[1, 0, 2]) for s in states]
    units, width = g.shape(input_h)[2], g.shape(input)[2]
    if not isinstance(units, int) or not isinstance(width, int):
        raise Unsupported("units or features of unknown number")
    w, r, b = _unpack_weights(g, operator, params, order, units, width)
    ends = None if _is_full_length(g, x, sequence_lengths) else cast(g, sequence_lengths, ir.DataType.INT32)  # type: ignore
    extra = {"linear_before_reset": 1} if operator == "GRU" else {}
    y, *finals = g.node(operator, [x, w, r, b, ends, *starts], {"hidden_size": units, **extra}, outputs=1 + len(starts))
    time, batch = g.shape(x)[:2]
    outputs = g.facts(g.Squeeze(y, [1]), g.dtype(x), [time, batch, units])
    if not time_major:
        outputs, finals = (g.Transpose(outputs, perm=[1, 0, 2]), [g.Transpose(f, perm=[1, 0, 2]) for f in finals])
    nothing = g.const(np.zeros(0, np.float32))
    return [outputs, finals[0], finals[1] if len(finals) > 1 else nothing, nothing, nothing]


def _unpack_weights(
    g: Graph, operator: str, params: ir.Value, order: Sequence[int], units: int, width: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Split the vector into W [1, gates·units, in], R [1, gates·units, units] and B [1, 2·gates·units]."""
    read, gates = _constant_content(params), len(order)
    if read is None or params.dtype is None:
        raise Unsupported("weights that are computed when the model runs")
    sizes = [gates * units * width, gates * units * units, 2 * gates * units]
    if g.shape(params) not in ((sum(sizes),), (None,)):
        raise BadInput(f"{units} units over {width} features have {sum(sizes)} weights, not {g.shape(params)}")

    def part(name: str, number: int, inner: list[int], shape: list[int]) -> ir.Value:
        def content() -> np.ndarray:
            begin = sum(sizes[:number])
            flat = read().reshape(-1)[begin : begin + sizes[number]].reshape([-1, gates, units, *inner])
            return flat[:, order].reshape(shape)

        return g.initializer(f"{operator}_{name}", lazy_tensor(params.dtype, shape, content))  # type: ignore[arg-type]

    return (
        part("W", 0, [width], [1, gates * units, width]),
        part("R", 1, [units], [1, gates * units, units]),
        part("B", 2, [], [1, 2 * gates * units]),
    )


def _constant_content(value: ir.Value | None) -> Callable[[], np.ndarray] | None:
    """Return a function for the content of a value that is computed from constants by moving and repeating elements."""
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value.numpy
    maker = value.producer()
    if maker is None or maker.domain or maker.op_type not in ("Concat", "Split", "Expand", "Reshape", "Identity"):
        return None
    parts = [_constant_content(v) for v in maker.inputs]
    if None in parts or (maker.op_type == "Split" and len({str(o.shape) for o in maker.outputs}) > 1):
        return None
    first, axis, place = parts[0], maker.attributes.get_int("axis", 0), list(maker.outputs).index(value)
    moved: dict[str, Callable[[], np.ndarray]] = {
        "Concat": lambda: np.concatenate([p() for p in parts], axis),  # type: ignore[misc]
        "Split": lambda: np.split(first(), len(maker.outputs), axis)[place],  # type: ignore[misc]
        "Expand": lambda: np.broadcast_to(first(), parts[1]()),  # type: ignore[misc]
        "Reshape": lambda: first().reshape(parts[1]()),  # type: ignore[misc]
    }
    return moved.get(maker.op_type, first)


def _is_full_length(g: Graph, x: ir.Value, lengths: ir.Value | None) -> bool:
    """Return whether every sequence has the full length: no lengths are given, or the length is repeated."""
    maker = lengths.producer() if lengths is not None else None
    if lengths is None:
        return True
    number = shape_values.content(maker.inputs[0]) if maker is not None and maker.op_type == "Expand" else None
    return number is not None and number.size == 1 and number.item() is not None and number.item() == g.shape(x)[0]
