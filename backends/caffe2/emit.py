"""Walks the graph, lets each node's rule append its operators, and lists all nodes that have none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx_ir as ir

from convert.errors import Location, Problem, Unsupported
from convert.graph import location_of
from convert.graph.tensors import dtype_name
from convert.graph.values import is_used, known_dims
from convert.rules.onnx_schemas import operator_of, plain_value

from . import ops  # noqa: F401  (fills the table)
from .blob import Blob, Dim
from .common.dtypes import NUMBERS
from .common.loops import SubgraphEmitter
from .common.sequence_values import BlobSequence, OptionalBlob, output_blobs
from .constant_eval import constant_outputs, merge_shapes, output_shapes
from .net import Net
from .rules import onnx_op

Values = dict[ir.Value, Any]
"""Blobs by value; sequences and optionals are objects of `nested`."""


def emit(model: ir.Model, aten: bool = False) -> Net:
    """Return the Caffe2 net of a legalized graph, with blobs named as the graph's values.

    Raises one `Unsupported` that lists every operator, attribute and dtype that Caffe2 or this backend lacks.
    """
    graph = model.graph
    problems = list(_missing_problems(graph))
    if problems:
        raise Unsupported(problems=problems, hint="add a rule with --rules FILE, or replace the operator in the model")
    net = Net(aten=aten)
    net.reserve(_names(graph))
    values: Values = {}
    for value in graph.inputs:
        if isinstance(value.type, ir.OptionalType):
            values[value] = OptionalBlob(None)  # no facts are known, so the input is absent
            continue
        if isinstance(value.type, ir.SequenceType):
            hint = f"name its elements: --input {value.name}_0 --input {value.name}_1 …"
            raise Unsupported(f"the input {value.name!r} is a sequence, and Caffe2 has none", hint=hint)
        values[value] = Blob(str(value.name), _dtype(value), known_dims(value))
        net.inputs.append(values[value])
    for value in graph.initializers.values():
        assert value.const_value is not None
        values.setdefault(value, Blob(str(value.name), _dtype(value), known_dims(value), value.const_value))
    _emit_nodes(net, graph, values, problems)
    if problems:
        raise Unsupported(problems=problems)
    for value in graph.outputs:
        net.outputs += [_output(net, name, blob) for name, blob in output_blobs(str(value.name), values[value])]
    _drop_unused(net)
    return net


def _emit_nodes(net: Net, graph: ir.Graph, values: Values, problems: list[Problem]) -> None:
    for node in graph:
        start = len(net.ops)
        try:
            made = _apply_rule(net, node, values, problems)
        except Unsupported as error:
            # Continue with dtypes and shapes alone, so that all problems of the graph are listed.
            problems.extend(error.problems)
            if any(v.type is not None and not isinstance(v.type, ir.TensorType) for v in node.outputs):
                raise Unsupported(problems=problems) from error
            made = [Blob(str(v.name), v.dtype or ir.DataType.FLOAT, known_dims(v)) for v in node.outputs]
        fresh = {blob for op in net.ops[start:] for blob in op.outputs}
        inferred = _inferred_shapes(node, values)
        for index, (value, blob) in enumerate(zip(node.outputs, made, strict=False)):
            if isinstance(blob, Blob) and blob in fresh:
                fresh.remove(blob)
                _name_blob(net, blob, value, inferred[index])
            values[value] = blob


def _apply_rule(net: Net, node: ir.Node, values: Values, problems: list[Problem]) -> Sequence[Blob]:
    net.label, net.results = str(node.outputs[0].name), node.outputs
    inputs = [None if v is None else values[v] for v in node.inputs]
    attributes = {a.name: _attribute(a, values, problems) for a in node.attributes.values()}
    operator, at = operator_of(node), location_of(node)
    if (constants := constant_outputs(node, inputs)) is not None:
        return [net.const(tensor) for tensor in constants]
    made = onnx_op.apply(net, operator, inputs, attributes, at)
    made = [made] if isinstance(made, (Blob, BlobSequence, OptionalBlob)) else list(made)
    for value in node.outputs[len(made) :]:
        if is_used(value):
            raise Unsupported(problems=[Problem(f"its output {value.name!r} has no Caffe2 counterpart", at)])
    return made


def _attribute(attribute: ir.Attr, values: Values, problems: list[Problem]) -> Any:
    if attribute.type == ir.AttributeType.GRAPH:
        return _subgraph_body(attribute.as_graph(), values, problems)
    return plain_value(attribute.value) if attribute.type != ir.AttributeType.TENSOR else attribute.value


def _subgraph_body(graph: ir.Graph, values: Values, problems: list[Problem]) -> SubgraphEmitter:
    def body(net: Net, *inputs: Any) -> list[Any]:
        values.update(zip(graph.inputs, inputs, strict=True))
        for value in graph.initializers.values():
            values[value] = Blob(str(value.name), _dtype(value), known_dims(value), value.const_value)
        _emit_nodes(net, graph, values, problems)
        return [values[v] for v in graph.outputs]

    return SubgraphEmitter(graph, body)


def _inferred_shapes(node: ir.Node, values: Values) -> Sequence[tuple[Dim, ...] | None]:
    """Return shapes of the outputs if the graph does not know them, as in a function body."""
    if all(v.shape is not None and v.shape.is_static() for v in node.outputs):
        return [None] * len(node.outputs)
    return output_shapes(node, [None if v is None else values[v] for v in node.inputs])


def _name_blob(net: Net, blob: Blob, value: ir.Value, inferred: tuple[Dim, ...] | None) -> None:
    """Give the blob that a rule returned the name and the facts of the node's output.

    Nodes of an unrolled loop are emitted repeatedly; only the first gets the name unchanged.
    """
    blob.name = net.claim(str(value.name)) if value.name else blob.name
    blob.dtype = blob.dtype if value.dtype is None else value.dtype
    blob.shape = merge_shapes(known_dims(value), inferred, blob.shape)


def _output(net: Net, name: str, blob: Blob) -> Blob:
    """Return the blob of a graph output, under its name; a copy if it is an input, a constant or another output."""
    if blob.name == name and blob.content is None and blob not in net.outputs:
        return blob
    net.label = name
    copy = net.facts(net.Copy(blob), blob.dtype, blob.shape)
    copy.name = name
    return copy


def _drop_unused(net: Net) -> None:
    needed = set(net.outputs)
    kept = []
    for op in reversed(net.ops):
        if needed.intersection(op.outputs):
            needed.update(op.reads())
            kept.append(op)
    net.ops = kept[::-1]


def _missing_problems(graph: ir.Graph) -> Iterable[Problem]:
    """Yield operators without a rule, and values of a dtype that Caffe2 lacks."""
    nodes = list(ir.traversal.RecursiveGraphIterator(graph))
    try:
        onnx_op.check_nodes((n, location_of(n)) for n in nodes)
    except Unsupported as error:
        yield from error.problems
    weights = [v for v in graph.initializers.values() if is_used(v)]
    bad: dict[str, list[tuple[ir.Value, Location]]] = {}
    for value in (*graph.inputs, *weights, *(o for n in nodes for o in n.outputs if is_used(o))):
        if value.dtype is not None and value.dtype not in NUMBERS:
            producer = value.producer()
            at = location_of(producer) if producer is not None else Location("tensor", str(value.name))
            bad.setdefault(dtype_name(value.dtype), []).append((value, at))
    for name, places in bad.items():
        yield Problem(f"Caffe2 has no {name} tensors", places[0][1], len(places))


def _names(graph: ir.Graph) -> Iterable[str]:
    inner = [n.graph for n in ir.traversal.RecursiveGraphIterator(graph) if n.graph is not None]
    for one in {id(g): g for g in (graph, *inner)}.values():
        yield from (str(v.name) for v in (*one.inputs, *one.initializers.values()))
        yield from (str(o.name) for n in one for o in n.outputs if o.name)


def _dtype(value: ir.Value) -> ir.DataType:
    if value.dtype is None:
        raise Unsupported(f"the dtype of {value.name!r} is unknown")
    return value.dtype
