"""ONNX's shape inference for one node of the shared graph."""

from __future__ import annotations

import onnx
import onnx_ir as ir

# Constants up to this many bytes take part in inference (shapes, axes).
_SMALL = 4096


def infer(node: ir.Node, schema: onnx.defs.OpSchema) -> None:
    """Set the dtype and shape of a node's outputs by ONNX's inference for that one node.

    Facts stay unknown where inference cannot tell; nodes with subgraphs are left to their rule.
    """
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for value in node.inputs:
        if value is None:
            continue
        if value.type is None or value.name is None:
            return
        types[value.name] = type_proto(value)
        content = value.const_value
        if content is not None and content.nbytes <= _SMALL and content.dtype != ir.DataType.STRING:
            data[value.name] = ir.serde.serialize_tensor(content)
    if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
        return
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, ir.serde.serialize_node(node), types, data)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise ValueError(f"{node.op_type} does not accept these inputs: {error}") from error
    for output in node.outputs:
        if output.name in found:
            kind = ir.serde.deserialize_type_proto_for_type(found[output.name])
            output.type = kind
            output.shape = ir.serde.deserialize_type_proto_for_shape(found[output.name])


def type_proto(value: ir.Value) -> onnx.TypeProto:
    """Type and shape of a value as ONNX writes them; an empty proto where nothing is known."""
    proto = onnx.TypeProto()
    if value.type is not None:
        ir.serde.serialize_type_into(proto, value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(proto, value.shape)
    return proto
