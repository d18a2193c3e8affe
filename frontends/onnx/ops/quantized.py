"""Operators on quantized tensors: each dequantizes, computes, and quantizes the result.

ONNX Runtime's kernels multiply the scales first, or use a table, so a result halfway between two steps may be rounded
to the other one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Graph

from ..rules import runtime_op
from .activation import cast_from_float


def numbers_of(g: Graph, x: ir.Value, scale: ir.Value, zero: ir.Value | None) -> ir.Value:
    """Dequantize with a single scale."""
    return g.DequantizeLinear(x, _scalar(g, scale), None if zero is None else _scalar(g, zero))


def steps_of(g: Graph, y: ir.Value, scale: ir.Value, zero: ir.Value | None, dtype: ir.DataType) -> ir.Value:
    """Quantize with a single scale. dtype: of the result if there is no zero point."""
    zero = g.const(0, dtype) if zero is None else _scalar(g, zero)
    return g.QuantizeLinear(y, _scalar(g, scale), zero)


def _scalar(g: Graph, x: ir.Value) -> ir.Value:
    if g.rank(x) == 0:
        return x
    if g.shape(x) != (1,):
        raise Unsupported("a scale for each channel")
    return g.Reshape(x, np.zeros(0, np.int64))


def _of_two(operator: str) -> Callable[..., ir.Value]:
    def rule(
        g: Graph, a: ir.Value, a_scale: ir.Value, a_zero: ir.Value | None, b: ir.Value, b_scale: ir.Value,
        b_zero: ir.Value | None, y_scale: ir.Value, y_zero: ir.Value | None = None,
    ) -> ir.Value:  # fmt: skip
        y = g.node(operator, [numbers_of(g, a, a_scale, a_zero), numbers_of(g, b, b_scale, b_zero)])
        return steps_of(g, y, y_scale, y_zero, g.dtype(a))

    return rule


runtime_op.same(_of_two, **{"com.microsoft::QLinearAdd": "Add", "com.microsoft::QLinearMul": "Mul"})


def _quantized(g: Graph, made: ir.Value, x: ir.Value, y_scale: ir.Value, y_zero: ir.Value | None) -> ir.Value:
    return steps_of(g, made, y_scale, y_zero, g.dtype(x))


@runtime_op("com.microsoft::QLinearSigmoid")
def qlinear_sigmoid(
    g: Graph, x: ir.Value, x_scale: ir.Value, x_zero: ir.Value | None, y_scale: ir.Value, y_zero: ir.Value | None = None
) -> ir.Value:
    return _quantized(g, g.Sigmoid(numbers_of(g, x, x_scale, x_zero)), x, y_scale, y_zero)


@runtime_op("com.microsoft::QLinearLeakyRelu")
def qlinear_leaky_relu(
    g: Graph, x: ir.Value, x_scale: ir.Value, x_zero: ir.Value | None, y_scale: ir.Value,
    y_zero: ir.Value | None = None, *, alpha: float = 0.01,
) -> ir.Value:  # fmt: skip
    return _quantized(g, g.LeakyRelu(numbers_of(g, x, x_scale, x_zero), alpha=alpha), x, y_scale, y_zero)


@runtime_op("com.microsoft::QLinearSoftmax")
def qlinear_softmax(
    g: Graph, x: ir.Value, x_scale: ir.Value, x_zero: ir.Value | None, y_scale: ir.Value,
    y_zero: ir.Value | None = None, *, axis: int = -1, opset: int,
) -> ir.Value:  # fmt: skip
    """QLinearSoftmax. opset: of the Softmax; before 13, all dims from `axis` on are merged."""
    numbers = numbers_of(g, x, x_scale, x_zero)
    rank = g.rank(x)
    if opset >= 13 or axis % rank == rank - 1:
        made = g.Softmax(numbers, axis=axis)
    else:
        made = g.Reshape(g.Softmax(g.Flatten(numbers, axis=axis), axis=-1), g.dims(x))
    return _quantized(g, made, x, y_scale, y_zero)


@runtime_op("com.microsoft::QLinearGlobalAveragePool")
def qlinear_global_average_pool(
    g: Graph, x: ir.Value, x_scale: ir.Value, x_zero: ir.Value | None, y_scale: ir.Value,
    y_zero: ir.Value | None = None, *, channels_last: int = 0,
) -> ir.Value:  # fmt: skip
    numbers = _channels_first(g, numbers_of(g, x, x_scale, x_zero), channels_last)
    return _quantized(g, _channels_last(g, g.GlobalAveragePool(numbers), channels_last), x, y_scale, y_zero)


@runtime_op("com.microsoft::QLinearAveragePool")
def qlinear_average_pool(
    g: Graph, x: ir.Value, x_scale: ir.Value, x_zero: ir.Value | None, y_scale: ir.Value,
    y_zero: ir.Value | None = None, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    channels_last: int = 0, count_include_pad: int = 0, pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> ir.Value:  # fmt: skip
    numbers = _channels_first(g, numbers_of(g, x, x_scale, x_zero), channels_last)
    y = g.AveragePool(numbers, kernel_shape=kernel_shape, auto_pad=auto_pad, ceil_mode=ceil_mode, pads=pads,
                      strides=strides, count_include_pad=count_include_pad)  # fmt: skip
    return _quantized(g, _channels_last(g, y, channels_last), x, y_scale, y_zero)


def _channels_first(g: Graph, x: ir.Value, moved: int) -> ir.Value:
    rank = g.rank(x)
    return g.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)]) if moved else x


def _channels_last(g: Graph, x: ir.Value, moved: int) -> ir.Value:
    rank = g.rank(x)
    return g.Transpose(x, perm=[0, *range(2, rank), 1]) if moved else x


@runtime_op("com.microsoft::QLinearConcat")
def qlinear_concat(g: Graph, y_scale: ir.Value, y_zero: ir.Value, *parts: ir.Value, axis: int) -> ir.Value:
    """QLinearConcat. parts: each tensor with its scale and zero point."""
    if len(parts) % 3:
        raise BadInput(f"QLinearConcat: {len(parts)} inputs, which are no tensors with a scale and a zero point each")
    numbers = [numbers_of(g, *parts[i : i + 3]) for i in range(0, len(parts), 3)]
    return steps_of(g, g.Concat(*numbers, axis=axis), y_scale, y_zero, g.dtype(y_zero))


@runtime_op("com.microsoft::QLinearWhere")
def qlinear_where(
    g: Graph, condition: ir.Value, a: ir.Value, a_scale: ir.Value, a_zero: ir.Value, b: ir.Value, b_scale: ir.Value,
    b_zero: ir.Value, y_scale: ir.Value, y_zero: ir.Value,
) -> ir.Value:  # fmt: skip
    y = g.Where(condition, numbers_of(g, a, a_scale, a_zero), numbers_of(g, b, b_scale, b_zero))
    return _quantized(g, y, a, y_scale, y_zero)


@runtime_op("com.microsoft::QGemm")
def qgemm(
    g: Graph, a: ir.Value, a_scale: ir.Value, a_zero: ir.Value, b: ir.Value, b_scale: ir.Value, b_zero: ir.Value,
    c: ir.Value | None = None, y_scale: ir.Value | None = None, y_zero: ir.Value | None = None, *, alpha: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> ir.Value:  # fmt: skip
    """QGemm. c is in units of alpha · a_scale · b_scale. Without an output scale, the result is floating-point."""
    axis = 0 if transB else 1
    weight = g.DequantizeLinear(b, _flat(g, b_scale), _flat(g, b_zero), axis=axis)
    inputs = [numbers_of(g, a, a_scale, a_zero), weight]
    if c is not None:
        scale = g.Mul(_scalar(g, a_scale), _flat(g, b_scale))
        scale = scale if alpha == 1 else g.Mul(scale, alpha)
        inputs.append(g.DequantizeLinear(c, scale, axis=g.rank(c) - 1))
    y = g.Gemm(*inputs, alpha=alpha, transA=transA, transB=transB)
    return y if y_scale is None else _quantized(g, y, a, y_scale, y_zero)


@runtime_op("com.microsoft::MatMulIntegerToFloat")
def matmul_integer_to_float(
    g: Graph, a: ir.Value, b: ir.Value, a_scale: ir.Value, b_scale: ir.Value, a_zero: ir.Value | None = None,
    b_zero: ir.Value | None = None, bias: ir.Value | None = None,
) -> ir.Value:  # fmt: skip
    scale = g.Mul(_flat(g, a_scale), _flat(g, b_scale))
    y = g.Mul(cast_from_float(g, g.Cast(g.MatMulInteger(a, b, a_zero, b_zero), to=ir.DataType.FLOAT), g.dtype(scale)),
              scale)  # fmt: skip
    return y if bias is None else g.Add(y, bias)


@runtime_op("com.microsoft::DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    g: Graph, a: ir.Value, b: ir.Value, b_scale: ir.Value, b_zero: ir.Value | None = None, bias: ir.Value | None = None
) -> ir.Value:
    steps, scale, zero = g.DynamicQuantizeLinear(a, outputs=3)
    return matmul_integer_to_float(g, steps, b, scale, b_scale, zero, b_zero, bias)


def _flat(g: Graph, x: ir.Value) -> ir.Value:
    """Return a scale per tensor, or per column."""
    return _scalar(g, x) if g.shape(x) == (1,) else x
