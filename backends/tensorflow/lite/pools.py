"""3-D pools for TensorFlow Lite, which has 2-D pools only: the last two dims are pooled first, then the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.values import known_dims, nodes_of

_LISTS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 2}
"""Attributes with one or two numbers per dim."""


def split_pools(model: ir.Model) -> bool:
    """Replace 3-D pools by two 2-D pools each; return whether there was one.

    The maximum of maxima is the maximum. The mean of means is the mean, because each row of a window has as many
    elements that count.
    """
    pools = [n for n in nodes_of(model.graph) if n.op_type in ("AveragePool", "MaxPool") and not n.domain]
    split = [_split(node) for node in pools if len(node.outputs) == 1]
    return any(split)


def _split(node: ir.Node) -> bool:
    x, y = node.inputs[0], node.outputs[0]
    given, made = (None if v is None else known_dims(v) for v in (x, y))
    if x is None or given is None or made is None or len(given) != 5 or not isinstance(node.graph, ir.Graph):
        return False
    if not all(isinstance(d, int) for d in (*given[1:], *made[1:])):
        return False
    channels, depth, height, width = given[1:]
    _, _, deep, high, wide = made
    planes = _reshaped(node, x, [0, channels * depth, height, width])  # type: ignore[operator]
    first = _pool(node, planes, (1, 2), [given[0], channels * depth, high, wide])  # type: ignore[operator]
    columns = _reshaped(node, first, [0, channels, depth, high * wide])  # type: ignore[operator]
    both = _pool(node, columns, (0,), [given[0], channels, deep, high * wide])  # type: ignore[operator]
    result = _reshaped(node, both, [0, channels, deep, high, wide])
    made_by = result.producer()
    assert made_by is not None
    result.name, y.name = y.name, None
    ir.convenience.replace_all_uses_with(y, result, replace_graph_outputs=True)
    result.type, result.shape = y.type, y.shape
    node.graph.remove(node, safe=True)
    return True


def _pool(node: ir.Node, x: ir.Value, axes: tuple[int, ...], shape: list[Any]) -> ir.Value:
    """Return the pool over some of a node's three dims as a 2-D pool; a dim that is not pooled gets a window of 1."""
    attributes = []
    for attribute in node.attributes.values():
        if attribute.name not in _LISTS:
            attributes.append(attribute)
            continue
        numbers = list(attribute.as_ints())
        still = 0 if attribute.name == "pads" else 1
        sides = [numbers[:3], numbers[3:]] if attribute.name == "pads" else [numbers]
        chosen = [[*(side[a] for a in axes), *[still] * (2 - len(axes))] for side in sides]
        attributes.append(ir.AttrInt64s(attribute.name, [n for side in chosen for n in side]))
    return _before(node, ir.Node("", node.op_type, [x], attributes, num_outputs=1), shape, f"over_{len(axes)}")


def _reshaped(node: ir.Node, x: ir.Value, shape: list[Any]) -> ir.Value:
    assert isinstance(node.graph, ir.Graph)
    name = f"{node.outputs[0].name}_dims"
    dims = register_initializer(node.graph, name, ir.tensor(np.array(shape, np.int64), name=name))
    batch = [None if x.shape is None else x.shape[0]]
    return _before(node, ir.Node("", "Reshape", [x, dims], num_outputs=1), [*batch, *shape[1:]], "reshaped")


def _before(node: ir.Node, made: ir.Node, shape: list[Any], what: str) -> ir.Value:
    """Insert a node that computes a part of another node, before that node; return its output."""
    assert node.graph is not None
    value = made.outputs[0]
    made.name = f"{node.name}_{what}_{len(node.graph)}"
    value.name, value.type, value.shape = made.name, node.outputs[0].type, ir.Shape(shape)
    made.metadata_props.update(node.metadata_props)
    node.graph.insert_before(node, made)
    return value
