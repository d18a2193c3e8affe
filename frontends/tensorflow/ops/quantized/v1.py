"""Arithmetic on bytes with ranges, as written by TensorFlow 1's graph quantizer; sums have 32 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ...common import shape_values
from ...common.lazy_reshape import transpose
from ...common.quantized_ranges import (
    Range,
    dequantize_tensor,
    float_to_quantized_unclamped,
    product_range,
    quantize_tensor,
    quantized_to_float,
    requantize_tensor,
    saturate_cast,
    static_zero_point,
)
from ...rules import tf_op
from ..shape import reshape

_F32 = np.float32
_INT32, _UINT8 = ir.DataType.INT32, ir.DataType.UINT8


@tf_op("QuantizedMatMul")
def quantized_mat_mul(
    g: Graph, a: ir.Value, b: ir.Value, min_a: ir.Value, max_a: ir.Value, min_b: ir.Value, max_b: ir.Value, *,
    transpose_a: bool, transpose_b: bool,
) -> list[ir.Value]:  # fmt: skip
    a, b = (transpose(g, v, [1, 0]) if swap else v for v, swap in ((a, transpose_a), (b, transpose_b)))
    zero_a, zero_b = static_zero_point(g, min_a, max_a, _UINT8), static_zero_point(g, min_b, max_b, _UINT8)
    if zero_a is not None and zero_b is not None and min(zero_a, zero_b) >= 0 and max(zero_a, zero_b) <= 255:
        y = g.MatMulInteger(a, b, np.uint8(zero_a), np.uint8(zero_b))
    else:
        y = g.MatMul(_subtract_zero_point(g, a, min_a, max_a), _subtract_zero_point(g, b, min_b, max_b))
    return [y, *product_range(g, (min_a, max_a), (min_b, max_b))]


@tf_op("QuantizedMul")
def quantized_mul(
    g: Graph, x: ir.Value, y: ir.Value, min_x: ir.Value, max_x: ir.Value, min_y: ir.Value, max_y: ir.Value
) -> list[ir.Value]:
    z = g.Mul(_subtract_zero_point(g, x, min_x, max_x), _subtract_zero_point(g, y, min_y, max_y))
    return [z, *product_range(g, (min_x, max_x), (min_y, max_y))]


def _subtract_zero_point(g: Graph, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """Return levels minus that of zero, in 32 bits."""
    zero = static_zero_point(g, low, high, g.dtype(x))
    at = (
        g.Cast(float_to_quantized_unclamped(g, _F32(0), low, high, g.dtype(x)), to=_INT32)
        if zero is None
        else np.int32(zero)
    )
    return g.Sub(g.Cast(x, to=_INT32), at)


@tf_op("QuantizedAdd")
def quantized_add(
    g: Graph, x: ir.Value, y: ir.Value, min_x: ir.Value, max_x: ir.Value, min_y: ir.Value, max_y: ir.Value
) -> list[ir.Value]:
    """QuantizedAdd: both operands are requantized to a range 2¹⁴ times the larger of their ranges. A single element is
    rounded directly, others by a level distance.
    """
    high = g.Mul(g.Max(g.Abs(g.Min(min_x, min_y)), g.Abs(g.Max(max_x, max_y))), _F32(2**14))
    new = (g.Neg(high), high)
    first, second = _has_one_element(g, x), _has_one_element(g, y)
    if isinstance(first, ir.Value) and isinstance(second, ir.Value):
        second = g.And(second, g.Not(first))
    left = _requantize_to_int32(g, x, (min_x, max_x), new, first)
    return [g.Add(left, _requantize_to_int32(g, y, (min_y, max_y), new, second if first is not True else False)), *new]


def _has_one_element(g: Graph, x: ir.Value) -> bool | ir.Value:
    """Return whether `x` has one element; a scalar of the graph if it is known at run time only."""
    dims = g.shape(x) if x.shape is not None else (None,)
    if any(isinstance(d, int) and d != 1 for d in dims):
        return False
    return all(d == 1 for d in dims) or g.Equal(g.Size(x), 1)


def _requantize_to_int32(g: Graph, x: ir.Value, old: Range, new: Range, alone: bool | ir.Value) -> ir.Value:
    """Return bytes as 32-bit integers of another range."""
    once = (
        saturate_cast(g, float_to_quantized_unclamped(g, quantized_to_float(g, x, *old), *new, _INT32), _INT32)
        if alone is not False
        else None
    )
    if once is not None and alone is True:
        return once
    start, step = (
        float_to_quantized_unclamped(g, quantized_to_float(g, g.const(np.uint8(n)), *old), *new, _INT32) for n in (0, 1)
    )
    distance = g.Cast(g.Cast(g.Sub(step, start), to=_INT32), to=ir.DataType.INT64)
    steps = saturate_cast(g, g.Add(start, g.Mul(g.Cast(x, to=ir.DataType.INT64), distance)), _INT32)
    return steps if once is None else g.Where(alone, once, steps)


@tf_op("QuantizedBiasAdd")
def quantized_bias_add(
    g: Graph, input: ir.Value, bias: ir.Value, min_input: ir.Value, max_input: ir.Value, min_bias: ir.Value,
    max_bias: ir.Value,
) -> list[ir.Value]:  # fmt: skip
    """QuantizedBiasAdd: both operands are requantized to a range 2¹⁷ times the larger one, whose zero is not an
    integer.
    """
    ends = g.Max(max_input, g.Max(g.Neg(min_input), g.Max(max_bias, g.Neg(min_bias))))
    high = g.Mul(ends, _F32(2**17))
    new = (g.Neg(high), high)
    parts = [
        quantize_tensor(g, dequantize_tensor(g, v, *old), *new, _INT32)
        for v, old in ((input, (min_input, max_input)), (bias, (min_bias, max_bias)))
    ]
    zero = saturate_cast(g, float_to_quantized_unclamped(g, _F32(0), *new, _INT32), _INT32)
    return [g.Add(parts[0], g.Add(parts[1], zero)), *new]


@tf_op("QuantizedRelu")
def quantized_relu(g: Graph, features: ir.Value, min_features: ir.Value, max_features: ir.Value) -> list[ir.Value]:
    ends = (min_features, max_features)
    return [g.Clip(features, _quantize_bound(g, 0, ends, g.dtype(features))), *ends]


@tf_op("QuantizedRelu6")
def quantized_relu6(g: Graph, features: ir.Value, min_features: ir.Value, max_features: ir.Value) -> list[ir.Value]:
    dtype, ends = g.dtype(features), (min_features, max_features)
    return [g.Clip(features, _quantize_bound(g, 0, ends, dtype), _quantize_bound(g, 6, ends, dtype)), *ends]


def _quantize_bound(g: Graph, x: int, ends: Range, dtype: ir.DataType) -> ir.Value:
    return saturate_cast(g, float_to_quantized_unclamped(g, g.const(float(x)), *ends, dtype), dtype)


@tf_op("Requantize")
def requantize(
    g: Graph, input: ir.Value, input_min: ir.Value, input_max: ir.Value, requested_output_min: ir.Value,
    requested_output_max: ir.Value, *, out_type: ir.DataType,
) -> list[ir.Value]:  # fmt: skip
    new = (requested_output_min, requested_output_max)
    return [requantize_tensor(g, input, (input_min, input_max), new, out_type), *new]


@tf_op("RequantizationRange")
def requantization_range(g: Graph, input: ir.Value, input_min: ir.Value, input_max: ir.Value) -> list[ir.Value]:
    """RequantizationRange: the numbers of the lowest and the highest occurring level; the lower end is at most zero."""
    least, most = (quantized_to_float(g, g.node(f"Reduce{end}", [input], {"keepdims": 0}), input_min, input_max)
                   for end in ("Min", "Max"))  # fmt: skip
    return [g.Min(least, _F32(0)), most]


@tf_op("QuantizeDownAndShrinkRange")
def quantize_down(
    g: Graph, input: ir.Value, input_min: ir.Value, input_max: ir.Value, *, out_type: ir.DataType
) -> list[ir.Value]:
    least, most = requantization_range(g, input, input_min, input_max)
    return requantize(g, input, input_min, input_max, least, most, out_type=out_type)


@tf_op("QuantizedReshape")
def quantized_reshape(
    g: Graph, tensor: ir.Value, shape: ir.Value, input_min: ir.Value, input_max: ir.Value
) -> list[ir.Value]:
    return [reshape(g, tensor, shape), input_min, input_max]


@tf_op("QuantizedConcat")
def quantized_concat(
    g: Graph, concat_dim: ir.Value, values: Sequence[ir.Value], input_mins: Sequence[ir.Value],
    input_maxes: Sequence[ir.Value],
) -> list[ir.Value]:  # fmt: skip
    """QuantizedConcat in the range around all, with zero in the middle for 32 bits; inputs in that range are
    unchanged.
    """
    new = g.Min(*input_mins), g.Max(*input_maxes)
    if g.dtype(values[0]) == _INT32:
        largest = g.Max(*map(g.Abs, new))
        new = g.Neg(largest), largest
    parts = []
    for value, *old in zip(values, input_mins, input_maxes, strict=True):
        same = g.And(*(g.Equal(a, b) for a, b in zip(old, new, strict=True)))
        parts.append(g.Where(same, value, requantize_tensor(g, value, (old[0], old[1]), new, g.dtype(value))))
    return [g.Concat(*parts, axis=shape_values.integer(concat_dim, "concat_dim")), *new]
