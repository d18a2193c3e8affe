"""Walks the graph, lets each node's rule append its operators, and lists all nodes that have none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx_ir as ir

from convert.errors import Location, Problem, Unsupported
from convert.graph import location_of
from convert.graph.tensors import dtype_name
from convert.graph.values import is_used, known_dims
from convert.rules.emitter import GraphEmitter
from convert.rules.onnx_schemas import operator_of

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
    outputs = NetEmitter(net, problems).run(graph, values)
    if problems:
        raise Unsupported(problems=problems)
    for value, made in zip(graph.outputs, outputs, strict=True):
        net.outputs += [_output(net, name, blob) for name, blob in output_blobs(str(value.name), made)]
    _drop_unused(net)
    return net


class NetEmitter(GraphEmitter):
    """Appends operators to `net`, and collects what cannot be emitted in `problems`."""

    def __init__(self, net: Net, problems: list[Problem]) -> None:
        super().__init__()
        self.net = net
        self.problems = problems

    def weight(self, value: ir.Value) -> Blob:
        return Blob(str(value.name), _dtype(value), known_dims(value), value.const_value)

    def apply(self, node: ir.Node, inputs: list[Any], attributes: dict[str, Any], at: Location) -> tuple[Any, ...]:
        start = len(self.net.ops)
        try:
            made = self._apply_rule(node, inputs, attributes, at)
        except Unsupported as error:
            # Continue with dtypes and shapes alone, so that all problems of the graph are listed.
            self.problems.extend(error.problems)
            if any(v.type is not None and not isinstance(v.type, ir.TensorType) for v in node.outputs):
                raise Unsupported(problems=self.problems) from error
            made = [Blob(str(v.name), v.dtype or ir.DataType.FLOAT, known_dims(v)) for v in node.outputs]
        fresh = {blob for op in self.net.ops[start:] for blob in op.outputs}
        inferred = _inferred_shapes(node, inputs)
        for index, (value, blob) in enumerate(zip(node.outputs, made, strict=False)):
            if isinstance(blob, Blob) and blob in fresh:
                fresh.remove(blob)
                _name_blob(self.net, blob, value, inferred[index])
        return tuple(made)

    def _apply_rule(self, node: ir.Node, inputs: list[Any], attributes: dict[str, Any], at: Location) -> Sequence[Any]:
        self.net.label, self.net.results = str(node.outputs[0].name), node.outputs
        constants = constant_outputs(node, inputs)
        if constants is not None:
            return [self.net.const(tensor) for tensor in constants]
        made = onnx_op.apply(self.net, operator_of(node), inputs, attributes, at)
        made = [made] if isinstance(made, (Blob, BlobSequence, OptionalBlob)) else list(made)
        for value in node.outputs[len(made) :]:
            if is_used(value):
                raise Unsupported(problems=[Problem(f"its output {value.name!r} has no Caffe2 counterpart", at)])
        return made

    def subgraph(self, graph: ir.Graph, around: Values) -> SubgraphEmitter:
        around = dict(around)

        def body(net: Net, *inputs: Any) -> list[Any]:
            return NetEmitter(net, self.problems).run(graph, {**around, **dict(zip(graph.inputs, inputs, strict=True))})

        return SubgraphEmitter(graph, body)


def _inferred_shapes(node: ir.Node, inputs: Sequence[Any]) -> Sequence[tuple[Dim, ...] | None]:
    """Return shapes of the outputs if the graph does not know them, as in a function body."""
    if all(v.shape is not None and v.shape.is_static() for v in node.outputs):
        return [None] * len(node.outputs)
    return output_shapes(node, inputs)


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
