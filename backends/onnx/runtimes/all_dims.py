"""Completes lists of numbers for some dims to lists for all dims."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer


def picked_before(node: ir.Node, given: ir.Value, rest: ir.Value, order: list[int], name: str) -> ir.Value:
    """Return the elements of `given` followed by those of `rest`, picked by `order` and computed before `node`.

    name: unique name of the new value.
    """
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    places = register_initializer(graph, f"{name}_order", ir.tensor(np.array(order, np.int64)))
    both = ir.Node("", "Concat", [given, rest], [ir.AttrInt64("axis", 0)], num_outputs=1, name=f"{name}_both")
    picked = ir.Node("", "Gather", [both.outputs[0], places], num_outputs=1, name=name)
    for one, length in ((both, None), (picked, len(order))):
        emitted_before(node, one, given, length)
    return picked.outputs[0]


def emitted_before(node: ir.Node, made: ir.Node, like: ir.Value, length: int | None) -> ir.Value:
    """Insert a node before another; return its result, a list of `length` numbers of the dtype of `like`."""
    assert isinstance(node.graph, ir.Graph)
    out = made.outputs[0]
    out.name, out.type, out.shape = f"{made.name}_value", like.type, ir.Shape([length])
    made.metadata_props.update(node.metadata_props)
    node.graph.insert_before(node, made)
    return out
