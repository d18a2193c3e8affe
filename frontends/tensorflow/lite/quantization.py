"""Quantized tensors of TensorFlow Lite as QuantizeLinear and DequantizeLinear with the file's parameters."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput
from convert.graph import Graph
from convert.graph.tensors import dims_of, lazy_tensor

from .file import Quantization, Tensor

INTEGERS = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16)


def requantize(g: Graph, raw: ir.Value, given: Tensor, wanted: Tensor) -> ir.Value:
    """Return `raw` as `wanted` stores it. Between uint8 and int8 of the same scale this is a shift by 128."""
    old, new = given.quantization, wanted.quantization
    assert new is not None
    assert wanted.dtype is not None
    if old is None:
        return quantize(g, raw, new, wanted.dtype)
    shift = new.zero - old.zero
    if np.array_equal(old.scale, new.scale) and (shift == _SHIFTS.get((given.dtype, wanted.dtype))).all():
        number = g.const(int(shift[0]), ir.DataType.INT32)
        return g.Cast(g.Add(g.Cast(raw, to=ir.DataType.INT32), number), to=wanted.dtype)
    ratio = _half_step_ratio(given, wanted)
    if ratio is None:
        return quantize(g, dequantize(g, raw, given), new, wanted.dtype)
    halves = g.Floor(
        g.Add(g.DequantizeLinear(raw, ratio, _scale_and_zero_point(g, old, g.dtype(raw))[1]), np.float32(0.5))
    )
    return quantize(g, halves, Quantization(np.array([1], np.float32), new.zero, 0, new.ends), wanted.dtype)


def _half_step_ratio(given: Tensor, wanted: Tensor) -> np.float32 | None:
    """Return how many new steps an old one is, if bytes may fall halfway between two new steps; else None.

    Kernels round all such halves upwards, although from real numbers they round to the even step. (16-bit integers are
    rounded twice, by a 31-bit multiplier and a shift, which is occasionally off by one.)
    """
    old, new = given.quantization, wanted.quantization
    if (
        given.dtype not in (ir.DataType.INT8, ir.DataType.UINT8)
        or old is None
        or new is None
        or old.per_axis
        or new.per_axis
    ):
        return None
    exact = float(old.scale.astype(np.float32).item()) / float(new.scale.astype(np.float32).item())
    limits = np.iinfo(given.dtype.numpy())
    steps = (np.arange(limits.min, limits.max + 1) - int(old.zero.item())) * exact
    return np.float32(exact) if np.float32(exact) == exact and (steps % 1 == 0.5).any() else None


_SHIFTS: dict[tuple[ir.DataType | None, ir.DataType], int] = {
    (ir.DataType.UINT8, ir.DataType.INT8): -128,
    (ir.DataType.INT8, ir.DataType.UINT8): 128,
}


def dequantize(g: Graph, raw: ir.Value, tensor: Tensor) -> ir.Value:
    """Return the real numbers of a quantized tensor. ONNX cannot dequantize 64-bit integers, which are biases."""
    quantization = tensor.quantization
    assert quantization is not None
    if raw.dtype == ir.DataType.INT64 and raw.const_value is not None:
        return _dequantize_int64(g, raw, quantization)
    if raw.dtype not in (*INTEGERS, ir.DataType.INT32):
        return raw
    scale, zero = _scale_and_zero_point(g, quantization, g.dtype(raw))
    axis = quantization.axis if quantization.per_axis else None
    return g.DequantizeLinear(raw, scale, None if raw.dtype == ir.DataType.INT32 else zero, axis=axis)


def _dequantize_int64(g: Graph, raw: ir.Value, quantization: Quantization) -> ir.Value:
    content = raw.const_value
    assert content is not None
    shape = [1] * len(content.shape)
    if quantization.per_axis:
        shape[quantization.axis] = -1
    scale = quantization.scale.astype(np.float64).reshape(shape)
    dims = list(dims_of(content))
    make = lambda: (content.numpy() * scale).astype(np.float32).reshape(dims)  # noqa: E731
    return g.initializer(raw.name or "bias", lazy_tensor(ir.DataType.FLOAT, dims, make))


def quantize(g: Graph, x: ir.Value, quantization: Quantization, dtype: ir.DataType) -> ir.Value:
    """Return `x` as stored integers."""
    scale, zero = _scale_and_zero_point(g, quantization, dtype)
    stored = g.QuantizeLinear(x, scale, zero, axis=quantization.axis if quantization.per_axis else None)
    if quantization.ends is None:
        return stored
    return g.Clip(stored, *(g.const(end, dtype) for end in quantization.ends))


def _scale_and_zero_point(g: Graph, quantization: Quantization, dtype: ir.DataType) -> tuple[ir.Value, ir.Value]:
    limits = np.iinfo(dtype.numpy())
    if (quantization.zero < limits.min).any() or (quantization.zero > limits.max).any():
        raise BadInput(f"a zero point outside of {dtype.name}")
    scale, zero = quantization.scale, quantization.zero.astype(dtype.numpy())
    if not quantization.per_axis:
        scale, zero = scale.reshape(()), zero.reshape(())
    return g.const(scale, ir.DataType.FLOAT), g.const(zero, dtype)
