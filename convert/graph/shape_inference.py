"""Infers dtypes and shapes of a whole model by ONNX's own inference, on a copy without the weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
import onnx_ir as ir

from convert import limits
from convert.graph.node_inference import correct_inference, type_proto
from convert.graph.tensors import dims_of
from convert.graph.values import known_dims

SMALL = 4096
"""Weights of at most this many bytes take part in inference and version conversion (shapes, axes, scales)."""


def infer_facts(model: ir.Model) -> None:
    """Set dtype and shape of every value of `model`, including subgraphs, as far as ONNX's inference finds them.

    Shapes are inferred from scratch, because the `value_info` in a file may be stale. Where inference finds nothing,
    the earlier facts stay. Graph inputs and outputs keep every dim that they declare. A dim becomes unknown if
    inference invents a name for it. Shapes that inference gets wrong (see `correct_inference`) are corrected, and
    inference is repeated with them.
    """
    proto = weightless_proto(model, value_info=False)
    proto.opset_import.add(domain=_CORRECTED, version=1)
    names = _dim_names(proto.graph)
    before = [(v, v.shape) for node in model.graph.all_nodes() for v in node.outputs]
    for _ in range(_ROUNDS):
        try:
            inferred = infer_proto(proto)
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
            return
        _copy_facts(model.graph, inferred.graph, names)
        if not _keep_corrections(model.graph, proto.graph):
            return
        for value, shape in before:  # drop shapes derived from a wrong one, even if inference finds no other
            value.shape = shape


_CORRECTED, _ROUNDS = "convert.corrected", 16


def _keep_corrections(graph: ir.Graph, proto: onnx.GraphProto) -> bool:
    """Make inference keep the corrected shapes of nodes in `graph`; return whether there are any.

    Changes `proto`: the nodes get a domain without schemas, so that inference keeps the declared types of their
    outputs.
    """
    found = False
    for node, copied in zip(graph, proto.node, strict=True):
        if not copied.domain and correct_inference(node):
            found = True
            copied.domain = _CORRECTED
            outputs = {value.name: value for value in proto.output}
            for output in node.outputs:
                if output.name and not output.is_graph_output():
                    proto.value_info.append(onnx.ValueInfoProto(name=output.name, type=type_proto(output)))
                elif output.name in outputs and not outputs[output.name].type.tensor_type.HasField("shape"):
                    outputs[output.name].type.CopyFrom(type_proto(output))
        for inner, body in _bodies(node, copied):
            found |= _keep_corrections(inner, body)
    return found


def infer_proto(proto: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """Return `proto` with the types that ONNX infers.

    Inference uses the contents of constant shape vectors, unless a vector is too long for that.

    With `data_prop`, ONNX creates an object for every element of each vector of known length, whatever its dtype: a
    graph of 60 Concats exhausts the memory. Raises as `onnx.shape_inference.infer_shapes` does.
    """
    plain = onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=False)
    if _vector_elements(plain.graph) > limits.SHAPE_DATA_ELEMENTS:
        if not strict:
            return plain
        return onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=True, data_prop=False)
    return onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=strict, data_prop=True)


def _vector_elements(graph: onnx.GraphProto) -> int:
    """Return the number of elements of all vectors of known length, including those in subgraphs."""
    count = 0
    for value in (*graph.input, *graph.value_info, *graph.output):
        shape = value.type.tensor_type.shape
        count += shape.dim[0].dim_value if len(shape.dim) == 1 else 0
    for node in graph.node:
        for attribute in node.attribute:
            inner = [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
            count += sum(map(_vector_elements, inner))
    return count


def weightless_proto(model: ir.Model, *, value_info: bool = True) -> onnx.ModelProto:
    """Return `model` as a proto in which every weight of more than a few kB is a graph input. No weight is read.

    With `value_info=False`, the types of intermediate values are left out, except for operators without a schema.
    """
    copy = model.clone()
    main = copy.graph
    taken = 0
    for graph in copy.graphs():
        for name, value in list(graph.initializers.items()):
            content = value.const_value
            if content is not None and is_small(content):
                continue
            graph.initializers.pop(name)
            value.const_value = None
            if content is not None:
                value.type, value.shape = ir.TensorType(content.dtype), ir.Shape(dims_of(content))
            if graph is not main:
                taken += 1
                value.name = f"convert.weight.{taken}"
            if not value.is_graph_input():
                main.inputs.append(value)
    if not value_info:
        for node in copy.graph.all_nodes():
            if onnx.defs.has(node.op_type, node.domain):
                for output in node.outputs:
                    if not output.is_graph_output():
                        output.type = output.shape = None
    return ir.serde.serialize_model(copy)


def is_small(tensor: ir.TensorProtocol) -> bool:
    """Return whether a weight stays in the proto: at most a few kB, or strings, which have no raw bytes."""
    return tensor.dtype == ir.DataType.STRING or tensor.nbytes <= SMALL


def _copy_facts(graph: ir.Graph, inferred: onnx.GraphProto, names: set[str]) -> None:
    found = {v.name: v.type for v in (*inferred.value_info, *inferred.output)}
    for node, proto in zip(graph, inferred.node, strict=True):
        for output in node.outputs:
            if output.name in found:
                _set_facts(output, found[output.name], names)
        for subgraph, body in _bodies(node, proto):
            _copy_facts(subgraph, body, names)


def _bodies(node: ir.Node, proto: onnx.NodeProto) -> Iterator[tuple[ir.Graph, onnx.GraphProto]]:
    """Yield each graph that a node holds, with its counterpart in the proto."""
    graphs = {a.name: [a.g, *a.graphs] if a.HasField("g") else list(a.graphs) for a in proto.attribute}
    for name, attribute in node.attributes.items():
        yield from zip(subgraphs(attribute), graphs.get(name, []), strict=False)


def _set_facts(value: ir.Value, proto: onnx.TypeProto, names: set[str]) -> None:
    kind = ir.serde.deserialize_type_proto_for_type(proto)
    shape = ir.serde.deserialize_type_proto_for_shape(proto)
    if kind is not None and _is_complete_type(kind):
        value.type = kind
    if shape is None:
        return
    dims = [d if isinstance(d, int) else d.value if d.value in names else None for d in shape]
    if value.shape is not None and len(value.shape) == len(dims):
        known = known_dims(value) or ()
        declared = value.is_graph_output()
        pairs = zip(known, dims, strict=True)
        dims = [old if new is None or (declared and old is not None) else new for old, new in pairs]
    elif value.shape is not None and value.is_graph_output():
        return
    value.shape = ir.Shape(dims)


def _is_complete_type(kind: ir.TypeProtocol) -> bool:
    try:
        return kind.dtype != ir.DataType.UNDEFINED
    except (AttributeError, TypeError):
        return False


def subgraphs(attribute: ir.Attr) -> list[ir.Graph]:
    """Return the graphs that an attribute holds: the branches of If, the bodies of Loop and Scan."""
    if attribute.type == ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    return list(attribute.as_graphs()) if attribute.type == ir.AttributeType.GRAPHS else []


def with_inner_nodes(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield the nodes, and the nodes in their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attributes.values():
            for graph in subgraphs(attribute):
                yield from graph.all_nodes()


def _dim_names(graph: onnx.GraphProto) -> set[str]:
    values = [*graph.input, *graph.output, *graph.value_info]
    return {d.dim_param for v in values for d in v.type.tensor_type.shape.dim if d.dim_param}
