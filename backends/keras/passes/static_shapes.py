"""Replaces computed shapes by their known dims, because Keras has no operation for a dynamic shape."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.values import Dim, dims

from ..rules import OWN


def settle_shapes(model: ir.Model) -> bool:
    """Make computed shapes of Reshape constant, and those of Expand and ConstantOfShape lists of named dims, if the
    dims are known.

    Returns whether anything changed.
    """
    modified = False
    for node in list(model.graph):
        if node.domain == "" and node.op_type in ("Reshape", "Expand"):
            modified |= (_reshape if node.op_type == "Reshape" else _name_dims)(model.graph, node, 1)
        elif node.domain == "" and node.op_type == "ConstantOfShape":
            modified |= _name_dims(model.graph, node, 0)
    return modified


def _name_dims(graph: ir.Graph, node: ir.Node, place: int) -> bool:
    shape, output = node.inputs[place], node.outputs[0]
    if shape is None or shape.const_value is not None or output.shape is None or None in dims(output):
        return False
    node.domain = OWN
    node.resize_inputs(place)
    node.attributes.add(ir.AttrStrings("dims", [str(d) for d in dims(output)]))
    graph.opset_imports.setdefault(OWN, 1)
    return True


def _reshape(graph: ir.Graph, node: ir.Node, place: int) -> bool:
    x, shape, output = node.inputs[0], node.inputs[place], node.outputs[0]
    if shape is None or shape.const_value is not None or output.shape is None:
        return False
    if x is None or x.shape is None or node.attributes.get_int("allowzero"):
        return False
    target = reshape_target(dims(x), dims(output))
    if target is None:
        return False
    content = ir.tensor(np.array(target, np.int64))
    node.replace_input_with(place, register_initializer(graph, f"{node.name or 'reshape'}.shape", content))
    return True


def reshape_target(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> list[int] | None:
    """Return the shape input for a Reshape from `before` to `after`; None if it would need more than one -1."""
    target = []
    for i, d in enumerate(after):
        if isinstance(d, int):
            target.append(d)
        else:
            target.append(0 if d is not None and i < len(before) and before[i] == d else -1)
    return target if target.count(-1) <= 1 and 0 not in [d for d in after if isinstance(d, int)] else None
