"""Decides where transposes go: gives every side of every node a layout, to move the fewest bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import onnx_ir as ir

from convert.graph.metadata import CHANNELS_LAST
from convert.graph.model_names import ModelNames
from convert.graph.values import constant, dims, inverse_permutation, is_used, rank
from convert.passes.layout.cancel import cancel_transposes, permutation
from convert.passes.layout.dense import DENSE, lower_channels_first
from convert.passes.layout.min_cut import AS_IS, MOVED, Term, minimum_cut
from convert.passes.layout.model import LayoutForm, Move, Rule, Side, channels_first, channels_last
from convert.passes.layout.rewrite import (
    LayoutWriter,
    gather_in_order,
    moved_tensor,
    rewrite_node,
    take_output_name,
    transpose_price,
)
from convert.passes.layout.rules import form_of
from convert.passes.layout.sensitive import SENSITIVE, is_sensitive
from convert.passes.layout.table import AGNOSTIC

__all__ = ["CHANNELS_LAST", "assign_layout"]

# Assumed size of an unknown dim in the price of a transpose; it does not affect the result's correctness.
UNKNOWN_DIM = 16

_FLOATS = {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE}


def assign_layout(
    model: ir.Model,
    *,
    sensitive: Literal["channels_last", "as is"],
    boundary: Literal["as is", "moved"] = "as is",
) -> bool:
    """Choose a layout for every value, and insert transposes where it changes; return whether `model` was modified.

    `sensitive="channels_last"` is for graphs in N C spatial… order and a target with channels-last kernels.
    Layout-sensitive operators become nodes of domain `CHANNELS_LAST` (`sensitive.py` defines them; weights keep ONNX's
    order), and other operators follow where that saves transposes.

    `sensitive="as is"` is for graphs whose sensitive operators stand between transposes from and to N spatial… C. These
    operators stay unchanged, and the rest of the graph may move to their layout. A dense layer then becomes a
    convolution with a kernel of one element, and a LayerNormalization over channels is written out (`dense.py`).

    Graph inputs and outputs keep name, order, dtype and layout. With `boundary="moved"`, floating-point inputs and
    outputs of rank 3 or more of the outermost graph are moved instead, and so are their shapes. Values can be moved
    only if their rank is known: a value of unknown rank, and values tied to it, stay as is.

    The choice minimizes the bytes that transposes move, over all assignments of *as is* and *moved* to the sides of
    nodes. A value costs one transpose for each layout that it is needed in but not computed in. Constants cost nothing,
    and neither does an existing transpose between a moved and an unmoved side.
    """
    if sensitive not in ("channels_last", "as is") or boundary not in ("as is", "moved"):
        raise ValueError(f"assign_layout knows no sensitive={sensitive!r}, boundary={boundary!r}")
    move = channels_last if sensitive == "channels_last" else channels_first
    table = {**AGNOSTIC, **(SENSITIVE if sensitive == "channels_last" else DENSE)}
    names = ModelNames(model.graph)
    modified = False
    for graph in (model.graph, *model.graph.subgraphs()):
        problem = build_problem(graph, move, table, boundary == "moved" and graph is model.graph)
        labels = minimum_cut(problem.count, problem.terms)
        modified |= _apply_labels(graph, problem, labels, move, names)
        modified |= cancel_transposes(graph, names)
    lower_channels_first(model, names)
    _drop_unused(names)
    if any(node.domain == CHANNELS_LAST for node in model.graph.all_nodes()):
        model.graph.opset_imports[CHANNELS_LAST] = 1
    return modified


@dataclass
class LayoutProblem:
    """The labels to choose in one graph.

    A label's number is AS_IS, MOVED, or that of a variable; None means that the layout does not matter.
    """

    forms: dict[ir.Node, LayoutForm] = field(default_factory=dict)
    inputs: dict[ir.Node, list[int | None]] = field(default_factory=dict)
    outputs: dict[ir.Node, list[int]] = field(default_factory=dict)
    variable: dict[ir.Node, int] = field(default_factory=dict)
    boundary: dict[ir.Value, int] = field(default_factory=dict)
    terms: list[Term] = field(default_factory=list)
    count: int = 2


def build_problem(graph: ir.Graph, move: Move, table: Mapping[str, Rule], moved_boundary: bool) -> LayoutProblem:
    """Return the variables and prices of one graph."""
    problem = LayoutProblem()
    for value in (*graph.inputs, *graph.outputs):
        floating = value.dtype in _FLOATS and not value.is_initializer() and constant(value) is None
        moved = moved_boundary and floating and (rank(value) or 0) > 2
        problem.boundary[value] = MOVED if moved else AS_IS
    for node in graph:
        perm = permutation(node)
        if perm is not None and len(perm) > 2 and rank(node.inputs[0]) == rank(node.outputs[0]) == len(perm):
            _add_transpose(problem, node, perm, move)
        else:
            _add_node(problem, node, form_of(node, move, table), move)
    _add_values(problem, graph, move)
    return problem


def _add_node(problem: LayoutProblem, node: ir.Node, form: LayoutForm, move: Move) -> None:
    number: dict[Side, int | None] = {Side.AS_IS: AS_IS, Side.MOVED: MOVED, Side.ANY: None}
    if Side.FREE in (*form.inputs, *form.outputs):
        number[Side.FREE] = number[Side.BROADCAST] = problem.variable[node] = problem.count
        problem.count += 1
    problem.forms[node] = form
    problem.inputs[node] = [number[side] for side in form.inputs]
    problem.outputs[node] = [number[side] or AS_IS for side in form.outputs]
    if form.moved_price:
        value = node.outputs[0]
        cost = int(form.moved_price * transpose_price(value, len(dims(value)), move, UNKNOWN_DIM))
        if cost:
            problem.terms.append(Term(AS_IS, (problem.variable[node],), cost))


def _add_transpose(problem: LayoutProblem, node: ir.Node, perm: tuple[int, ...], move: Move) -> None:
    """Add a Transpose, with one label on each side; its cost is its own permutation composed with both."""
    x, y = problem.count, problem.count + 1
    problem.count += 2
    problem.forms[node] = LayoutForm((Side.FREE,), (Side.FREE,))
    problem.inputs[node], problem.outputs[node] = [x], [y]
    value, moved = node.inputs[0], move(len(perm))
    assert value is not None
    if constant(value) is not None:
        return
    cost = transpose_price(value, len(perm), move, UNKNOWN_DIM)
    near = any(is_sensitive(use.node) for use in node.outputs[0].uses()) or is_sensitive(value.producer())
    if perm == moved == inverse_permutation(moved):  # rank 3: free if exactly one side is moved
        problem.terms.append(Term(x, (y,), cost, existing=True, sensitive=near, negated=True))
    elif perm in (moved, inverse_permutation(moved)):  # free from moved to as is, or from as is to moved
        before, after = (MOVED, AS_IS) if perm == moved else (AS_IS, MOVED)
        problem.terms.append(Term(before, (x,), cost, existing=True, sensitive=near))
        problem.terms.append(Term(after, (y,), cost, existing=True, sensitive=near))
    elif perm == tuple(range(len(perm))):
        problem.terms.append(Term(x, (y,), cost))
    # Any other permutation costs the same in all four cases.


def _add_values(problem: LayoutProblem, graph: ir.Graph, move: Move) -> None:
    """Add a price for every value that is needed in a layout other than the one it is computed in."""
    source = {value: problem.boundary[value] for value in graph.inputs}
    targets: dict[ir.Value, list[int]] = defaultdict(list)
    near: set[ir.Value] = set()
    aligned: dict[tuple[ir.Value, int], list[int]] = defaultdict(list)
    for node in graph:
        source.update(zip(node.outputs, problem.outputs[node], strict=True))
        if is_sensitive(node):
            near.update(x for x in (*node.inputs[:1], *node.outputs[:1]) if x is not None)
        for value, side, number in zip(node.inputs, problem.forms[node].inputs, problem.inputs[node], strict=True):
            if value is None or number is None or constant(value) is not None:
                continue
            if side is Side.BROADCAST:
                aligned[value, len(dims(node.outputs[0]))].append(number)
                targets[value].append(AS_IS)
            else:
                targets[value].append(number)
    for value in source:
        if any(use.node.graph is not graph for use in value.uses()):
            targets[value].append(AS_IS)
    for value in graph.outputs:
        targets[value].append(problem.boundary[value])
    for inner in graph.subgraphs():
        for value in inner.outputs:
            if value in source:
                targets[value].append(AS_IS)
    for value, numbers in targets.items():
        start = source.get(value, AS_IS)
        if start > MOVED or any(number != start for number in numbers):
            cost = transpose_price(value, len(dims(value)), move, UNKNOWN_DIM)
            problem.terms.append(Term(start, tuple(numbers), cost, sensitive=value in near))
    for (value, full), numbers in aligned.items():
        problem.terms.append(Term(AS_IS, tuple(numbers), transpose_price(value, full, move, UNKNOWN_DIM)))


def _apply_labels(graph: ir.Graph, problem: LayoutProblem, labels: list[bool], move: Move, names: ModelNames) -> bool:
    """Rewrite the graph so that every value has the layout of its label; return whether that changed anything."""
    stored = {value: labels[problem.boundary[value]] for value in graph.inputs}
    for node in graph:
        stored.update((value, labels[n]) for value, n in zip(node.outputs, problem.outputs[node], strict=True))
    writer = LayoutWriter(graph, move, names, stored, next(iter(graph), None))
    modified = any(stored.values())
    for node in list(graph):
        modified |= _write_node(node, problem, labels, writer)
    modified |= _write_boundary(problem, labels, writer)
    for node, form in problem.forms.items():
        if form.gather is not None and labels[problem.variable[node]]:
            gather_in_order(node, form.gather, writer)
    for value in (value for value, moved in stored.items() if moved):
        value.shape = ir.Shape([dims(value)[a] for a in move(len(dims(value)))])
        if value.const_value is not None:
            value.const_value = moved_tensor(value.const_value, len(value.shape), move)
    return modified


def _write_boundary(problem: LayoutProblem, labels: list[bool], writer: LayoutWriter) -> bool:
    """Give subgraphs their captured values as is, and give the graph outputs the layout of the boundary.

    Returns whether an output was replaced by another value.
    """
    modified = False
    for value in list(writer.stored):
        for user, index in value.uses() if writer.stored[value] else ():
            if user.graph is not writer.graph:
                user.replace_input_with(index, writer.fetch(value, False))
    for inner in writer.graph.subgraphs():
        for i, value in enumerate(inner.outputs):
            if writer.stored.get(value):
                inner.outputs[i] = writer.fetch(value, False)
    for value in dict.fromkeys(writer.graph.outputs):
        copy = writer.fetch(value, labels[problem.boundary[value]])
        if copy is not value:
            take_output_name(value, copy, writer.names)
            modified = True
    return modified


def _write_node(node: ir.Node, problem: LayoutProblem, labels: list[bool], writer: LayoutWriter) -> bool:
    """Give one node its inputs in the layout that it needs, and rewrite it; return whether anything changed."""
    form, modified = problem.forms[node], False
    for i, (value, side, number) in enumerate(zip(node.inputs, form.inputs, problem.inputs[node], strict=True)):
        if value is None or number is None:
            continue
        full = len(dims(node.outputs[0])) if side is Side.BROADCAST else None
        wanted = writer.fetch(value, labels[number], full)
        if wanted is not value:
            node.replace_input_with(i, wanted)
            modified = True
    if form.domain:
        node.domain = form.domain
        modified = True
    perm = permutation(node)
    if perm is not None:
        x, y = problem.inputs[node][0], problem.outputs[node][0]
        _compose_transpose(node, perm, labels[x or AS_IS], labels[y], writer.move)
    elif labels[problem.variable.get(node, AS_IS)]:
        rewrite_node(node, form, writer.names)
    return modified


def _compose_transpose(node: ir.Node, perm: tuple[int, ...], x: bool, y: bool, move: Move) -> None:
    """Adapt the permutation `perm` of a Transpose to a moved input (`x`) and a moved output (`y`)."""
    if x or y:
        moved = move(len(perm))
        whole = [inverse_permutation(moved)[a] for a in perm] if x else list(perm)
        whole = [whole[a] for a in moved] if y else whole
        node.attributes.add(ir.AttrInt64s("perm", whole))


def _drop_unused(names: ModelNames) -> None:
    """Remove constants that no node uses after moved ones replaced them, and give the moved ones their names."""
    for old, new in names.replaced:
        producer, name = old.producer(), old.name
        if is_used(old) or old.graph is None or name is None:
            continue
        if producer is not None:
            old.graph.remove(producer, safe=True)
        elif old.is_initializer():
            del old.graph.initializers[name]
        if new is not None:
            new.name = name
