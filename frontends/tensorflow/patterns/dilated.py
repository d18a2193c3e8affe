"""Rewrites space-to-batch, convolution, batch-to-space, as TensorFlow computes dilated convolutions, as one Conv."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..common.element_tracing import Element, trace_element
from .conv1d import fold_pad

_KEY = "convert.tensorflow.blocks"


@dataclass(frozen=True)
class SpaceToBatchBlocks:
    """The input of a SpaceToBatchND, and its blocks and padding before and after, by spatial dim."""

    whole: ir.Value
    blocks: tuple[int, ...]
    pads: tuple[tuple[Element, Element], ...]


def remember_blocks(g: Graph, y: ir.Value, whole: ir.Value, blocks: Sequence[int], pads: ir.Value) -> None:
    """Record that `y` is `whole` in blocks, padded by `pads`, [dims, 2]."""
    y.meta[_KEY] = SpaceToBatchBlocks(whole, tuple(blocks), _padding_elements(g, pads, len(blocks)))


def _padding_elements(g: Graph, pairs: ir.Value, count: int) -> tuple[tuple[Element, Element], ...]:
    return tuple((trace_element(g, pairs, (i, 0)), trace_element(g, pairs, (i, 1))) for i in range(count))


def dilated_convolution(g: Graph, x: ir.Value, blocks: Sequence[int], crops: ir.Value) -> ir.Value | None:
    """Return the dilated convolution for x merged from blocks; None if it is something else.

    One step in each block is a step of the block size in the whole. So a VALID convolution of the blocks with unit
    strides is one of the whole, dilated by the block sizes. Elements that are cropped at the end were padded
    unnecessarily.
    """
    value, squeeze = _peel_operator(x, "Squeeze")
    value, back = _peel_operator(value, "Transpose")
    value, conv = _peel_operator(value, "Conv")
    value, forth = _peel_operator(value, "Transpose")
    value, unsqueeze = _peel_operator(value, "Unsqueeze")
    made = None if value is None else value.meta.get(_KEY)
    if made is None or conv is None or back is None or forth is None or made.blocks != tuple(blocks):
        return None
    if (squeeze is None) != (unsqueeze is None):
        return None
    gone = [] if unsqueeze is None else _squeeze_axes(unsqueeze)
    if squeeze is not None and (gone != _squeeze_axes(squeeze) or len(gone) != 1):
        return None
    perm = forth.attributes["perm"].as_ints()
    places = [i for i in range(len(perm)) if i not in gone][1 : 1 + len(blocks)]  # the block dims, channels last
    dims = [list(perm).index(p) - 2 for p in places]
    attributes = {name: attribute.value for name, attribute in conv.attributes.items()}
    if "auto_pad" in attributes or any(attributes["pads"]) or any(s != 1 for s in attributes["strides"]):
        return None
    rank = len(attributes["strides"])
    pads, dilations = [0] * (2 * rank), list(attributes["dilations"])
    cropped = _padding_elements(g, crops, len(blocks))
    for dim, block, (before, after), (first, last) in zip(dims, made.blocks, made.pads, cropped, strict=True):
        # Padding that depends on the size, to make the blocks even, is added and cropped again; both must be equal.
        known = before.value is first.value is None and (after.value, after.index) == (last.value, last.index)
        if not known or dim < 0 or first.plus or last.plus > after.plus:
            return None
        pads[dim], pads[dim + rank] = before.plus, after.plus - last.plus
        dilations[dim] *= block
    whole = made.whole if unsqueeze is None else g.Unsqueeze(made.whole, np.array(gone, np.int64))
    inner = g.Transpose(whole, perm=perm)
    inner, padded = fold_pad(g, inner, {"pads": pads})
    y = g.node("Conv", [inner, *conv.inputs[1:]], attributes | padded | {"dilations": dilations})
    y = g.Transpose(y, perm=back.attributes["perm"].as_ints())
    return y if squeeze is None else g.Squeeze(y, np.array(gone, np.int64))


def _peel_operator(value: ir.Value | None, operator: str) -> tuple[ir.Value | None, ir.Node | None]:
    """Return the first input of the node that computes `value` if it is of that type, and the node."""
    maker = value.producer() if value is not None else None
    if maker is None or maker.op_type != operator or maker.domain:
        return value, None
    return maker.inputs[0], maker


def _squeeze_axes(node: ir.Node) -> list[int]:
    """Return the axes of a Squeeze or Unsqueeze, counted from the front of the longer tensor."""
    axes = node.inputs[1].const_value if len(node.inputs) > 1 and node.inputs[1] is not None else None
    longer = node.inputs[0] if node.op_type == "Squeeze" else node.outputs[0]
    if axes is None or longer is None or longer.shape is None:
        return []
    return [int(a) % len(longer.shape) for a in axes.numpy().ravel()]
