"""Frozen graphs: a GraphDef whose weights are constants. Inputs and outputs are found by structure unless named."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from convert.errors import BadInput, ConvertError, UsageError
from convert.outcome.report import Node as ListedNode
from convert.outcome.report import Report
from convert.request.nearest import did_you_mean
from convert.request.options import Options

from ..graph import opdefs
from ..graph.attributes import DTYPES, shape_of
from ..graph.control_flow_v1 import structure_control_flow
from ..graph.defaults import DEFAULTED
from ..graph.function_body import FunctionBody, Node, Ref, body_from_graph
from ..graph.lookup_tables import filled_tables
from ..graph.protos import open_buffer, parse_message
from ..program import Program, ProgramInput, lower
from ..runner.allowed import check_graph
from ..runner.graph_signature import PLACEHOLDERS, result_count, unread_nodes

_IN_MEMORY = "the GraphDef"


def read_frozen(path: Path, options: Options, report: Report) -> Program:
    """Return the program in a `.pb` file. Raises `BadInput` if it is not a GraphDef, `UsageError` for unknown tensor
    names.
    """
    buffer = open_buffer(path)
    graph = parse_graph(buffer, str(path))
    if not options.trust:
        check_graph(graph, path, options, unknown=False)
    return program_between(graph, graph.node, path.stem, str(path), options, report, buffer)


def program_from_message(graph: Any, options: Options, report: Report) -> Program:
    """Return the program in a GraphDef in memory."""
    buffer, label = memoryview(graph.SerializeToString()), _IN_MEMORY
    message = parse_graph(buffer, label)
    return program_between(message, message.node, "graph", label, options, report, buffer)


def parse_graph(buffer: memoryview, label: str) -> Any:
    """Return the GraphDef in a buffer. Raises `BadInput` if there is none."""
    graph = parse_message(buffer, "GraphDef", label)
    if not graph.node or any(not n.op or not n.name for n in graph.node):
        raise BadInput(f"{label} is not a GraphDef with nodes", hint="is it a SavedModel? then give its folder")
    return graph


def program_between(
    graph: Any, candidates: Sequence[Any], name: str, label: str, options: Options, report: Report, buffer: memoryview
) -> Program:
    """Return the program between the tensors that the user names; others are found by structure among `candidates`."""
    whole = body_from_graph(graph, name, [], [])
    functions = {f.signature.name: f for f in graph.library.function}
    outputs = [_parse_reference(whole, o, label) for o in options.outputs] or list(
        _unread_tensors(candidates, functions)
    )
    if not outputs:
        raise BadInput(f"{label} has no node that could be an output", hint="name them with --outputs")
    named = [_parse_reference(whole, s.name, label) for s in options.inputs if s.name]
    bodies: dict[str, FunctionBody] = {}
    whole = structure_control_flow(FunctionBody(name, whole.nodes, [r.node for r in named], outputs), bodies)
    starts = _input_nodes(whole, named, whole.results)
    body = FunctionBody(name, whole.nodes, [n.name for n in starts], whole.results)
    inputs = [input_of_node(whole.nodes[n.name], graph.versions.producer) for n in starts]
    cut = [i.name for i in inputs if whole.nodes[i.name].op not in (*PLACEHOLDERS, DEFAULTED)]
    if cut:
        feeds = FunctionBody(name, whole.nodes, [], [Ref(n) for n in cut])
        before = FunctionBody(
            name, whole.nodes, [n.name for n in _input_nodes(feeds, [], feeds.results)], feeds.results
        )
        sources = [input_of_node(whole.nodes[n], graph.versions.producer) for n in before.arguments]
        found = _outputs_as_inputs(Program(name, before, sources, cut, functions, buffer=buffer, bodies=bodies))
        inputs = [found.get(i.name, i) for i in inputs]
    if not options.outputs:
        # With one input and one output, there is no choice.
        plain = len(outputs) == 1 and len(inputs) == 1
        report.note(
            f"assuming outputs: {', '.join(map(_ref_name, outputs))} (no node reads them; set them with --outputs, "
            f"{_listing(label)} lists all nodes)",
            code="found-outputs" if plain else "guessed-outputs",
        )
    tables = filled_tables(body_from_graph(graph, name, [], []), functions, [], buffer)
    names = [_ref_name(o) for o in outputs]
    return Program(
        name,
        body,
        inputs,
        names,
        functions,
        _values_elsewhere(label),
        buffer=buffer,
        bodies=bodies,
        tables=tables,
        cuttable=True,
    )


def _listing(label: str, pattern: str = "*") -> str:
    """Return the command that lists the nodes of a graph whose names match `pattern`."""
    if label == _IN_MEMORY:
        return f"convert.inspect(graph, nodes={pattern!r})"
    quoted = f"'{pattern}'" if pattern == "*" else shlex.quote(pattern)
    return f"`convert inspect {shlex.quote(label)} --nodes {quoted}`"


def _values_elsewhere(label: str) -> Callable[[str, str], Any]:
    """Return a function that raises for the value of a variable, which a graph that is not frozen has in another
    file.
    """

    def refuse(node: str, shared: str) -> Any:
        folder = Path(label).parent
        beside = sorted(p for p in folder.glob("*.meta")) if label != _IN_MEMORY else []
        raise BadInput(
            f"{label} is not frozen: the value of its variable {shared or node!r} is in another file",
            hint=f"name the checkpoint that it belongs to: {beside[0]}"
            if beside
            else "name the SavedModel, or the .meta file of the checkpoint, that it was saved with; or freeze it: "
            "tf.compat.v1.graph_util.convert_variables_to_constants",
        )

    return refuse


def _near_nodes(name: str, body: FunctionBody, label: str) -> str:
    """Return a hint with the node that `name` was meant to be, or with those that have it in their names."""
    near, holding = did_you_mean(name, body.nodes), [node for node in body.nodes if name.lower() in node.lower()]
    if not near and not holding and any(node.op.lower() == name.lower() for node in body.nodes.values()):
        return f"{name} is an operator; {_listing(label, name)} lists its nodes"
    if near or not holding:
        return f"{near}{_listing(label)} lists all"
    if len(holding) == 1:
        return f"did you mean {holding[0]}? {_listing(label)} lists all"
    return f"{_listing(label, name)} lists the {len(holding):,} nodes with this in their names"


def _parse_reference(body: FunctionBody, text: str, label: str) -> Ref:
    ref = Ref.parse(text)
    if ref.node not in body.nodes:
        raise UsageError(f"the graph has no node {ref.node!r}", hint=_near_nodes(ref.node, body, label))
    return ref


def _ref_name(ref: Ref) -> str:
    return f"{ref.node}:{ref.index}" if ref.index else ref.node


def _unread_tensors(nodes: Sequence[Any], functions: dict[str, Any]) -> Iterator[Ref]:
    """Yield the tensors that nothing reads, of nodes that exist for their value."""
    for node in unread_nodes(nodes):
        yield from (Ref(node.name, "", i) for i in range(result_count(node, _output_count(node, functions))))


def _output_count(node: Any, functions: dict[str, Any]) -> int:
    op = opdefs.find(node.op)
    if op is None:
        return 1
    called = functions.get(node.attr["f"].func.name) if "f" in node.attr else None
    if called is not None:
        return len(called.signature.output_arg)
    counts = {n: v.i if v.WhichOneof("value") == "i" else v.list.type for n, v in node.attr.items()}
    return sum(arg.count(counts) for arg in op.outputs)


def node_rows(graph: Any) -> list[ListedNode]:
    """Return the nodes of a GraphDef, each with its tensors as named for `--outputs`."""
    functions = {f.signature.name: f for f in graph.library.function}
    return [
        ListedNode(n.name, n.op, tuple(_ref_name(Ref(n.name, "", i)) for i in range(_output_count(n, functions))))
        for n in graph.node
    ]


def _input_nodes(body: FunctionBody, named: list[Ref], outputs: list[Ref]) -> list[Node]:
    """Return the input nodes: those named by the user, and every other Placeholder that is needed."""
    for ref in named:
        if ref.index:
            raise UsageError(f"{_ref_name(ref)} cannot be an input: only a node's first tensor can")
    first = [body.nodes[r.node] for r in named]
    cut = FunctionBody(body.name, body.nodes, [n.name for n in first], outputs)
    live = {n.name for n in cut.live}
    return first + [n for n in body.nodes.values() if n.name in live and n.op in PLACEHOLDERS]


def _outputs_as_inputs(program: Program) -> dict[str, ProgramInput]:
    """Return the outputs of a program as inputs of the following one, as far as the first can be read."""
    try:
        values = lower(program, Options(), Report("inspect")).graph.outputs
    except ConvertError:
        return {}
    found = {}
    for value in values:
        number = next((n for n, dtype in DTYPES.items() if dtype == value.dtype), None)
        if number is not None:
            shape = None if value.shape is None else tuple(d if isinstance(d, int) else None for d in value.shape)
            found[str(value.name)] = ProgramInput(str(value.name), number, shape)
    return found


SCALARS_SINCE = 22
"""The producer version from which on a placeholder's shape without dims means a scalar (TensorFlow's array_ops.cc)."""


def input_of_node(node: Node, producer: int) -> ProgramInput:
    """Return the input that a node describes, in a graph written by this version of GraphDef."""
    kind = next((node.attr[n].type for n in ("dtype", "T", "DstT") if n in node.attr), 1)
    # Graphs express an unknown rank by a missing shape, old ones also by a shape without dims.
    shape = node.attr["shape"].shape if "shape" in node.attr else None
    known = shape is not None and not shape.unknown_rank and len(shape.dim) > 0
    says_shape = producer >= SCALARS_SINCE or node.op == DEFAULTED or "_output_shapes" in node.attr
    scalar = shape is not None and not shape.unknown_rank and says_shape
    return ProgramInput(node.name, kind, shape_of(shape) if known or scalar else None)
