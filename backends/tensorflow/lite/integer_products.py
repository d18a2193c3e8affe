"""Products of 8-bit integers, which Keras's quantized layers write as products of int32."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.values import nodes_of

_NARROW = (ir.DataType.INT8, ir.DataType.UINT8)


def find_integer_products(model: ir.Model) -> bool:
    """Replace each MatMul of two values cast from 8 bits to int32 by a MatMulInteger; return whether there was one.

    TensorFlow Lite has no product of int32, while MatMulInteger is computed in float32 without rounding.
    """
    modified = False
    for node in nodes_of(model.graph):
        if node.op_type != "MatMul" or node.domain or node.outputs[0].dtype != ir.DataType.INT32:
            continue
        narrow = [_before_cast(value) for value in node.inputs]
        if all(value is not None for value in narrow):
            node.op_type, modified = "MatMulInteger", True
            for place, value in enumerate(narrow):
                node.replace_input_with(place, value)
    return modified


def _before_cast(value: ir.Value | None) -> ir.Value | None:
    """Return the 8-bit value that is cast to another dtype; None for anything else."""
    node = value.producer() if value is not None else None
    if node is None or node.op_type != "Cast" or node.domain or node.inputs[0] is None:
        return None
    return node.inputs[0] if node.inputs[0].dtype in _NARROW else None
