"""Quantization in floating-point arithmetic: round to integers and back."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from keras import KerasTensor, ops

from convert.errors import Unsupported
from convert.graph.rounding import is_inexact_divisor

from ..constants import Constant, constant_of
from ..emitter import Emitter, Value
from ..rules import onnx_op
from ..tensors import Tensor, plus


def has_no_blocks(node: ir.Node) -> bool:
    """Return whether a scale is per tensor or per index of an axis, not per block."""
    return node.attributes.get_int("block_size", 0) == 0


def _broadcast_parameter(k: Emitter, values: Value, x: KerasTensor | Constant, axis: int) -> Tensor:
    """Return a scale or zero point that broadcasts against `x`."""
    rank = len(x.shape)
    values = k.tensor(values)
    if len(values.shape) != 1 or rank < 2:
        return ops.reshape(values, ()) if len(values.shape) == 1 and values.shape[0] == 1 else values
    return ops.reshape(values, [-1 if i == axis % rank else 1 for i in range(rank)])


def _single(x: Tensor) -> Tensor:
    """Return half precision in float32, other dtypes unchanged."""
    return ops.cast(x, "float32") if str(x.dtype) in ("float16", "bfloat16") else x


@onnx_op("QuantizeLinear", when=has_no_blocks, otherwise="blocked quantization")
def quantize_linear(k, x, scale, zero, *, axis, block_size, output_dtype, precision, saturate):
    dtype = zero.dtype if zero is not None else k.dtype_of(output_dtype) if output_dtype else "uint8"
    if precision not in (0, ir.DataType.FLOAT) or not str(dtype).startswith(("int", "uint")):
        raise Unsupported(f"quantization to {dtype}")
    limits = np.iinfo(str(dtype))
    # TensorFlow's optimizer multiplies by the rounded reciprocal of a constant.
    divide = ops.divide_no_nan if is_inexact_divisor(k.static(scale)) else ops.divide
    numbers, factor = k.tensor(x), _broadcast_parameter(k, scale, x, axis)
    if precision:
        numbers, factor = _single(numbers), _single(factor)
    y = ops.round(divide(numbers, factor))
    if zero is not None:
        y = plus(y, ops.cast(_broadcast_parameter(k, zero, x, axis), y.dtype))
    return ops.cast(ops.clip(y, int(limits.min), int(limits.max)), str(dtype))


@onnx_op("DequantizeLinear", when=has_no_blocks, otherwise="blocked quantization")
def dequantize_linear(k, x, scale, zero, *, axis, block_size, output_dtype):
    if all(isinstance(v, Constant | None) for v in (x, scale, zero)):
        return _dequantized_weight(x, scale, zero, axis)
    x = k.tensor(x)
    factor = _single(_broadcast_parameter(k, scale, x, axis))
    y = ops.cast(x, factor.dtype)
    if zero is not None:
        y = ops.subtract(y, ops.cast(_broadcast_parameter(k, zero, x, axis), y.dtype))
    return ops.cast(ops.multiply(y, factor), str(scale.dtype))


def _dequantized_weight(x: Constant, scale: Constant, zero: Constant | None, axis: int) -> Constant:
    """Return the floating-point weight that a quantized weight represents; it can be trained."""
    shape = [
        -1 if len(scale.shape) == 1 and scale.size > 1 and i == axis % len(x.shape) else 1 for i in range(len(x.shape))
    ]
    numbers = x.array.astype(scale.dtype)
    if zero is not None:
        numbers = numbers - zero.array.astype(scale.dtype).reshape(shape)
    return constant_of(numbers * scale.array.reshape(shape), x.name)
