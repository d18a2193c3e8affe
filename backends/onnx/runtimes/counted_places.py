"""Keeps onnxruntime's optimizer from treating counted indices as the bounds of a slice.

Two fusions, GatherSliceToSplit and GatherToSlice (1.22 to 1.32, from the extended level on), turn a Gather of a Range
into a Slice with the Range's bounds. A Slice counts negative bounds from the end: `x[n-1 … -1 by -1]` is all of x
backwards as indices, and empty as bounds. A Cast between Range and Gather prevents the fusion.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph.values import constant

_MOVING = (
    "Squeeze",
    "Unsqueeze",
    "Reshape",
    "Gather",
    "Slice",
    "Expand",
    "Cast",
    "ReduceProd",
    "ReduceSum",
    "ReduceMax",
)
"""Operators with a non-negative result for a non-negative first input; only these are recognized."""

_COMBINING = ("Add", "Mul", "Div", "Max", "Concat")
"""Operators with a non-negative result if all inputs are non-negative; for Max, one input is enough."""

_DEPTH = 16


def keep_counted_places(model: ir.Model) -> bool:
    """Cast the indices of a Gather that come from a Range if they may be negative. Return whether anything changed."""
    changed = False
    for node in list(model.graph.all_nodes()):
        if node.domain != "" or node.op_type != "Gather" or node.graph is None:
            continue
        places = node.inputs[1]
        counted = _counting(places)
        if places is None or counted is None or all(_is_not_negative(v) for v in counted.inputs[:2]):
            continue
        other = ir.DataType.INT32 if places.dtype == ir.DataType.INT64 else ir.DataType.INT64
        cast = ir.node("Cast", [places], {"to": other})
        y = cast.outputs[0]
        y.dtype, y.shape, y.name = other, places.shape, f"{node.outputs[0].name}.places"
        cast.name = y.name
        cast.metadata_props.update(node.metadata_props)
        node.graph.insert_before(node, cast)
        node.replace_input_with(1, y)
        changed = True
    return changed


def _counting(places: ir.Value | None) -> ir.Node | None:
    """Return the Range that computes the indices, else None."""
    node = None if places is None else places.producer()
    while node is not None and node.domain == "" and node.op_type in ("Unsqueeze", "Reshape", "Identity"):
        node = None if node.inputs[0] is None else node.inputs[0].producer()
    return node if node is not None and node.domain == "" and node.op_type == "Range" else None


def _is_not_negative(value: ir.Value | None, depth: int = 0) -> bool:
    """Return whether numbers are known to be 0 or more: constants, sizes, and results computed from them."""
    if value is None or depth > _DEPTH:
        return False
    known = constant(value)
    if known is not None:
        return bool((np.asarray(known.numpy()) >= 0).all())
    node = value.producer()
    if node is None or node.domain != "":
        return False
    if node.op_type in ("Shape", "Size"):
        return True
    read = node.inputs[:1] if node.op_type in _MOVING else node.inputs
    test = any if node.op_type == "Max" else all
    return node.op_type in (*_MOVING, *_COMBINING) and test(_is_not_negative(v, depth + 1) for v in read)
