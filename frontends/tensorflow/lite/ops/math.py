"""Arithmetic, comparisons, logic and casts: mostly TensorFlow's operators under other names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dims_of, lazy_tensor

from ...common.lazy_reshape import cast
from ...common.quantization_levels import constant_levels, fake_quantize
from ..file import Tensor
from ..quantization import INTEGERS, requantize
from ..rules import AS_STORED, emit_tf, tf_rule, tflite_op

AS_STORED.update(["QUANTIZE", "CAST"])  # a cast ignores the scale (kernels/cast.cc)

tflite_op.same(
    tf_rule, ABS="Abs", CEIL="Ceil", COS="Cos", EXP="Exp", FLOOR="Floor", LOG="Log", LOGICAL_NOT="LogicalNot",
    NEG="Neg", ROUND="Round", RSQRT="Rsqrt", SIGN="Sign", SIN="Sin", SQRT="Sqrt", SQUARE="Square",
    EQUAL="Equal", NOT_EQUAL="NotEqual", LESS="Less", LESS_EQUAL="LessEqual", GREATER="Greater",
    GREATER_EQUAL="GreaterEqual", LOGICAL_AND="LogicalAnd", LOGICAL_OR="LogicalOr", ADD="AddV2", SUB="Sub", MUL="Mul",
    DIV="Div", MAXIMUM="Maximum", MINIMUM="Minimum", POW="Pow", FLOOR_DIV="FloorDiv", FLOOR_MOD="FloorMod",
    SQUARED_DIFFERENCE="SquaredDifference", ATAN2="Atan2", BITWISE_XOR="BitwiseXor", RIGHT_SHIFT="RightShift",
    REAL="Real", IMAG="Imag", COMPLEX_ABS="ComplexAbs",
)  # fmt: skip


@tflite_op("ADD_N")
def add_n(g: Graph, *inputs: ir.Value) -> ir.Value:
    return emit_tf(g, "AddN", [list(inputs)])


@tflite_op("SELECT")
def select(g: Graph, condition: ir.Value, t: ir.Value, e: ir.Value) -> ir.Value:
    return emit_tf(g, "Select", [condition, t, e])


@tflite_op("SELECT_V2")
def select_v2(g: Graph, condition: ir.Value, t: ir.Value, e: ir.Value) -> ir.Value:
    return emit_tf(g, "SelectV2", [condition, t, e])


@tflite_op("CAST")
def cast_(g: Graph, x: ir.Value, *, output: Tensor) -> ir.Value:
    """CAST. The dtype is that of the result's tensor, because converters leave the option at its default."""
    if output.dtype is None:
        raise Unsupported("a cast to a type that is not a tensor")
    if output.is_complex:
        raise Unsupported("a cast to complex numbers")
    if g.dtype(x).is_floating_point() and output.dtype.is_integer():
        return _saturated(g, x, output.dtype)
    return emit_tf(g, "Cast", [x], {"DstT": output.dtype, "Truncate": False})


def _saturated(g: Graph, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Return numbers clamped to the range of an integer dtype, and NaN as its upper end, as in LiteRT.

    Without clamping, a runtime keeps the lowest bits, or does what its processor does.
    """
    limits = np.iinfo(dtype.numpy())
    low, beyond = (g.const(np.array(float(n)), g.dtype(x)) for n in (limits.min, limits.max + 1))
    inside, above = g.Less(x, beyond), g.Max(x, low)
    if limits.bits <= 16:  # a floating-point dtype holds the range exactly
        return g.Cast(g.Where(inside, above, g.const(np.array(float(limits.max)), g.dtype(x))), to=dtype)
    return g.Where(inside, g.Cast(above, to=dtype), g.const(limits.max, dtype))


@tflite_op("DEQUANTIZE")
def dequantize(g: Graph, x: ir.Value) -> ir.Value:
    """DEQUANTIZE: the input already holds real numbers; float16 is cast."""
    return _weight_as_float32(g, x) if x.const_value is not None else cast(g, x, ir.DataType.FLOAT)


@tflite_op("QUANTIZE")
def quantize(g: Graph, x: ir.Value, *, given: Tensor, output: Tensor) -> ir.Value:
    if output.quantization is None or output.dtype not in INTEGERS:
        raise Unsupported("quantization without a scale")
    return requantize(g, x, given, output)


@tflite_op("DENSIFY")
def densify(g: Graph, x: ir.Value) -> ir.Value:
    """DENSIFY: this was done when constants were read."""
    return x


@tflite_op("FAKE_QUANT")
def fake_quant(g: Graph, x: ir.Value, *, min: float, max: float, num_bits: int, narrow_range: bool) -> ir.Value:
    return fake_quantize(g, x, constant_levels(min, max, num_bits, narrow_range, lite=True), divided=False)


def _weight_as_float32(g: Graph, x: ir.Value) -> ir.Value:
    """Return a weight in float32, computed when it is written."""
    tensor = x.const_value
    assert tensor is not None
    if tensor.dtype == ir.DataType.FLOAT:
        return x
    make: Callable[[], object] = lambda: tensor.numpy().astype("float32")  # noqa: E731
    shape = list(dims_of(tensor))
    return g.initializer(x.name or "weight", lazy_tensor(ir.DataType.FLOAT, shape, make))  # type: ignore[arg-type]
