"""Replaces a sequence that a Loop appends to, and that is stacked afterwards, by a scan output of the Loop.

Sequences copy their items, so their cost grows with the square of the iterations in runtimes that have them; most
targets have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph.model_names import ModelNames
from convert.graph.shape_inference import infer_facts


def stack_sequences(model: ir.Model) -> bool:
    """Turn `Loop(… SequenceInsert(items, x))` with ConcatFromSequence into a Loop that collects x.

    This applies only if all items are known to have one shape, because they are stacked or have static sizes. Returns
    whether there was one.
    """
    found = [node for node in model.graph.all_nodes() if node.op_type == "Loop" and not node.domain]
    modified = False
    for node in found:
        loop = node
        while (grown := _grown_sequence(loop)) is not None:
            loop = _collect(loop, grown, ModelNames(model.graph))
            modified = True
    if modified:
        infer_facts(model)
    return modified


@dataclass(frozen=True)
class _Grown:
    """A sequence that a Loop carries: its index among the carried values, its initial items, and what is appended."""

    place: int
    start: tuple[ir.Value, ...]
    insert: ir.Node
    item: ir.Value
    users: tuple[ir.Node, ...]


def _grown_sequence(loop: ir.Node) -> _Grown | None:
    body = loop.attributes["body"].as_graph()
    for place, first in enumerate(loop.inputs[2:]):
        start = _items(first)
        insert = body.outputs[1 + place].producer()
        if start is None or insert is None or insert.op_type != "SequenceInsert" or insert.graph is not body:
            continue
        items, item, *position = insert.inputs
        before, after = body.inputs[2 + place], loop.outputs[place]
        if items is not before or item is None or any(position) or item.shape is None or item.dtype is None:
            continue
        if len(before.uses()) > 1 or insert.outputs[0].uses() or after.is_graph_output():
            continue
        if sum(y is insert.outputs[0] for y in body.outputs) > 1:
            continue
        users = tuple(use.node for use in after.uses())
        if users and all(map(_can_read_stack, users)) and _is_of_one_shape(loop, item, start, users):
            return _Grown(place, start, insert, item, users)
    return None


def _items(sequence: ir.Value | None) -> tuple[ir.Value, ...] | None:
    """Return the items of a sequence, if they are known."""
    maker = sequence.producer() if sequence is not None else None
    if maker is None or maker.op_type not in ("SequenceEmpty", "SequenceConstruct"):
        return None
    return tuple(x for x in maker.inputs if x is not None)


def _can_read_stack(user: ir.Node) -> bool:
    return user.op_type in ("ConcatFromSequence", "SequenceLength", "SequenceAt") and not user.domain


def _is_of_one_shape(loop: ir.Node, item: ir.Value, start: Sequence[ir.Value], users: Sequence[ir.Node]) -> bool:
    shapes = [x.shape for x in (item, *start)]
    if all(s is not None and s.is_static() and 0 not in s and s == shapes[0] for s in shapes):
        return True
    if any(u.op_type == "ConcatFromSequence" and not u.attributes.get_int("new_axis", 0) for u in users):
        return False
    return any(u.op_type == "ConcatFromSequence" and u.graph is loop.graph for u in users)


def _collect(loop: ir.Node, grown: _Grown, names: ModelNames) -> ir.Node:
    """Return the Loop that replaces `loop`; consumers of the sequence then read a tensor."""
    body, place = loop.attributes["body"].as_graph(), grown.place
    graph = loop.graph
    assert graph is not None
    body.outputs.pop(1 + place)
    body.inputs.pop(2 + place)
    body.remove(grown.insert, safe=False)
    item = grown.item
    if item.producer() is None or item.producer().graph is not body or any(y is item for y in body.outputs):  # type: ignore[union-attr]
        copy = ir.node("Identity", [item])
        copy.outputs[0].type, copy.outputs[0].shape = item.type, item.shape
        copy.outputs[0].name = names.unique(f"{item.name}_row")
        body.append(copy)
        item = copy.outputs[0]
    body.outputs.append(item)
    kept = [y for i, y in enumerate(loop.outputs) if i != place]
    inputs = [x for i, x in enumerate(loop.inputs) if i != 2 + place]
    if inputs[1:] == [None]:  # trailing absent inputs are dropped, but a Loop needs at least two inputs
        inputs[1] = names.initializer("always", ir.tensor(np.array(True)))
    new = ir.Node("", "Loop", inputs, loop.attributes.values(), num_outputs=len(kept) + 1, name=loop.name)
    new.metadata_props.update(loop.metadata_props)
    graph.insert_before(loop, new)
    for old, value in zip(kept, new.outputs, strict=False):
        value.type, value.shape, name = old.type, old.shape, old.name
        ir.convenience.replace_all_uses_with(old, value, replace_graph_outputs=True)
        value.name = name
    writer = _Writer(new, names)
    stack = new.outputs[-1]
    stack.name = names.unique(f"{loop.outputs[place].name}_rows")
    assert item.shape is not None
    stack.type, stack.shape = ir.TensorType(item.dtype), ir.Shape([None, *item.shape])  # type: ignore[arg-type]
    if grown.start:
        rows = [writer.node("Unsqueeze", x, writer.number([0])) for x in grown.start]
        stack = writer.node("Concat", *rows, stack, axis=0)
    for user in grown.users:
        result = _read(user, stack, item.shape, names)
        old = user.outputs[0]
        result.type, result.shape, name = old.type, old.shape, old.name
        ir.convenience.replace_all_uses_with(old, result, replace_graph_outputs=True)
        result.name = name
        assert user.graph is not None
        user.graph.remove(user, safe=True)
    graph.remove(loop, safe=True)
    return new


def _read(user: ir.Node, stack: ir.Value, shape: ir.Shape, names: ModelNames) -> ir.Value:
    """Compute what `user` reads from the sequence out of the stacked items, each of which has the shape `shape`."""
    writer, rank = _Writer(user, names, before=True), len(shape)
    if user.op_type == "SequenceAt":
        return writer.node("Gather", stack, user.inputs[1], axis=0)
    if user.op_type == "SequenceLength":
        return writer.node("Squeeze", writer.node("Shape", stack, start=0, end=1), writer.number([0]))
    stacked = user.attributes.get_int("new_axis", 0)
    axis = user.attributes.get_int("axis") % (rank + 1 if stacked else rank)
    perm = [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]
    moved = writer.node("Transpose", stack, perm=perm) if axis else stack
    if stacked:
        return moved if axis else writer.node("Identity", stack)
    sizes = list(shape.numpy())
    sizes[axis] = -1
    return writer.node("Reshape", moved, writer.number(sizes))


class _Writer:
    """Inserts nodes after another node, or before it, in call order."""

    def __init__(self, node: ir.Node, names: ModelNames, *, before: bool = False) -> None:
        assert node.graph is not None
        self.graph, self.at, self.names, self.before = node.graph, node, names, before

    def node(self, operator: str, *inputs: ir.Value | None, **attributes: object) -> ir.Value:
        made = ir.node(operator, inputs, attributes)  # type: ignore[arg-type]
        made.metadata_props.update(self.at.metadata_props)
        made.name = self.names.unique(f"{self.at.name or operator}_{operator}")
        made.outputs[0].name = self.names.unique(f"{self.at.name or 'stack'}_{operator}")
        if self.before:
            self.graph.insert_before(self.at, made)
        else:
            self.graph.insert_after(self.at, made)
            self.at = made
        return made.outputs[0]

    def number(self, content: Sequence[int]) -> ir.Value:
        return self.node("Constant", value=ir.tensor(np.array(content, np.int64)))
