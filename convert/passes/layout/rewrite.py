"""Edits a graph for the layout pass: transposed copies of values, moved constants, rewritten nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from convert.graph.model_names import ModelNames
from convert.graph.tensors import lazy_tensor
from convert.graph.values import Dim, constant, dims, int64s, inverse_permutation, rank
from convert.passes.layout.model import LayoutForm, Move, same_order


@dataclass
class LayoutWriter:
    """A graph during rewriting: which of its values are stored moved, and the transposed copies so far."""

    graph: ir.Graph
    move: Move
    names: ModelNames
    stored: dict[ir.Value, bool]
    first: ir.Node | None
    copies: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)

    def fetch(self, value: ir.Value, moved: bool, full: int | None = None) -> ir.Value:
        """Return `value` as is or moved.

        With `full`, it is moved as an operand that broadcasts into a tensor of that rank.
        """
        own = rank(value)
        if own is None or (own < 3 and full is None):
            return value
        if moved and constant(value) is not None:
            return self._moved_constant(value, full or own)
        if not moved or full in (None, own):
            return value if self.stored.get(value, False) == moved else self._transposed_copy(value, moved)
        return self._aligned_copy(self.fetch(value, False), full)

    def node(
        self, operator: str, inputs: Sequence[ir.Value], name: str, shape: Sequence[Dim], *attributes: ir.Attr
    ) -> ir.Value:
        """Return the output of a new node, inserted right after the producer of its first input."""
        node = ir.Node("", operator, inputs, attributes, name=self.names.unique(name))
        out, producer = node.outputs[0], inputs[0].producer()
        out.name, out.type, out.shape = node.name, inputs[0].type, ir.Shape(shape)
        if producer is not None and producer.graph is self.graph:
            self.graph.insert_after(producer, node)
        elif self.first is not None:
            self.graph.insert_before(self.first, node)
        else:
            self.graph.append(node)
        return out

    def transpose(self, value: ir.Value, perm: Sequence[int], shape: Sequence[Dim], name: str) -> ir.Value:
        """Return `value` transposed; `shape` is the shape of the result."""
        return self.node("Transpose", [value], name, shape, ir.AttrInt64s("perm", perm))

    def _transposed_copy(self, value: ir.Value, moved: bool) -> ir.Value:
        key = (value, int(moved))
        if key not in self.copies:
            perm = self.move(len(dims(value)))
            shape = [dims(value)[a] for a in perm] if moved else dims(value)
            last = moved == (self.move(4)[-1] == 1)
            name = f"{value.name}_{'channels_last' if last else 'channels_first'}"
            self.copies[key] = self.transpose(value, perm if moved else inverse_permutation(perm), shape, name)
        return self.copies[key]

    def _aligned_copy(self, value: ir.Value, full: int) -> ir.Value:
        key = (value, full)
        if key not in self.copies:
            own, shape = len(dims(value)), dims(value)
            # a negative axis is a dim of size 1 that broadcasting adds
            axes = [a - (full - own) for a in self.move(full)]
            while axes and axes[0] < 0:
                del axes[0]
            order = [a for a in axes if a >= 0]
            result = value
            if order != sorted(order):
                result = self.transpose(result, order, [shape[a] for a in order], f"{value.name}_aligned")
            new = [i for i, a in enumerate(axes) if a < 0]
            if new:
                where = self.names.array("axes", int64s(new))
                whole = [1 if a < 0 else shape[a] for a in axes]
                result = self.node("Unsqueeze", [result, where], f"{value.name}_aligned", whole)
            self.copies[key] = result
        return self.copies[key]

    def _moved_constant(self, value: ir.Value, full: int) -> ir.Value:
        key = (value, full)
        if key not in self.names.moved:
            tensor = constant(value)
            assert tensor is not None
            moved = self.names.initializer(f"{value.name}_moved", moved_tensor(tensor, full, self.move))
            self.names.moved[key] = moved
            self.names.replaced.append((value, moved))
        return self.names.moved[key]


def moved_tensor(tensor: ir.TensorProtocol, full: int, move: Move) -> ir.TensorProtocol:
    """Return `tensor`, broadcast to rank `full` and permuted, as a lazy tensor.

    An operand of lower rank loses its leading dims of size 1 again.
    """
    own = list(tensor.shape.numpy())
    whole = [1] * (full - len(own)) + own
    perm = move(full)
    shape = [whole[a] for a in perm]
    while len(own) < full and len(shape) > 1 and shape[0] == 1:
        del shape[0]
    return lazy_tensor(
        tensor.dtype, shape, lambda: tensor.numpy().reshape(whole).transpose(perm).reshape(shape), tensor.name
    )


def transpose_price(value: ir.Value, full: int, move: Move, unknown: int) -> int:
    """Return the bytes that a transpose of `value`, broadcast to rank `full`, moves; 1 if every element stays in place.

    Dims that are not static count as `unknown`.
    """
    shape = dims(value)
    if same_order([1] * (full - len(shape)) + list(shape), move(full)):
        return 1
    size = 4 if value.dtype is None else value.dtype.itemsize
    return max(1, int(size * math.prod(d if isinstance(d, int) else unknown for d in shape)))


def rewrite_node(node: ir.Node, form: LayoutForm, names: ModelNames) -> None:
    """Apply the changes to a node whose free sides are moved."""
    if form.moved_domain:
        node.domain = form.moved_domain
    for attribute in form.attributes:
        node.attributes.add(attribute)
    for index, content in form.constants.items():
        if index >= len(node.inputs):
            node.resize_inputs(index + 1)
        old = node.inputs[index]
        if old is not None and constant(old) is not None:
            names.replaced.append((old, None))
        node.replace_input_with(index, names.array(f"{node.name}_moved", content))


def gather_in_order(node: ir.Node, indices: Sequence[int], writer: LayoutWriter) -> None:
    """Restore the original order of the only output of a moved `node`, by a Gather with `indices`."""
    old = node.outputs[0]
    uses = old.uses()
    where = writer.names.array("indices", int64s(indices))
    new = writer.node("Gather", [old, where], f"{old.name}_in_order", [len(indices)], ir.AttrInt64("axis", 0))
    for user, index in uses:
        user.replace_input_with(index, new)
    new.const_value, old.const_value = old.const_value, None
    old.shape = ir.Shape([rank(node.inputs[0])])
    if old.is_graph_output():
        take_output_name(old, new, writer.names)


def take_output_name(old: ir.Value, new: ir.Value, names: ModelNames) -> None:
    """Make `new` the graph output that `old` was, under its name."""
    graph = old.graph
    assert graph is not None
    for i, output in enumerate(graph.outputs):
        if output is old:
            graph.outputs[i] = new
    name, old.name = old.name, names.unique(f"{old.name}_inner")
    new.name = name
