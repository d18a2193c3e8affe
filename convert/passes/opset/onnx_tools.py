"""Passes single nodes to ONNX's own tools: its version converter and the function bodies of its schemas."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx
import onnx.checker
import onnx.inliner
import onnx.version_converter
import onnx_ir as ir

from convert.graph.node_inference import type_proto
from convert.graph.shape_inference import SMALL
from convert.passes.opset.compare_schemas import late_value, wrong_types

IR_VERSION = 10


def version_convert(nodes: Sequence[ir.Node], version: int, target: int) -> list[ir.Graph | str]:
    """Return the graph that ONNX's version converter makes of each node, or the reason why it fails.

    All nodes are converted in one call (a call costs milliseconds); if it fails, each half is tried.
    """
    if not nodes:
        return []
    try:
        model = _model([_SingleNode(node, f"n{k}") for k, node in enumerate(nodes)], version)
        converted = onnx.version_converter.convert_version(model, target)
        # The converter accepts attributes and attribute values that the target opset does not have.
        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = IR_VERSION, {"": target}
        for node in converted.graph.node:
            onnx.checker.check_node(node, context)
            if late := late_value(node, target):
                raise ValueError(f"{late} came later")
    except Exception as error:  # the binding raises RuntimeError, ConvertError and others for unsupported nodes
        if len(nodes) == 1:
            return [_failure_reason(error, nodes[0], version, target)]
        half = len(nodes) // 2
        return version_convert(nodes[:half], version, target) + version_convert(nodes[half:], version, target)
    return _split_by_node(converted.graph, nodes)


def expand_function(node: ir.Node, version: int) -> ir.Graph | str:
    """Return the body of the operator's ONNX function for this node, or the reason why it has none."""
    schema = onnx.defs.get_schema(node.op_type, version, "")
    if not (schema.has_function or schema.has_context_dependent_function):  # type: ignore[attr-defined]
        return f"ONNX defines no function for {node.op_type}"
    lone = _SingleNode(node, "n0")
    given = {a.name for a in lone.proto.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            lone.proto.attribute.append(attribute.default_value)
    try:
        # The inliner reads the types that a function depends on from inputs, but not from initializers.
        model = onnx.inliner.inline_selected_functions(
            _model([lone], version, largest=-1), [("", node.op_type)], exclude=False, inline_schema_functions=True
        )
    except Exception as error:  # the binding raises many types
        return " ".join(str(error).split())
    if any(n.op_type == node.op_type for n in model.graph.node):
        return f"ONNX's function for {node.op_type} does not apply to these inputs"
    return _graph(model.graph.node, model.graph.initializer, node, "n0")


class _SingleNode:
    """A node as a separate proto, with inputs and outputs renamed by position."""

    def __init__(self, node: ir.Node, prefix: str) -> None:
        self.proto = ir.serde.serialize_node(node)
        self.node = node
        del self.proto.input[:], self.proto.output[:]
        self.proto.input.extend("" if v is None else f"{prefix}_i{i}" for i, v in enumerate(node.inputs))
        self.proto.output.extend(f"{prefix}_o{i}" if v.name else "" for i, v in enumerate(node.outputs))
        self.proto.name = prefix


def _model(lones: Sequence[_SingleNode], version: int, largest: int = SMALL) -> onnx.ModelProto:
    """Return a model of unconnected nodes; constants of up to `largest` bytes are initializers, others inputs."""
    graph = onnx.GraphProto(name="g")
    for lone in lones:
        graph.node.append(lone.proto)
        for name, value in zip(lone.proto.input, lone.node.inputs, strict=True):
            if value is None:
                continue
            content = ir.convenience.get_const_tensor(value)
            if content is not None and content.nbytes <= largest:
                tensor = ir.serde.serialize_tensor(content)
                tensor.name = name
                graph.initializer.append(tensor)
            else:
                graph.input.append(onnx.ValueInfoProto(name=name, type=type_proto(value)))
        for name, value in zip(lone.proto.output, lone.node.outputs, strict=True):
            if name:
                graph.output.append(onnx.ValueInfoProto(name=name, type=type_proto(value)))
    opset = onnx.helper.make_opsetid("", version)
    return onnx.ModelProto(ir_version=IR_VERSION, graph=graph, opset_import=[opset])


def _split_by_node(graph: onnx.GraphProto, nodes: Sequence[ir.Node]) -> list[ir.Graph | str]:
    """Split a converted graph of unconnected nodes, by what each node's outputs depend on."""
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    parts: list[ir.Graph | str] = []
    for k, node in enumerate(nodes):
        outputs = [f"n{k}_o{i}" for i, v in enumerate(node.outputs) if v.name]
        wanted, seen = list(outputs), set[int]()
        while wanted:
            name = wanted.pop()
            if name in makers and makers[name] not in seen:
                seen.add(makers[name])
                wanted.extend(graph.node[makers[name]].input)
        parts.append(_graph([graph.node[i] for i in sorted(seen)], graph.initializer, node, f"n{k}"))
    return parts


def _graph(
    nodes: Sequence[onnx.NodeProto], initializers: Sequence[onnx.TensorProto], node: ir.Node, prefix: str
) -> ir.Graph:
    """Return `nodes` as a graph with the inputs and outputs of `node`, which are named by `prefix` and position."""
    part = onnx.GraphProto(name="g", node=nodes)
    formals = [f"{prefix}_i{i}" for i, v in enumerate(node.inputs) if v is not None]
    used = {name for n in nodes for name in n.input}
    part.initializer.extend(t for t in initializers if t.name in used and t.name not in formals)
    part.input.extend(onnx.ValueInfoProto(name=name) for name in formals)
    outputs = [f"{prefix}_o{i}" for i, v in enumerate(node.outputs) if v.name]
    part.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return ir.serde.deserialize_graph(part)


def _failure_reason(error: Exception, node: ir.Node, version: int, target: int) -> str:
    """Return the converter's error text without its source lines and assertions."""
    schema = onnx.defs.get_schema(node.op_type, target, "")
    text = wrong_types(node, schema) if target < version else ""
    if not text:
        text = re.sub(r"^\S+\.(?:h|cc):\d+: |\w+: Assertion `.*?` failed: ?", "", " ".join(str(error).split()))
    return f"opset {target} cannot express it" + (f" ({text[:200].strip()})" if text.strip() else "")
