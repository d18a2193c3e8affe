"""Operators with channels-last kernels in the target: what they want channels last, and what in ONNX coordinates.

A node in this form is in domain `CHANNELS_LAST` and has the operator type, attributes and inputs of the ONNX operator;
only its data inputs, by the table below, and its first output have their channels last. Everything else is as ONNX
says: the weight of a Conv is [O, I/group, *kernel], `pads` and `strides` list the spatial dims, the scales of a Resize
have an entry for each dim in the order N, C, spatial….
"""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.metadata import CHANNELS_LAST
from convert.graph.values import constant, dims, input_at, is_used
from convert.passes.layout.model import LayoutForm, Move, Rule, Side


def channels_last_rule(*positions: int) -> Rule:
    """A rule that fixes the inputs at these positions and the first output to channels last."""

    def rule(node: ir.Node, move: Move) -> LayoutForm | None:
        inputs = tuple(
            Side.ANY if x is None else Side.MOVED if i in positions else Side.AS_IS for i, x in enumerate(node.inputs)
        )
        outputs = (Side.MOVED,) + (Side.AS_IS,) * (len(node.outputs) - 1)
        return LayoutForm(inputs, outputs, domain=CHANNELS_LAST)

    return rule


def max_pool(node: ir.Node, move: Move) -> LayoutForm | None:
    """MaxPool, unless its Indices are used: those count in ONNX coordinates."""
    if any(is_used(x) for x in node.outputs[1:]):
        return None
    return channels_last_rule(0)(node, move)


def resize(node: ir.Node, move: Move) -> LayoutForm | None:
    """Resize, if neither batch nor channels are resized."""
    x, y = node.inputs[0], node.outputs[0]
    axes, scales = node.attributes.get_ints("axes"), constant(input_at(node, 2))
    if x is None or x.shape is None or y.shape is None:
        return None
    mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    if axes is not None:
        spatial = all(a % len(x.shape) > 1 for a in axes)
    elif mode == "tf_crop_and_resize":
        spatial = False  # the region of interest has an entry for batch and channels too
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
    "DeformConv": channels_last_rule(0),  # offset and mask stay in ONNX coordinates
    "DepthToSpace": channels_last_rule(0),
    "GlobalAveragePool": channels_last_rule(0),
    "GlobalLpPool": channels_last_rule(0),
    "GlobalMaxPool": channels_last_rule(0),
    "GridSample": channels_last_rule(0),  # the grid has its coordinates last anyway
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
"""By operator, its channels-last form."""


def is_sensitive(node: ir.Node | None) -> bool:
    """Whether a node, in its ONNX form, wants its channels in one place."""
    return node is not None and not node.domain and node.op_type in SENSITIVE
