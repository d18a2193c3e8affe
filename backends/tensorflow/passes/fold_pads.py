"""Folds a Pad of zeros into the pads of the convolution that reads it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir


def fold_pads(model: ir.Model) -> bool:
    """Fold a Pad of zeros (spatial dims only) before a Conv into the pads of the Conv. Return whether anything
    changed.
    """
    modified = False
    for node in list(model.graph):
        if node.op_type == "Conv" and node.domain == "":
            modified |= _fold(node)
    return modified


def _fold(conv: ir.Node) -> bool:
    pad = conv.inputs[0].producer() if conv.inputs[0] is not None else None
    if pad is None or pad.op_type != "Pad" or pad.domain != "" or pad.graph is not conv.graph:
        return False
    if conv.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    spatial = _spatial_pads(pad)
    if spatial is None:
        return False
    own = list(conv.attributes.get_ints("pads", ())) or [0] * len(spatial)
    conv.attributes["pads"] = ir.AttrInt64s("pads", [a + b for a, b in zip(own, spatial, strict=True)])
    conv.attributes.pop("auto_pad", None)
    conv.replace_input_with(0, pad.inputs[0])
    return True


def _spatial_pads(pad: ir.Node) -> list[int] | None:
    """Return begins and ends of the spatial dims of a Pad of zeros; None if it does anything else."""
    x, inputs = pad.inputs[0], [*pad.inputs, None, None, None]
    if x is None or x.shape is None or pad.attributes.get_string("mode", "constant") != "constant":
        return None
    amounts, fill, chosen = (_constant_array(v) for v in inputs[1:4])
    if amounts is None or (inputs[2] is not None and (fill is None or fill.any())):
        return None
    if inputs[3] is not None and chosen is None:
        return None
    rank = len(x.shape)
    axes = range(rank) if chosen is None else [int(a) % rank for a in np.ravel(chosen)]
    full = np.zeros((2, rank), dtype=np.int64)
    full[:, list(axes)] = np.reshape(amounts, (2, -1))
    if full.min() < 0 or full[:, :2].any():
        return None
    return _flat_integers(full[0, 2:].tolist(), full[1, 2:].tolist())


def _flat_integers(*parts: Sequence[int]) -> list[int]:
    return [int(i) for part in parts for i in part]


def _constant_array(value: ir.Value | None) -> np.ndarray | None:
    return None if value is None or value.const_value is None else value.const_value.numpy()
