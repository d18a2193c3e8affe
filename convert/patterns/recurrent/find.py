"""Replaces Loops over a sequence by recurrent operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from convert.graph import OPSET, Graph, location_of
from convert.graph.values import constant, known_dims, names_in_use
from convert.legalize.replacement import Replacement
from convert.patterns.recurrent.emit import emit_recurrent


def find_recurrent(model: ir.Model) -> bool:
    """Replace Loops that compute recurrent layers by ONNX's operators; return whether there were any.

    Activations have to be operators, as `find_layers` makes them.
    """
    loops = [node for node in model.graph.all_nodes() if node.op_type == "Loop" and not node.domain]
    replacement = Replacement(model, names_in_use(model)) if loops else None
    for node in reversed(loops if replacement is not None else []):
        if node.graph is None or replacement is None:
            continue

        def lower(g: Graph, node: ir.Node = node) -> list[ir.Value] | None:
            return _recurrent(g, node)

        built = replacement.build(lower, model.opset_imports.get("", OPSET), location_of(node))
        if built is not None:
            replacement.place_graph(node, *built)
    return replacement is not None and replacement.changed


def _recurrent(g: Graph, node: ir.Node) -> list[ir.Value] | None:
    """Return the outputs of a Loop with a number of iterations and no other end; None for other Loops."""
    body = node.attributes["body"].as_graph()
    turn, going, *inner = body.inputs
    again, *results = [_source(v) for v in body.outputs]
    count, first, *initial = node.inputs
    if count is None or not (again is going or _is_true(again)) or not (first is None or _is_true(first)):
        return None
    states, items = results[: len(inner)], results[len(inner) :]
    content = _dim_of(count)
    found = emit_recurrent(g, body, turn, inner, initial, states, items, (count, content), [content] * len(items))
    return None if found is None else [*found.states, *found.outputs]


def _source(value: ir.Value) -> ir.Value:
    node = value.producer()
    while node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    return value


def _is_true(value: ir.Value) -> bool:
    known = constant(value)
    return known is not None and known.size == 1 and bool(known.numpy().item())


def _dim_of(value: ir.Value) -> Any:
    """Return the dim that has the size in `value`, as a number or a name; None if unknown."""
    known = constant(value)
    if known is not None:
        return int(known.numpy().item()) if known.size == 1 else None
    node = value.producer()
    while node is not None and node.op_type in ("Squeeze", "Cast", "Identity") and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type != "Shape" or node.inputs[0] is None:
        return None
    dims: Sequence[Any] = known_dims(node.inputs[0]) or ()
    chosen = dims[node.attributes.get_int("start", 0) : node.attributes.get_int("end", len(dims))]
    return chosen[0] if len(chosen) == 1 else None
