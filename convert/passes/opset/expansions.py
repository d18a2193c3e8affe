"""Operators that older opsets lack, written out by their lowerings (`convert.legalize`).

A lowering is built at the opset of its node; the operators in it are lowered in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.legalize.replacement import Results
from convert.legalize.table import LOWERINGS
from convert.passes.opset.quantize import dequantize, quantize


def _never(node: ir.Node, target: int) -> bool:
    return False


@dataclass(frozen=True)
class Newer:
    """An operator that got its present meaning in opset `since`.

    `has(node, target)` returns whether an older opset can express the node as it is. `form(g, node, target)` replaces
    the lowering if the older form depends on the opset.
    """

    since: int
    has: Callable[[ir.Node, int], bool] = _never
    form: Callable[[Graph, ir.Node, int], Results] | None = None


_SYMMETRIC, _ANTIALIAS, _COORDINATES = 19, 18, 11


def has_resize(node: ir.Node, target: int) -> bool:
    """half_pixel_symmetric came in opset 19, antialias and policies in 18, coordinate modes in 11."""
    attributes = node.attributes
    symmetric = attributes.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel_symmetric"
    policy = attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch"
    late = target < _ANTIALIAS and (attributes.get_int("antialias", 0) != 0 or policy)
    return not (target < _COORDINATES or late or (symmetric and target < _SYMMETRIC))


def _has_scatter(node: ir.Node, target: int) -> bool:
    """The reductions add and mul came in opset 16, max and min in 18."""
    return target >= (16 if node.attributes.get_string("reduction", "none") in ("add", "mul") else 18)


def _has_grid_sample(node: ir.Node, target: int) -> bool:
    """Images came in opset 16, volumes in 20."""
    x = node.inputs[0]
    return target >= 16 and x is not None and x.shape is not None and len(x.shape) == 4


def _has_layout(node: ir.Node, target: int) -> bool:
    """The batch as first dim came in opset 14."""
    return node.attributes.get_int("layout", 0) == 0


NEWER: dict[str, Newer] = {
    "Attention": Newer(23),
    "RotaryEmbedding": Newer(23),
    "DFT": Newer(17),
    "STFT": Newer(17),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), Newer(18)),
    "CenterCropPad": Newer(18),
    "Col2Im": Newer(18),
    **dict.fromkeys(("ArgMax", "ArgMin"), Newer(12)),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), Newer(14, _has_layout)),
    "ConstantOfShape": Newer(9),
    "Equal": Newer(11),
    "Erf": Newer(9),
    "GridSample": Newer(20, _has_grid_sample),
    "Resize": Newer(19, has_resize),
    **dict.fromkeys(("ScatterElements", "ScatterND"), Newer(18, _has_scatter)),
    "Gelu": Newer(20),
    "Mish": Newer(18),
    "HardSwish": Newer(14),
    "Swish": Newer(24),
    "Mod": Newer(28),
    "Trilu": Newer(14),
    "QuantizeLinear": Newer(23, form=quantize),
    "DequantizeLinear": Newer(21, form=dequantize),
    "LayerNormalization": Newer(17),
    "RMSNormalization": Newer(23),
    "GroupNormalization": Newer(21),
    "MeanVarianceNormalization": Newer(9),
}


def expand(g: Graph, node: ir.Node, target: int) -> Results:
    """Write `node` out for opset `target`; return None if the opset has it, or if the lowering declines the node.

    Raises `Unsupported` if the lowering does.
    """
    newer = NEWER.get(node.op_type)
    if newer is None or target >= newer.since or newer.has(node, target):
        return None
    if newer.form is not None:
        return newer.form(g, node, target)
    try:
        return LOWERINGS[node.op_type].lower(g, node)
    except Unsupported as error:
        raise Unsupported(f"opset {target} cannot express it for {error}") from error
