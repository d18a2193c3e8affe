"""Merges two captures that took a decision in opposite ways into one graph, with an If over what differs.

Nodes that are equal in both, with equal inputs, stay before the If; those of one capture go into its branch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Dim, Graph, register_initializer
from convert.graph.metadata import DIM_KEY, SIZE_CHECK_KEY
from convert.graph.trainable import add_non_trainable, non_trainable
from convert.graph.values import is_random_node, known_dims, names_in_use, nodes_of

from .on_data import HOLDS, decision_of

DECISION_KEY = "convert.decision"
"""Metadata key of the node that computes a decision, until the captures are merged."""

MAX_PATHS = 8
"""Maximum number of captures: three decisions, or more independent ones."""


def mark_decision(g: Graph, node: torch.fx.Node, outcome: ir.Value) -> None:
    """Record in the graph which answer the decision at `node` got; `merge` looks for this."""
    holds = g.Equal(outcome, g.const(HOLDS, g.dtype(outcome)))
    maker = holds.producer()
    assert maker is not None
    maker.metadata_props[DECISION_KEY] = str(decision_of(node))


def read_each_path(read: Callable[[list[bool]], ir.Model], first: ir.Model) -> ir.Model:
    """Return the graph with every path of decisions on data; `read` returns the graph of one path, `first` is the graph
    with all answers yes.

    Raises `Unsupported` for too many paths, or if their outputs differ.
    """
    count = 0

    def from_here(path: list[bool]) -> ir.Model:
        nonlocal count
        count += 1
        if count > MAX_PATHS:
            raise Unsupported(f"forward may go more than {MAX_PATHS} ways")
        model = read(path) if path else first
        for place in reversed(range(len(path), len(decisions_of(model)))):
            other = from_here([*path, *[True] * (place - len(path)), False])
            _merge(model, other, place)
        return model

    return from_here([])


def decisions_of(model: ir.Model) -> dict[int, ir.Node]:
    return {int(n.metadata_props[DECISION_KEY]): n for n in model.graph if DECISION_KEY in n.metadata_props}


def _merge(model: ir.Model, other: ir.Model, place: int) -> None:
    """Extend `model`, captured with the decision true, by what `other` does if the decision is false."""
    if io_types_of(model) != io_types_of(other) or model.metadata_props != other.metadata_props:
        raise Unsupported("the two ways have other inputs or outputs, or hold for other sizes")
    decided = decisions_of(model)[place]
    for each in (model, other):
        join_equal_nodes(each)
    same = equal_values(model, other)
    if all(same.get(b, b) is a for a, b in zip(model.graph.outputs, other.graph.outputs, strict=True)):
        return
    if decided.outputs[0] not in same.values():
        raise Unsupported("the condition is computed differently on each path")
    places = {k: v for k, v in decided.metadata_props.items() if k != DECISION_KEY}
    join_paths(model, other, same, [decided], places)


def io_types_of(model: ir.Model) -> list[tuple[str | None, ir.DataType | None]]:
    """Return the names and dtypes of inputs and outputs, which must be the same on both paths."""
    return [(v.name, v.dtype) for v in (*model.graph.inputs, *model.graph.outputs)]


def join_paths(
    model: ir.Model,
    other: ir.Model,
    same: Mapping[ir.Value, ir.Value],
    deciding: Sequence[ir.Node],
    metadata: Mapping[str, str],
) -> None:
    """Change `model` to do what `other` does if the last of the nodes `deciding` returns false.

    same: the `equal_values`. deciding: nodes that stay before the If. metadata: that of the If. Raises `Unsupported` if
    an output has another dtype or rank on the other path.
    """
    join_facts(same)
    _rename_dims(model, other, same)
    own_outputs, theirs = list(model.graph.outputs), [same.get(v, v) for v in other.graph.outputs]
    differs = [i for i, (a, b) in enumerate(zip(own_outputs, theirs, strict=True)) if a is not b]
    results = [joined(own_outputs[i], theirs[i]) for i in differs]
    other.graph.outputs.clear()
    for value, own in same.items():
        ir.convenience.replace_all_uses_with(value, own)
    common, before = set(same.values()), set(deciding)
    moved = [n for n in other.graph if not all(o in same for o in n.outputs)]
    kept = [n for n in model.graph if n not in before and not all(o in common for o in n.outputs)]
    take_over(model, other, moved)
    for i, value in zip(differs, results, strict=True):
        value.name = own_outputs[i].name
        model.graph.outputs[i] = value
    model.graph.remove(kept, safe=False)
    other.graph.remove(moved, safe=False)
    names = free_names(model, [*kept, *moved])
    for i in differs:
        own_outputs[i].name = next(names)  # the If has the name now
    branches = {
        "then_branch": branch_of("then_branch", kept, [own_outputs[i] for i in differs], names),
        "else_branch": branch_of("else_branch", moved, [theirs[i] for i in differs], names),
    }
    holds = deciding[-1].outputs[0]
    node = ir.Node("", "If", [holds], [ir.AttrGraph(n, g) for n, g in branches.items()], outputs=results)
    node.metadata_props.update(metadata)
    model.graph.append(node)


def joined(a: ir.Value, b: ir.Value) -> ir.Value:
    """Return a value that is either of two. Raises `Unsupported` if dtypes or ranks differ."""
    first, second = known_dims(a), known_dims(b)
    if a.type != b.type or first is None or second is None or len(first) != len(second):
        raise Unsupported(f"{a.name} has another dtype or rank on the other way")
    return ir.Value(type=a.type, shape=ir.Shape(_dims_of_both(first, second)))


def _dims_of_both(first: Sequence[Dim], second: Sequence[Dim]) -> list[Dim]:
    return [x if x == y else None for x, y in zip(first, second, strict=True)]


def join_facts(same: Mapping[ir.Value, ir.Value]) -> None:
    """Keep of each value's shape only the facts that both captures agree on, because each capture describes its own
    path.

    A size check that both captures have checks the facts of either.
    """
    for theirs, own in same.items():
        node, their_node = own.producer(), theirs.producer()
        first, second = known_dims(own), known_dims(theirs)
        if node is None or their_node is None:
            continue
        if first is not None and second is not None and len(first) == len(second):
            own.shape = ir.Shape(_dims_of_both(first, second))
        if own.meta.get(DIM_KEY) != theirs.meta.get(DIM_KEY):
            own.meta.pop(DIM_KEY, None)
        texts = {
            n.metadata_props[SIZE_CHECK_KEY]: None for n in (node, their_node) if SIZE_CHECK_KEY in n.metadata_props
        }
        if len(texts) > 1:
            node.metadata_props[SIZE_CHECK_KEY] = " and ".join(f"({text})" for text in texts)


_NAME = re.compile(r"[A-Za-z_]\w*\b(?!\()")
"""A name in a dim that is an expression, such as `2*height`, but no function name."""


def _rename_dims(model: ir.Model, other: ir.Model, same: Mapping[ir.Value, ir.Value]) -> None:
    """Give dims of `other` that no input has, such as `u0`, names that `model` lacks; captures number them
    independently.
    """
    inputs = (d for m in (model, other) for v in m.graph.inputs for d in known_dims(v) or ())
    known = {name for d in inputs for name in _NAME.findall(str(d))}
    taken = " ".join(str(d) for n in nodes_of(model.graph) for v in n.outputs for d in known_dims(v) or ())
    mark = next(f"_way{i}" for i in range(1 << 30) if f"_way{i}" not in taken)

    def renamed(dim: Dim) -> Dim:
        return _NAME.sub(lambda m: m[0] if m[0] in known else m[0] + mark, dim) if isinstance(dim, str) else dim

    for node in nodes_of(other.graph):
        for value in node.outputs:
            dims = known_dims(value)
            if value not in same and dims is not None:
                value.shape = ir.Shape([renamed(d) for d in dims])
            if value not in same and DIM_KEY in value.meta:
                value.meta[DIM_KEY] = renamed(value.meta[DIM_KEY])


def branch_of(name: str, nodes: list[ir.Node], outputs: list[ir.Value], names: Iterator[str]) -> ir.Graph:
    """Return a graph of these nodes; outputs that they do not compute go through an Identity."""
    made, given = {o for n in nodes for o in n.outputs}, []
    nodes = list(nodes)
    for value in outputs:
        if value not in made or value in given:
            copy = ir.node("Identity", [value])
            copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
            nodes.append(copy)
            value = copy.outputs[0]
        value.name = next(names)
        given.append(value)
    return ir.Graph([], given, nodes=nodes, name=name)


def free_names(model: ir.Model, besides: Sequence[ir.Node] = ()) -> Iterator[str]:
    """Yield names that are used neither in the model nor by the nodes `besides`."""
    taken = {v.name for n in nodes_of(model.graph) for v in n.outputs} | set(model.graph.initializers)
    taken |= {v.name for n in besides for inner in _with_inner(n) for v in inner.outputs}
    taken |= {v.name for v in model.graph.inputs}
    return (n for n in (f"way_{i}" for i in range(1 << 30)) if n not in taken)


def take_over(model: ir.Model, other: ir.Model, nodes: list[ir.Node]) -> None:
    """Move `nodes` of `other` into the model: their results get new names, and the model gets the weights that they
    read.

    A weight keeps its name, which is its path in the module, unless the name is in use.
    """
    taken, fixed = set(names_in_use(model)), non_trainable(other)
    free = free_names(model)

    def new_name(wanted: str | None = None) -> str:
        name = wanted if wanted and wanted not in taken else next(n for n in free if n not in taken)
        taken.add(name)
        return name

    weights: dict[ir.Value, ir.Value] = {}
    for node in nodes:
        for inner in _with_inner(node):
            for output in inner.outputs:
                output.name = new_name()
            for i, value in enumerate(inner.inputs):
                if value is None or not value.is_initializer() or value.graph is model.graph:
                    continue
                if value not in weights:
                    assert value.const_value is not None
                    weights[value] = register_initializer(model.graph, new_name(value.name), value.const_value)
                    if value in fixed:
                        add_non_trainable(model, weights[value], ())
                inner.replace_input_with(i, weights[value])


def _with_inner(node: ir.Node) -> Iterator[ir.Node]:
    yield node
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield from nodes_of(attribute.as_graph())


def equal_values(model: ir.Model, other: ir.Model) -> dict[ir.Value, ir.Value]:
    """Map values of `other` to equal values of `model`: inputs, outputs, weights, and results of equal nodes."""
    same: dict[ir.Value, ir.Value] = dict(zip(other.graph.inputs, model.graph.inputs, strict=True))
    weights = {content_key(v): v for v in reversed(list(model.graph.initializers.values()))}  # the first of equal ones
    for value in other.graph.initializers.values():
        found = weights.get(content_key(value))
        if found is not None:
            same[value] = found
    known = {key: n for n in model.graph if (key := _node_key(n, {})) is not None}
    for node in other.graph:
        key = _node_key(node, same)
        if key in known and len(known[key].outputs) == len(node.outputs):
            same.update(zip(node.outputs, known[key].outputs, strict=True))
    return same


def join_equal_nodes(model: ir.Model) -> None:
    """Merge nodes that compute the same, so that each node of the other capture finds its equal in this one."""
    given = set(model.graph.outputs)
    weights: dict[tuple[Any, ...], ir.Value] = {}
    for value in model.graph.initializers.values():
        kept = weights.setdefault(content_key(value), value)
        if kept is not value and value not in given:
            ir.convenience.replace_all_uses_with(value, kept)
    known: dict[tuple[Any, ...], ir.Node] = {}
    for node in list(model.graph):
        key = _node_key(node, {})
        first = node if key is None else known.setdefault(key, node)
        if first is node or len(first.outputs) != len(node.outputs) or given.intersection(node.outputs):
            continue
        ir.convenience.replace_all_uses_with(node.outputs, first.outputs)
        model.graph.remove(node, safe=True)


def _node_key(node: ir.Node, same: dict[ir.Value, ir.Value]) -> tuple[Any, ...] | None:
    """Return a key that is equal for nodes that compute the same; None for random nodes, and nodes with subgraphs or no
    output.
    """
    if not is_comparable(node):
        return None
    return attributes_of(node), tuple(None if v is None else id(same.get(v, v)) for v in node.inputs)


def is_comparable(node: ir.Node) -> bool:
    """Return whether equal-looking nodes compute the same: not random, and without subgraphs."""
    return not is_random_node(node) and not any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values())


def attributes_of(node: ir.Node) -> tuple[Any, ...]:
    """Return the attributes of a node in comparable form."""
    attributes = tuple(sorted((n, _attribute_key(a)) for n, a in node.attributes.items()))
    return node.domain, node.op_type, attributes, node.metadata_props.get(DECISION_KEY, "")


def _attribute_key(attribute: ir.Attr) -> str:
    value = attribute.value
    return value.tobytes().hex() if isinstance(value, ir.TensorProtocol) else repr(value)


def content_key(value: ir.Value) -> tuple[Any, ...]:
    """Return a key that is equal for weights sharing one array in memory, and for small constants of equal content."""
    tensor = value.const_value
    assert tensor is not None
    if tensor.nbytes <= _SMALL or tensor.dtype == ir.DataType.STRING:
        return tensor.dtype, tuple(tensor.shape), tensor.tobytes() if tensor.dtype != ir.DataType.STRING else value.name
    array = tensor.numpy()
    layout = array.__array_interface__
    return tensor.dtype, tuple(tensor.shape), layout["data"][0], layout["strides"] or np.shape(array)


_SMALL = 4096
