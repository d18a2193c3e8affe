"""Gives each Gradient node a body with a copy of the nodes that it differentiates. ONNX identifies them by value names
only.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from convert.graph.values import used_values

DOMAIN = "ai.onnx.preview.training"


def enclose_gradients(model: ir.Model) -> bool:
    """Give each Gradient node of the main graph a `body` from `xs` and `zs` to `y`. Return whether there is one.

    Value names mean nothing once a graph has changed, so this is the first pass.
    """
    modified = False
    for number, node in enumerate(list(model.graph)):
        if node.op_type == "Gradient" and node.domain == DOMAIN and "body" not in node.attributes:
            modified |= _enclose(model.graph, node, f"gradient_{number}")
    return modified


def _enclose(graph: ir.Graph, node: ir.Node, prefix: str) -> bool:
    values = {v.name: v for v in (*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs))}
    names = [*node.attributes.get_strings("xs", []), *node.attributes.get_strings("zs", [])]
    ends = [values.get(name) for name in (*names, node.attributes.get_string("y"))]
    if None in ends or len(names) != len(node.inputs):
        return False  # its rule reports this problem
    *starts, y = (v for v in ends if v is not None)
    needed = _nodes_between(set(starts), y)
    nodes = [n for n in graph if n in needed]
    made = {v for n in nodes for v in n.outputs}
    around = list(
        dict.fromkeys(v for n in nodes for v in used_values(n) if v.graph is graph and v not in made | set(starts))
    )
    body = ir.GraphView([*starts, *around], [y], nodes=nodes, name=prefix).clone()
    for value in (*body.inputs, *(v for n in body for v in n.outputs)):
        value.name = f"{prefix}_{value.name}"
    for inner, outer in zip(list(body.inputs)[len(starts) :], around, strict=True):
        body.inputs.remove(inner)
        inner.replace_all_uses_with(outer, replace_graph_outputs=True)
    node.attributes.add(ir.AttrGraph("body", body))
    return True


def _nodes_between(starts: set[ir.Value], y: ir.Value) -> set[ir.Node]:
    """Return the nodes that compute `y` and depend on the start values."""
    found: set[ir.Node] = set()
    pending: list[ir.Value] = [] if y in starts else [y]
    while pending:
        made = pending.pop().producer()
        if made is not None and made not in found:
            found.add(made)
            pending += _without_starts(starts, used_values(made))
    return found


def _without_starts(starts: set[ir.Value], values: Iterable[ir.Value]) -> list[ir.Value]:
    return [v for v in values if v not in starts]
