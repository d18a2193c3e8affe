"""Weights that a graph stores as integers with scales."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.graph.values import constant
from convert.request.stored import StoredWeight

_SCALED = {"DequantizeLinear": (0, 1, 2), "QLinearConv": (3, 4, 5), "QLinearMatMul": (3, 4, 5), "QGemm": (3, 4, 5)}
"""Input indices of a weight, its scale and its zero point, by operator."""
_BY_TENSOR = ("MatMulInteger", "ConvInteger")
"""Integer products, which have no scale input: the scale is a later factor of the result."""


def scaled_weights(model: ir.Model) -> dict[ir.Value, StoredWeight]:
    """Return the integer constants that operators dequantize, each with its scale and zero point."""
    found: dict[ir.Value, StoredWeight] = {}
    for graph in model.graphs():
        for node in graph:
            places = _SCALED.get(node.op_type, (1, None, 3) if node.op_type in _BY_TENSOR else ())
            if node.op_type == "MatMulNBits":
                weight, value = _in_blocks(node), node.inputs[1]
            elif places and len(node.inputs) > places[0] and constant(node.inputs[places[0]]) is not None:
                weight, value = _scaled(node, *places), node.inputs[places[0]]
            else:
                continue
            if weight is not None and value is not None:
                found[value] = weight
    return found


def _scaled(node: ir.Node, weight: int, scale: int | None, zero: int) -> StoredWeight | None:
    """Return the weight of an operator.

    `scale` is the index of its scale input, or None if the result is scaled later.
    """
    raw = _array(node.inputs[weight])
    factor = _factor(node.outputs[0]) if scale is None else _array(node.inputs[scale])
    offset = _array(node.inputs[zero]) if zero < len(node.inputs) else None
    if raw is None or factor is None:
        return None
    value_range = None
    if raw.dtype in (ml_dtypes.int4, ml_dtypes.uint4):
        info = ml_dtypes.iinfo(raw.dtype)
        raw, value_range = raw.astype(np.int8), (int(info.min), int(info.max))
    first = node.op_type in ("QLinearConv", "ConvInteger")
    axis = node.attributes.get_int("axis", 1) if node.op_type == "DequantizeLinear" else 0 if first else raw.ndim - 1
    block = node.attributes.get_int("block_size", 0)

    def spread(array: np.ndarray) -> np.ndarray:
        if block:
            return np.repeat(array, block, axis).take(np.arange(raw.shape[axis]), axis)
        flat = array.reshape(-1)
        return flat if flat.size == 1 else flat.reshape([-1 if i == axis % raw.ndim else 1 for i in range(raw.ndim)])

    zeros = 0 if offset is None else spread(offset.astype(np.int64))
    return StoredWeight(str(node.inputs[weight].name), raw, spread(factor), zeros, value_range)  # type: ignore[union-attr]


def _factor(value: ir.Value) -> np.ndarray | None:
    """Return the constant factor that the result of an integer product is later multiplied by.

    Returns None if there is none.
    """
    for use in value.uses():
        if use.node.op_type == "Cast":
            return _factor(use.node.outputs[0])
        if use.node.op_type == "Mul":
            others = [v for v in use.node.inputs if v is not value and v is not None]
            made = [v.producer() for v in others]
            others += [v for node in made if node is not None and node.op_type == "Mul" for v in node.inputs if v]
            return next((array for v in others if (array := _array(v)) is not None), None)
    return None


def _in_blocks(node: ir.Node) -> StoredWeight | None:
    """Return the weight [N, K] of a MatMulNBits with 2, 4 or 8 bits; None for other widths or if it is no constant."""
    packed, scales, zeros = ([_array(v) for v in node.inputs[1:4]] + [None])[:3]
    bits, block = node.attributes.get_int("bits", 4), node.attributes.get_int("block_size", 0)
    rows, length = node.attributes.get_int("N", 0), node.attributes.get_int("K", 0)
    if packed is None or scales is None or bits not in (2, 4, 8):
        return None

    def unpacked(array: np.ndarray) -> np.ndarray:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        return (array.reshape(rows, -1, 1) >> shifts & np.uint8((1 << bits) - 1)).reshape(rows, -1)

    def spread(array: np.ndarray) -> np.ndarray:
        return np.repeat(array.reshape(rows, -1)[:, : -(-length // block)], block, 1)[:, :length]

    zero = np.full(scales.size, 1 << (bits - 1))
    if zeros is not None:  # packed like the weights, or numbers of the dtype of the scales
        zero = unpacked(zeros).astype(np.int64) if zeros.dtype == np.uint8 else zeros.astype(np.float64)
    raw, value_range = unpacked(packed)[:, :length], (0, (1 << bits) - 1)
    return StoredWeight(str(node.inputs[1].name), raw, spread(scales), spread(zero), value_range)  # type: ignore[union-attr]


def _array(value: ir.Value | None) -> np.ndarray | None:
    tensor = constant(value)
    return None if tensor is None else tensor.numpy()
