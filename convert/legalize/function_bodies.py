"""The function bodies by which ONNX defines operators, as calls that the inliner replaces."""

from __future__ import annotations

from typing import Any

import onnx as onnx_package
import onnx_ir as ir

from convert.graph import OPSET
from convert.graph.metadata import MODULE_KEY, OPERATOR_KEY, SOURCE_KEY
from convert.graph.values import nodes_of
from convert.rules.onnx_schemas import onnx_schema, operator_of

_DOMAIN = "convert.expanded"


def call_function(model: ir.Model, node: ir.Node, name: str) -> bool:
    """Turn `node` into a call of its own copy of its operator's function; return whether there is a function."""
    function = function_body(node, model.opset_imports.get("", OPSET))
    if function is None:
        return False
    # Defaults are part of the operator's schema; the function refers to its attributes even if they are omitted.
    schema = onnx_schema(operator_of(node))
    assert schema is not None
    for attribute in schema.attributes.values():
        if attribute.name not in node.attributes and attribute.default_value.name:
            node.attributes.add(ir.serde.deserialize_attribute(attribute.default_value))
    for inner in nodes_of(function.graph):
        inner.metadata_props.setdefault(OPERATOR_KEY, operator_of(node))
        for key in (MODULE_KEY, SOURCE_KEY):
            if key in node.metadata_props:
                inner.metadata_props[key] = node.metadata_props[key]
    node.resize_inputs(len(function.inputs))
    node.resize_outputs(len(function.outputs))
    node.domain, node.op_type, node.overload = _DOMAIN, name, ""
    function.domain, function.name, function.overload = _DOMAIN, name, ""
    model.functions[function.identifier()] = function
    model.opset_imports.setdefault(_DOMAIN, 1)
    function.opset_imports.update({"": model.opset_imports.get("", OPSET)})
    return True


def has_function(operator: str) -> bool:
    """Return whether ONNX defines a function for an operator, for some dtypes at least."""
    schema: Any = onnx_schema(operator)  # onnx's stubs are incomplete
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def function_body(node: ir.Node, opset: int) -> ir.Function | None:
    """Return the function body of the node's operator at this opset; None if ONNX defines none for these types."""
    schema: Any = onnx_schema(operator_of(node))  # onnx's stubs are incomplete
    if schema is None:
        return None
    proto = None
    if schema.has_function:
        proto = schema.get_function_with_opset_version(_newest_version(schema.function_opset_versions, opset))
    elif schema.has_context_dependent_function:
        version = _newest_version(schema.context_dependent_function_opset_versions, opset)
        types = [_type(v) for v in node.inputs]
        if None not in types:
            data = ir.serde.serialize_node(node).SerializeToString()
            encoded = schema.get_context_dependent_function_with_opset_version(version, data, types)
            proto = onnx_package.FunctionProto.FromString(encoded) if encoded else None
    return None if proto is None else _function(_parsed_function(proto), node)


def _function(proto: onnx_package.FunctionProto, node: ir.Node) -> ir.Function | None:
    """Return the body without the trailing optional outputs that it does not compute.

    Returns None if it does not fit the node.
    """
    made = {name for inner in proto.node for name in inner.output}
    while proto.output and proto.output[-1] not in made:
        proto.output.pop()
    graphs = any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values())
    # onnx_ir does not inline functions with graph attributes (SequenceMap, FlexAttention).
    if graphs or any(name not in made for name in proto.output) or len(proto.output) < _output_count(node):
        return None
    return ir.serde.deserialize_function(proto)


def _newest_version(versions: list[int], opset: int) -> int:
    """Return the newest version that the opset has, else the oldest."""
    return max((v for v in versions if v <= opset), default=min(versions))


def _parsed_function(proto: onnx_package.FunctionProto | bytes) -> onnx_package.FunctionProto:
    return onnx_package.FunctionProto.FromString(proto) if isinstance(proto, bytes) else proto


def _type(value: ir.Value | None) -> bytes | None:
    proto = onnx_package.TypeProto()
    if value is None:
        return proto.SerializeToString()
    if value.type is None:
        return None
    ir.serde.serialize_type_into(proto, value.type)
    if value.shape is not None:
        ir.serde.serialize_shape_into(proto, value.shape)
    return proto.SerializeToString()


def _output_count(node: ir.Node) -> int:
    """Return the number of outputs, up to the last one with a name."""
    return max((i + 1 for i, v in enumerate(node.outputs) if v.name), default=0)
