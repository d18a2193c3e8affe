"""Evaluates a shared graph in float64 with weights or activations rounded to fewer bits.

The resulting change of the outputs is the noise floor of an artefact that stores its numbers in so few bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import dims_of, holds_floats, lazy_tensor
from convert.passes import run_passes
from convert.passes.tidy.batchnorm import fold_batch_norms
from convert.passes.tidy.clean import clean
from convert.passes.to_float64 import widen_model
from convert.reference.executor import Executor
from convert.reference.half_precision import half_precision_outputs, is_unbounded
from convert.reference.quantization_steps import (
    round_blocks,
    round_symmetric,
    round_to_bfloat16,
    round_to_float16,
    round_to_steps,
)
from convert.reference.quantized_rnn import RECURRENT, RowRoundedWeights, cell_weights
from convert.request.calibration import RangeMethod, range_of
from convert.request.stored import (
    BRAIN,
    FULL,
    HALF,
    STEPS,
    VALUES,
    WEIGHT_STEPS,
    WEIGHTS,
    WHOLE_TENSORS,
    WIDE,
    Blocks,
)

# Operators whose weights are rounded per output channel; the axis depends on their attributes.
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# If activations are not in 8 bits, TensorFlow Lite keeps weights with fewer elements unchanged.
_LEAST = 1024
_OF_LITE = (FULL, WIDE)
_WITH_RANGES = (*_OF_LITE, STEPS)
_PLAIN = RangeMethod()
# Ranges that TensorFlow Lite's 8-bit kernels and onnxruntime's tools prescribe.
_RANGES = {
    FULL: {"Softmax": (0.0, 255 / 256), "Sigmoid": (0.0, 255 / 256), "Tanh": (-1.0, 127 / 128),
           "LogSoftmax": (-255 / 16, 0.0)},
    WIDE: {},
    STEPS: {"Softmax": (0.0, 1.0)},
}  # fmt: skip

_SHORT = _RANGES[FULL]["LogSoftmax"]
"""The only prescribed range that leaves out more than a step of what the operator computes."""

_MOST_STEPS = 127
"""The steps that onnxruntime gives the activation furthest from 0 in a block of MatMulNBits."""

Feeds = Sequence[Mapping[str, np.ndarray]]
Outputs = list[dict[str, np.ndarray]]
Range = tuple[float, float]


@dataclass(frozen=True)
class NarrowedOutputs:
    """Outputs by name for each feed: `exact` from the graph, `rounded` from the graph with its numbers narrowed.

    `stored`, from the graph with an artefact's own weights, is the reference for `rounded` if these weights could be
    matched. `exact` differs from the graph where 8-bit kernels prescribe a range (LogSoftmax), and values outside it
    saturate.
    """

    exact: Outputs
    rounded: Outputs
    stored: Outputs | None = None

    def on(self, places: Sequence[int]) -> NarrowedOutputs:
        """Return the outputs for the feeds at these indices."""
        exact, rounded = ([outputs[i] for i in places] for outputs in (self.exact, self.rounded))
        return NarrowedOutputs(exact, rounded, None if self.stored is None else [self.stored[i] for i in places])


def as_stored(model: ir.Model) -> ir.Model:
    """Return a copy with the weights that artefacts store: batch normalizations are folded into them."""
    copy = model.clone()
    run_passes(copy, (clean, fold_batch_norms, clean))
    return copy


def simulate(
    model: ir.Model, feeds: Feeds, stored: str, placed: ir.Model | None = None, method: RangeMethod = _PLAIN
) -> NarrowedOutputs:
    """Return what `model` computes in float64 with its numbers stored as `stored`.

    `stored` is one of `convert.request.stored.STORED`.

    `placed` is the result of `as_stored` with the weights of an artefact in place; without it, the weights are rounded
    here. The models are not modified. For `FULL` and `WIDE`, `method` makes the range of a value from its numbers on
    these feeds; the range contains 0. Raises `Unsupported` as the reference executor does.
    """
    ranges: dict[str, Range] = {}

    def run(wide: ir.Model, *, rounding: bool = False) -> Outputs:
        return [_Rounding(stored, ranges, method).outputs(wide, feed, rounding=rounding) for feed in feeds]

    exact = run(widen_model(model))
    copy = as_stored(model) if placed is None else placed
    if placed is None and stored not in VALUES:
        _round_weights(copy.graph, stored)
    ranges.clear()  # the passes renamed values
    wide = widen_model(copy)
    plain = run(wide) if placed is not None or stored in _WITH_RANGES else None  # this run records the ranges
    dtype = VALUES.get(stored)
    rounded = half_precision_outputs(copy, feeds, dtype) if dtype else run(wide, rounding=True)
    return NarrowedOutputs(exact, rounded, None if placed is None else plain)


class _Rounding(Executor):
    """A reference executor that rounds the values of the outermost graph as they are stored."""

    def __init__(self, stored: str, ranges: dict[str, Range], method: RangeMethod) -> None:
        super().__init__(set(), every=False)
        self.stored, self.ranges, self.method, self.rounding = stored, ranges, method, False
        self.blocks = Blocks.of(stored)

    def outputs(self, wide: ir.Model, feed: Mapping[str, np.ndarray], *, rounding: bool) -> dict[str, np.ndarray]:
        self.rounding = rounding
        inputs = [np.asarray(feed[str(v.name)]) for v in wide.graph.inputs]
        inputs = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
        with np.errstate(all="ignore"):
            results = self.graph(wide.graph, inputs)
        return {str(v.name): x for v, x in zip(wide.graph.outputs, results, strict=True)}

    def _store(self, value: ir.Value, array: Any) -> None:
        stepped = self.stored in _OF_LITE or (self.stored == STEPS and holds_floats(array) and not is_unbounded(array))
        if stepped and self.depth == 1 and holds_floats(array) and not is_fused(value, self.stored):
            producer = value.producer()
            fixed = _RANGES[self.stored].get(producer.op_type) if producer is not None else None
            array = self._round_value(str(value.name), array, fixed)
        super()._store(value, array)

    def _round_value(self, name: str, array: np.ndarray, fixed: Range | None) -> np.ndarray:
        """Return a value rounded to its range; while ranges are unknown, record the range and return the value.

        `fixed` is a range that the kernel prescribes.
        """
        if self.rounding:
            return round_to_steps(array, *self.ranges[name]) if name in self.ranges else array
        low, high = fixed or range_of(array, self.method)
        before = self.ranges.get(name, (low, high))
        self.ranges[name] = min(low, before[0]), max(high, before[1])
        return np.clip(array, *fixed) if fixed == _SHORT else array

    def results(self, node: ir.Node, inputs: list[Any]) -> Sequence[Any]:
        if (
            self.rounding
            and self.stored == WEIGHTS
            and _channel_axis(node) is not None
            and _is_large_weight(node.inputs[1])
        ):
            # One range for each example of a batch, or for each row of a matrix.
            x = inputs[0]
            axes = tuple(range(1, x.ndim)) if "Conv" in node.op_type else (x.ndim - 1,)
            inputs = [round_to_steps(x, x.min(axes, keepdims=True), x.max(axes, keepdims=True)), *inputs[1:]]
        if self.rounding and self.stored == WHOLE_TENSORS and _channel_axis(node) is not None:
            inputs = [round_to_steps(inputs[0], inputs[0].min(), inputs[0].max()), *inputs[1:]]
        blocks = self.blocks if self.rounding else None
        if blocks is not None and blocks.activations and node.op_type == "MatMul" and _channel_axis(node):
            inputs = [round_blocks(inputs[0], blocks.size, -1, furthest=_MOST_STEPS), *inputs[1:]]
        if node.op_type in RECURRENT:
            inputs[1:3] = self._cell(node, inputs[1], inputs[2])
        return super().results(node, inputs)

    def _cell(self, node: ir.Node, w: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the weights of a recurrent layer as arrays that round the results of operations with them."""
        if self.stored in _OF_LITE and self.depth == 1:
            name = f"{node.op_type} of {node.outputs[0].name}"
            return cell_weights(w, r, lambda at, array, fixed: self._round_value(f"{name}, {at}", array, fixed))
        if self.stored == WEIGHTS and self.rounding:
            given = zip(node.inputs[1:3], (w, r), strict=True)
            return tuple(x.view(RowRoundedWeights) if _is_large_weight(v) else x for v, x in given)
        return w, r


def is_fused(value: ir.Value, stored: str) -> bool:
    """Return whether a runtime fuses the consumer of a value into the same kernel, so that the value is never stored.

    onnxruntime's tools store the value between MatMul and the Add of its bias.
    """
    uses = list(value.uses())
    producer = value.producer()
    if producer is None or len(uses) != 1 or value.is_graph_output():
        return False
    reader = uses[0][0]
    if stored == STEPS and producer.op_type == "MatMul":
        return False
    biased = producer.op_type in _WEIGHTED and reader.op_type == "Add" and any(_is_constant(v) for v in reader.inputs)
    return biased or (reader.op_type in ("Relu", "Clip") and producer.op_type in (*_WEIGHTED, "Add", "Mul", "Sub"))


def _is_constant(value: ir.Value | None) -> bool:
    return _stored_tensor(value) is not None


def _stored_tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a constant, or its integers if it is stored quantized, possibly with its axes permuted."""
    while value is not None and value.const_value is None:
        node = value.producer()
        if node is None or node.op_type not in ("DequantizeLinear", "Transpose", "Reshape", "Squeeze", "Unsqueeze"):
            return None
        value = node.inputs[0]
    return None if value is None else value.const_value


def _is_large_weight(value: ir.Value | None) -> bool:
    """Return whether a weight is large enough to be rounded (in a recurrent layer: per direction)."""
    tensor = _stored_tensor(value)
    if value is None or tensor is None:
        return False
    ways = dims_of(tensor)[0] if _is_cell_weight(value) else 1
    return tensor.size >= _LEAST * ways


def _is_cell_weight(value: ir.Value) -> bool:
    """Return whether a value is the input or recurrent weight of a recurrent layer."""
    return any(use.node.op_type in RECURRENT and use.idx in (1, 2) for use in value.uses())


def _channel_axis(node: ir.Node) -> int | None:
    """Return the axis of the weight that holds the output channels; None for operators without a weight."""
    if node.op_type not in _WEIGHTED or node.domain != "" or not _is_constant(node.inputs[1]):
        return None
    if node.op_type == "Gemm":
        transposed = node.attributes.get("transB")
        return 0 if transposed is not None and transposed.as_int() else 1
    return {"Conv": 0, "ConvTranspose": 1, "MatMul": -1}[node.op_type]


def _round_weights(graph: ir.Graph, stored: str) -> None:
    """Round the content of floating initializers as it is stored."""
    blocks = Blocks.of(stored)
    for value in graph.initializers.values():
        tensor = value.const_value
        if tensor is None or tensor.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE) or not value.uses():
            continue
        node, index = next(iter(value.uses()))
        axis = _channel_axis(node) if index == 1 else None
        if stored in (HALF, BRAIN):
            value.const_value = _map_content(tensor, round_to_float16 if stored == HALF else round_to_bfloat16)
        elif blocks is not None:
            if axis is not None and "Conv" not in node.op_type and len(dims_of(tensor)) == 2:
                along, furthest = 1 if axis % 2 == 0 else 0, -(1 << blocks.bits - 1)
                change = partial(round_blocks, size=blocks.size, axis=along, furthest=furthest)
                value.const_value = _map_content(tensor, change)
        elif stored in (WHOLE_TENSORS, WEIGHT_STEPS):
            if axis is not None:
                value.const_value = _map_content(tensor, partial(round_symmetric, axis=axis))
        elif _is_cell_weight(value):
            if stored in _OF_LITE or (stored != STEPS and _is_large_weight(value)):
                value.const_value = _map_content(tensor, _round_by_gate)
        elif axis is not None and (stored in _WITH_RANGES or _is_large_weight(value)):
            value.const_value = _map_content(tensor, partial(round_symmetric, axis=axis))
        elif stored in _WITH_RANGES and axis is None and tensor.size > 1 and not _is_bias(node, index):
            value.const_value = _map_content(tensor, partial(round_symmetric, axis=None))


def _map_content(tensor: ir.TensorProtocol, change: Callable[[np.ndarray], np.ndarray]) -> ir.TensorProtocol:
    return lazy_tensor(tensor.dtype, dims_of(tensor), lambda: change(tensor.numpy()), tensor.name)


def _round_by_gate(array: np.ndarray) -> np.ndarray:
    """Return weights [directions, gates · hidden, n] of a recurrent layer, rounded per gate and hidden unit."""
    return round_symmetric(array.reshape(-1, array.shape[-1]), 0).reshape(array.shape)


def _is_bias(node: ir.Node, index: int) -> bool:
    """Return whether an input is added to sums in 32 bits, and so is not rounded."""
    if node.op_type in RECURRENT:
        return index == 3
    if node.op_type in _WEIGHTED:
        return index == 2
    other = node.inputs[1 - index] if node.op_type == "Add" and len(node.inputs) == 2 else None
    producer = other.producer() if other is not None else None
    return producer is not None and producer.op_type in _WEIGHTED and len(list(other.uses())) == 1  # type: ignore[union-attr]
