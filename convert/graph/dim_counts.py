"""How many dims there are: what an operator is given for each of them, such as pads, is counted before it is used.

Frontends that have rules count before each rule (`convert/dim_lists.py`); here a whole graph is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from convert import limits
from convert.dim_lists import refuse_dims
from convert.graph.builder import location_of

_INPUTS = {
    "AffineGrid": (1,), "CenterCropPad": (1, 2), "Col2Im": (1, 2), "ConstantOfShape": (0,), "Expand": (1,),
    "MaxUnpool": (2,), "Pad": (1, 3), "Reshape": (1,), "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4), "Squeeze": (1,), "Tile": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}  # fmt: skip
"""Which inputs of an operator hold a number or two for each dim, by the specification of each; of reductions the last.
"""
_ATTRIBUTES = frozenset((
    "axes", "dilations", "ends", "kernel_shape", "output_padding", "output_shape", "pads", "perm", "repeats", "scales",
    "shape", "starts", "strides",
))  # fmt: skip


def check_dims(model: ir.Model) -> None:
    """Raise `ResourceLimit` for a tensor of more dims than any runtime has, or lists for so many.

    Frameworks take time of the square of such a number.
    """
    for value in (*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values()):
        if value.shape is not None and len(value.shape) > limits.TENSOR_DIMS:
            refuse_dims(f"{value.name!r} has {len(value.shape):,} dims")
    for node in model.graph.all_nodes():
        for what, count in _lists(node):
            if count > 2 * limits.TENSOR_DIMS:
                refuse_dims(f"{location_of(node)}: {count:,} numbers in its {what}", 2)


def _lists(node: ir.Node) -> Iterator[tuple[str, int]]:
    """What a node has a list of for dims, and how long it is where that is known."""
    for attribute in node.attributes.values():
        if attribute.name in _ATTRIBUTES and attribute.type in (ir.AttributeType.INTS, ir.AttributeType.FLOATS):
            yield attribute.name, len(attribute.value)
    reduction = node.op_type.startswith("Reduce") and len(node.inputs) == 2
    for index in (1,) if reduction else _INPUTS.get(node.op_type, ()):
        value = node.inputs[index] if index < len(node.inputs) else None
        if value is not None and value.shape is not None and len(value.shape) == 1 and isinstance(value.shape[0], int):
            yield f"input {index + 1}", value.shape[0]
