"""Checks the number of dims in a whole graph, before anything iterates over pads or axes with one entry per dim.

Frontends that have rules make the same check before each rule (`convert/rules/dim_lists.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from convert import limits
from convert.graph.builder import location_of
from convert.rules.dim_lists import refuse_dims

_INPUTS = {
    "AffineGrid": (1,), "CenterCropPad": (1, 2), "Col2Im": (1, 2), "ConstantOfShape": (0,), "Expand": (1,),
    "MaxUnpool": (2,), "Pad": (1, 3), "Reshape": (1,), "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4), "Squeeze": (1,), "Tile": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}  # fmt: skip
"""Indices of inputs that hold one or two numbers per dim, by operator (from the ONNX specification).

Reductions are handled in `_lists`: their second input holds axes.
"""
_ATTRIBUTES = frozenset((
    "axes", "dilations", "ends", "kernel_shape", "output_padding", "output_shape", "pads", "perm", "repeats", "scales",
    "shape", "starts", "strides",
))  # fmt: skip


def check_dims(model: ir.Model) -> None:
    """Raise `ResourceLimit` for a tensor with more dims than any runtime supports, or for a list with as many entries.

    The time that frameworks take grows with the square of this number.
    """
    for value in (*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values()):
        if value.shape is not None and len(value.shape) > limits.TENSOR_DIMS:
            refuse_dims(f"{value.name!r} has {len(value.shape):,} dims")
    for node in model.graph.all_nodes():
        for what, count in _lists(node):
            if count > 2 * limits.TENSOR_DIMS:
                refuse_dims(f"{location_of(node)}: {count:,} numbers in its {what}", 2)


def _lists(node: ir.Node) -> Iterator[tuple[str, int]]:
    """Yield the name and the length of each list in `node` that has entries per dim, if its length is known."""
    for attribute in node.attributes.values():
        if attribute.name in _ATTRIBUTES and attribute.type in (ir.AttributeType.INTS, ir.AttributeType.FLOATS):
            yield attribute.name, len(attribute.value)
    reduction = node.op_type.startswith("Reduce") and len(node.inputs) == 2
    for index in (1,) if reduction else _INPUTS.get(node.op_type, ()):
        value = node.inputs[index] if index < len(node.inputs) else None
        if value is not None and value.shape is not None and len(value.shape) == 1 and isinstance(value.shape[0], int):
            yield f"input {index + 1}", value.shape[0]
