"""Quantized weights, which Keras trains as floating-point weights."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.values import constant

from ..constants import constant_of
from ..rules import onnx_op


def is_weight(node: ir.Node) -> bool:
    """Return whether a node dequantizes a constant, with a scale per tensor or per index of an axis."""
    constants = [constant(value) is not None for value in node.inputs if value is not None]
    return all(constants) and node.attributes.get_int("block_size", 0) == 0


@onnx_op("DequantizeLinear", when=is_weight, otherwise="a quantized tensor that is no weight")
def dequantize_linear(k, x, scale, zero, *, axis, block_size, output_dtype):
    """Return the floating-point weight that a quantized weight represents; it can be trained."""
    per_axis = len(scale.shape) == 1 and scale.size > 1
    shape = [-1 if per_axis and i == axis % len(x.shape) else 1 for i in range(len(x.shape))]
    numbers = x.array.astype(scale.dtype)
    if zero is not None:
        numbers = numbers - zero.array.astype(scale.dtype).reshape(shape)
    return constant_of(numbers * scale.array.reshape(shape), x.name)
