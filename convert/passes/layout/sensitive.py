"""Operators with channels-last kernels in the target, and which of their inputs are channels-last.

A node in this form is in domain `CHANNELS_LAST`, with the operator type, attributes and inputs of the ONNX operator.
Only its data inputs (see the table below) and its first output are channels-last. Everything else follows ONNX: the
weight of a Conv is [O, I/group, *kernel], `pads` and `strides` list the spatial dims, the scales of a Resize have one
entry per dim in the order N, C, spatial….
"""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.metadata import CHANNELS_LAST
from convert.graph.values import constant, dims, input_at, is_used
from convert.passes.layout.model import LayoutForm, Move, Rule, Side


def channels_last_rule(*positions: int) -> Rule:
    """Return a rule that fixes the inputs at these positions and the first output to channels-last."""

    def rule(node: ir.Node, move: Move) -> LayoutForm | None:
        inputs = tuple(
            Side.ANY if x is None else Side.MOVED if i in positions else Side.AS_IS for i, x in enumerate(node.inputs)
        )
        outputs = (Side.MOVED,) + (Side.AS_IS,) * (len(node.outputs) - 1)
        return LayoutForm(inputs, outputs, domain=CHANNELS_LAST)

    return rule


def max_pool(node: ir.Node, move: Move) -> LayoutForm | None:
    """MaxPool, unless its Indices are used: these count in ONNX's layout."""
    if any(is_used(x) for x in node.outputs[1:]):
        return None
    return channels_last_rule(0)(node, move)


def resize(node: ir.Node, move: Move) -> LayoutForm | None:
    """Resize, if it resizes neither batch nor channels."""
    x, y = node.inputs[0], node.outputs[0]
    axes, scales = node.attributes.get_ints("axes"), constant(input_at(node, 2))
    if x is None or x.shape is None or y.shape is None:
        return None
    mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    if axes is not None:
        spatial = all(a % len(x.shape) > 1 for a in axes)
    elif mode == "tf_crop_and_resize":
        spatial = False  # the region of interest also has entries for batch and channels
    elif scales is not None and scales.size:
        spatial = bool((scales.numpy()[:2] == 1).all())
    else:
        spatial = None not in dims(x)[:2] and dims(x)[:2] == dims(y)[:2]
    return channels_last_rule(0)(node, move) if spatial else None


SENSITIVE: dict[str, Rule] = {
    "AveragePool": channels_last_rule(0),
    "BatchNormalization": channels_last_rule(0),
    "Conv": channels_last_rule(0),
    "ConvInteger": channels_last_rule(0),
    "ConvTranspose": channels_last_rule(0),
    "DeformConv": channels_last_rule(0),  # offset and mask stay in ONNX's layout
    "DepthToSpace": channels_last_rule(0),
    "GlobalAveragePool": channels_last_rule(0),
    "GlobalLpPool": channels_last_rule(0),
    "GlobalMaxPool": channels_last_rule(0),
    "GridSample": channels_last_rule(0),  # the grid has its coordinates in the last dim anyway
    "GroupNormalization": channels_last_rule(0),
    "InstanceNormalization": channels_last_rule(0),
    "LRN": channels_last_rule(0),
    "LpPool": channels_last_rule(0),
    "MaxPool": max_pool,
    "MaxRoiPool": channels_last_rule(0),
    "QLinearConv": channels_last_rule(0),
    "Resize": resize,
    "RoiAlign": channels_last_rule(0),
    "SpaceToDepth": channels_last_rule(0),
}
"""The channels-last form of each operator."""


def is_sensitive(node: ir.Node | None) -> bool:
    """Return whether a node, in its ONNX form, needs its channels at a fixed axis."""
    return node is not None and not node.domain and node.op_type in SENSITIVE
