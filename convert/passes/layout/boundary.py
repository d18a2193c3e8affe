"""Puts inputs and outputs into the layout that the user asks for, if the source has another one."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.metadata import AS_IS_KEY, LAYOUT_KEY
from convert.graph.model_names import ModelNames
from convert.graph.values import constant, dims, inverse_permutation, rank
from convert.passes.layout.model import Move, channels_first, channels_last

_FLOATS = {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE}

Moves = dict[str, tuple[int, ...]]
"""Permutations from the source's layout to the requested one, by the name of the input or output."""


def boundary_permutations(model: ir.Model, layout: str) -> Moves:
    """Return what `permute_boundary` moves: floating inputs and outputs of rank 3 or more.

    The result is empty if `layout` is the source's.
    """
    move = _boundary_permutation(model, layout)
    if move is None:
        return {}
    found = {}
    for value in (*model.graph.inputs, *model.graph.outputs):
        full = rank(value) or 0
        movable = value.dtype in _FLOATS and AS_IS_KEY not in value.metadata_props
        if full > 2 and movable and constant(value) is None:
            found[str(value.name)] = move(full)
    return found


def permute_boundary(model: ir.Model, layout: str) -> Moves:
    """Give the model `nchw` or `nhwc` inputs and outputs by inserting Transposes; return the permutations.

    An empty `layout` leaves them unchanged.

    The layout pass of every backend then removes the Transposes that operators do not need.
    """
    found, names = boundary_permutations(model, layout), ModelNames(model.graph)
    for value in list(model.graph.inputs):
        if str(value.name) in found:
            _move_input(model.graph, value, found[str(value.name)], names)
    for index, value in enumerate(list(model.graph.outputs)):
        if str(value.name) in found and not value.is_graph_input():
            _move_output(model.graph, index, value, found[str(value.name)], names)
    if found:
        model.metadata_props[LAYOUT_KEY] = layout
    return found


def _boundary_permutation(model: ir.Model, layout: str) -> Move | None:
    own = model.metadata_props.get(LAYOUT_KEY, "nchw")
    if layout in ("", own):
        return None
    return channels_first if layout == "nchw" else channels_last


def _move_input(graph: ir.Graph, value: ir.Value, perm: tuple[int, ...], names: ModelNames) -> None:
    """Permute a graph input, and transpose it back for its consumers.

    An input that is also an output is permuted once, because there is no node in between.
    """
    users = list(value.uses())
    shape = dims(value)
    value.shape = ir.Shape([shape[a] for a in perm])
    if users:
        back = _transpose(value, inverse_permutation(perm), shape, f"{value.name}_as_read", names)
        graph.insert_before(next(iter(graph)), back)
        for user, index in users:
            user.replace_input_with(index, back.outputs[0])


def _move_output(graph: ir.Graph, index: int, value: ir.Value, perm: tuple[int, ...], names: ModelNames) -> None:
    name, shape = value.name, dims(value)
    value.name = names.unique(f"{name}_as_read")
    node = _transpose(value, perm, [shape[a] for a in perm], name or "", names)
    node.outputs[0].name = name
    graph.append(node)
    graph.outputs[index] = node.outputs[0]


def _transpose(value: ir.Value, perm: tuple[int, ...], shape: object, name: str, names: ModelNames) -> ir.Node:
    node = ir.Node("", "Transpose", [value], [ir.AttrInt64s("perm", perm)], name=names.unique(name))
    out = node.outputs[0]
    out.name, out.type, out.shape = node.name, value.type, ir.Shape(shape)  # type: ignore[arg-type]
    return node
