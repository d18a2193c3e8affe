"""PyTorch's quantized tensors and operators on them: DequantizeLinear, a float operator, QuantizeLinear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.legalize.quantize import range_with_zero

from ..common.quantization import (
    PREFIX,
    Scheme,
    attach_scheme,
    from_steps,
    known_scheme,
    round_to_scheme,
    scheme_of,
    storage_dtype,
    to_steps,
)
from ..common.values import Number, as_value, cast, torch_dtype
from ..rules import torch_op


def quantized_tensor(*names: str) -> Callable[[Any], Any]:
    """Decorate rules of ATen operators on quantized tensors."""
    return torch_op(*(PREFIX + name for name in names))


# -- to and fro -------------------------------------------------------------------------------------------------------


@torch_op("quantize_per_tensor")
def quantize_per_tensor(g, self, scale, zero_point, dtype):
    return round_to_scheme(
        g, self, Scheme(_static_number(g, scale), _static_number(g, zero_point), storage_dtype(dtype))
    )


@torch_op("quantize_per_channel")
def quantize_per_channel(g, self, scales, zero_points, axis, dtype):
    return round_to_scheme(g, self, Scheme(scales, zero_points, storage_dtype(dtype), axis % g.rank(self)))


def _static_number(g: Graph, value: Any) -> Any:
    """Return a constant scale or zero point of the module as a number."""
    known = g.static(value) if isinstance(value, ir.Value) else None
    return value if known is None else known.item()


@torch_op("quantize_per_tensor_dynamic")
def quantize_per_tensor_dynamic(g, self, dtype, reduce_range):
    return round_to_scheme(g, self, choose_scheme(g, self, storage_dtype(dtype), reduce_range))


@torch_op("_make_per_tensor_quantized_tensor")
def make_per_tensor_quantized_tensor(g, self, scale, zero_point):
    scheme = Scheme(scale, zero_point, torch_dtype(g, self))
    return attach_scheme(from_steps(g, self, scheme), scheme)


@torch_op("dequantize")
def dequantize(g, self):
    """dequantize; a tensor that is not quantized is returned in float32, as in PyTorch."""
    return cast(g, self, torch.float32)


@quantized_tensor("dequantize")
def dequantize_quantized(g, self):
    return [g.Identity(t) for t in self] if isinstance(self, list) else g.Identity(self)


@quantized_tensor("int_repr")
def int_repr(g, self):
    return to_steps(g, self, known_scheme(self))


@quantized_tensor("q_scale")
def q_scale(g, self):
    return known_scheme(self).scale


@quantized_tensor("q_zero_point")
def q_zero_point(g, self):
    return known_scheme(self).zero


@quantized_tensor("q_per_channel_scales")
def q_per_channel_scales(g, self):
    return _parameter_vector(g, known_scheme(self).scale, torch.float64)


@quantized_tensor("q_per_channel_zero_points")
def q_per_channel_zero_points(g, self):
    return _parameter_vector(g, known_scheme(self).zero, torch.int64)


@quantized_tensor("q_per_channel_axis")
def q_per_channel_axis(g, self):
    return known_scheme(self).axis


def _parameter_vector(g: Graph, parameter: Any, dtype: torch.dtype) -> ir.Value:
    return cast(g, g.const(parameter) if isinstance(parameter, np.ndarray) else parameter, dtype)


# -- a scheme from data -----------------------------------------------------------------------------------------------

_LEAST_SCALE = float(np.float32(6.1e-5))


def choose_scheme(g: Graph, x: ir.Value, dtype: torch.dtype, reduce_range: bool = False) -> Scheme:
    """Return the scheme that PyTorch chooses at run time for the range of x (`ChooseQuantizationParams`).

    The zero point is computed from the end of the range that is closer to zero; in float64, as in PyTorch.
    """
    info = torch.iinfo(dtype)
    low, high = (int(n / 2) for n in (info.min, info.max)) if reduce_range else (info.min, info.max)
    least, most = (cast(g, end, torch.float64) for end in range_with_zero(g, cast(g, x, torch.float32)))
    scale = g.Div(g.Sub(most, least), _float64_constant(g, high - low))
    single = cast(g, scale, torch.float32)
    vanishing = g.Or(g.Equal(single, np.float32(0)), g.IsInf(g.Reciprocal(single)))
    scale = g.Where(vanishing, _float64_constant(g, 0.1), scale)
    scale, least, most = _clamp_scale(g, scale, least, most, high - low)
    from_least, from_most = g.Div(least, scale), g.Div(most, scale)
    nearer = g.Less(
        g.Sub(_float64_constant(g, abs(low)), g.Abs(from_least)),
        g.Sub(_float64_constant(g, abs(high)), g.Abs(from_most)),
    )
    zero_point = g.Where(
        nearer, g.Sub(_float64_constant(g, low), from_least), g.Sub(_float64_constant(g, high), from_most)
    )
    zero_point = g.Round(g.Clip(zero_point, _float64_constant(g, low), _float64_constant(g, high)))
    return Scheme(cast(g, scale, torch.float32), cast(g, zero_point, dtype), dtype)


def _clamp_scale(
    g: Graph, scale: ir.Value, least: ir.Value, most: ir.Value, steps: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return a scale of at least 6.1e-5, with the range widened accordingly."""
    fine, nothing = _float64_constant(g, _LEAST_SCALE), _float64_constant(g, 0.0)
    small, widest = g.Less(scale, fine), _float64_constant(g, _LEAST_SCALE * steps)
    factor = cast(g, g.Div(as_value(g, _LEAST_SCALE, torch.float32), cast(g, scale, torch.float32)), torch.float64)
    only_above, only_below = g.Equal(least, nothing), g.Equal(most, nothing)
    raised_most = g.Where(only_above, widest, g.Mul(most, factor))
    raised_least = g.Where(only_above, nothing, g.Where(only_below, g.Neg(widest), g.Mul(least, factor)))
    return g.Where(small, fine, scale), g.Where(small, raised_least, least), g.Where(small, raised_most, most)


def _float64_constant(g: Graph, number: Number) -> ir.Value:
    return as_value(g, float(number), torch.float64)


# -- operators with a scheme of their own -----------------------------------------------------------------------------


def _fixed_range_rules(scale: float, middle: bool) -> Any:
    """Return rules for functions with a known range, for which PyTorch chooses the scheme: [0, 1) or, `middle`, [-1,
    1).
    """

    def make(operator: str) -> Any:
        def rule(g: Graph, self: ir.Value) -> ir.Value:
            dtype = known_scheme(self).dtype
            if dtype == torch.int32:
                raise Unsupported("this function of a tensor of torch.qint32")
            zero = (128 if middle else 0) - (128 if dtype == torch.int8 else 0)
            return round_to_scheme(g, torch_op.apply(g, operator, [self]), Scheme(scale, zero, dtype))

        return rule

    return make


torch_op.same(
    _fixed_range_rules(1 / 256, False), **{f"{PREFIX}sigmoid": "sigmoid", f"{PREFIX}hardsigmoid": "hardsigmoid"}
)
torch_op.same(_fixed_range_rules(2 / 256, True), **{f"{PREFIX}tanh": "tanh"})


def _requantize_rule(operator: str) -> Any:
    """Return the rule of a function of one quantized tensor that names the scheme of its result."""

    def rule(g: Graph, qx: ir.Value, output_scale: float, output_zero_point: int) -> ir.Value:
        return requantize(g, torch_op.apply(g, operator, [qx]), qx, output_scale, output_zero_point)

    return rule


def scheme_like(qx: ir.Value, scale: Any, zero: Any) -> Scheme:
    found = scheme_of(qx)
    if found is None:
        raise Unsupported("how this tensor is quantized is not known here (it comes out of a loop or branch)")
    return Scheme(scale, zero, found.dtype)


def requantize(g: Graph, y: ir.Value, like: ir.Value, scale: Any, zero: Any) -> ir.Value:
    """Return y rounded to a scale and a zero point, in the integers of the quantized tensor `like`."""
    return round_to_scheme(g, y, scheme_like(like, scale, zero))


torch_op.same(_requantize_rule, **{"quantized::hardswish": "hardswish", "quantized::sigmoid": "sigmoid"})


@torch_op("quantized::leaky_relu")
def leaky_relu(g, qx, negative_slope, inplace, output_scale, output_zero_point):
    return requantize(g, g.LeakyRelu(qx, alpha=negative_slope), qx, output_scale, output_zero_point)


@torch_op("quantized::elu")
def elu(g, self, output_scale, output_zero_point, alpha=1, scale=1, input_scale=1):
    out = torch_op.apply(g, "elu", [self, alpha, scale, input_scale])
    return requantize(g, out, self, output_scale, output_zero_point)


@torch_op("quantized::celu")
def celu(g, self, output_scale, output_zero_point, alpha=1):
    return requantize(g, torch_op.apply(g, "celu", [self, alpha]), self, output_scale, output_zero_point)


@torch_op("quantized::prelu")
def prelu(g, qx, weight, output_scale, output_zero_point):
    return requantize(g, torch_op.apply(g, "prelu", [qx, weight]), qx, output_scale, output_zero_point)


@torch_op("quantized::softmax")
def softmax(g, qx, dim, output_scale, output_zero_point):
    return requantize(g, g.Softmax(qx, axis=dim), qx, output_scale, output_zero_point)


@torch_op("quantized::dropout")
def dropout(g, self, output_scale, output_zero_point, p=0.5, training=False):
    if training:
        raise Unsupported("dropout draws random numbers; put the module in eval mode")
    return self


@torch_op("quantized::relu6")
def relu6(g, qx, inplace=False):
    return round_to_scheme(g, g.Clip(qx, 0.0, 6.0), known_scheme(qx))


@torch_op("quantized::clamp")
def clamp(g, qx, min=None, max=None):
    return round_to_scheme(g, torch_op.apply(g, "clamp", [qx, min, max]), known_scheme(qx))


@torch_op("quantized::max_pool2d")
def max_pool2d(g, qx, kernel_size, stride, padding, dilation, ceil_mode):
    return attach_scheme(
        torch_op.apply(g, "max_pool2d", [qx, kernel_size, stride, padding, dilation, ceil_mode]), known_scheme(qx)
    )


# -- of two tensors ---------------------------------------------------------------------------------------------------


def _binary_rule(operator: str, relu: bool) -> Any:
    def rule(g: Graph, qa: ir.Value, qb: ir.Value, scale: float, zero_point: int) -> ir.Value:
        out = g.node(operator, [qa, qb])
        return requantize(g, g.Relu(out) if relu else out, qa, scale, zero_point)

    return rule


torch_op.same(
    lambda operator: _binary_rule(operator, False),
    **{"quantized::add": "Add", "quantized::mul": "Mul", "quantized::matmul": "MatMul"},
)
torch_op.same(
    lambda operator: _binary_rule(operator, True), **{"quantized::add_relu": "Add", "quantized::mul_relu": "Mul"}
)


@torch_op("quantized::cat", "quantized::cat_relu")
def cat(g, qx, dim, scale, zero_point):
    found = known_scheme(qx[0])
    scheme = Scheme(
        found.scale if scale is None else scale, found.zero if zero_point is None else zero_point, found.dtype
    )
    return round_to_scheme(g, g.Concat(*qx, axis=dim), scheme)


@torch_op("quantized::add_scalar", "quantized::add.Scalar")
def add_scalar(g, qa, b):
    """Keep the integers and move the zero point; if the result exceeds the range, requantize to a larger scale."""
    scheme = known_scheme(qa)
    own, zero = _plain_numbers(scheme)
    info, steps = torch.iinfo(scheme.dtype), round(float(np.float32(b) / np.float32(own)))
    zero, scale, width = zero - steps, own, info.max - info.min
    if zero < info.min:
        zero, scale = info.min, float(np.float32((info.max - zero) / width) * np.float32(own))
    elif zero > info.max:
        zero, scale = info.max, float(np.float32((zero - info.min) / width) * np.float32(own))
    moved = g.Add(qa, g.const(steps * float(own), ir.DataType.FLOAT))
    return round_to_scheme(g, moved, Scheme(scale, zero, scheme.dtype))


@torch_op("quantized::add_scalar_relu", "quantized::add_relu.Scalar")
def add_scalar_relu(g, qa, b):
    out = add_scalar(g, qa, b)
    return attach_scheme(g.Relu(out), known_scheme(out))


@torch_op("quantized::mul_scalar", "quantized::mul.Scalar")
def mul_scalar(g, qa, b):
    scheme = known_scheme(qa)
    own, zero = _plain_numbers(scheme)
    info = torch.iinfo(scheme.dtype)
    zero = zero if b > 0 else info.max + info.min - zero
    new = Scheme(abs(b) * own, zero, scheme.dtype) if b else Scheme(1.0, 0, scheme.dtype)
    return round_to_scheme(g, g.Mul(qa, g.const(float(b), ir.DataType.FLOAT)), new)


def _plain_numbers(scheme: Scheme) -> tuple[Any, Any]:
    """Return scale and zero point as numbers."""
    if isinstance(scheme.scale, ir.Value) or scheme.axis is not None:
        raise Unsupported("a number and a tensor whose scale is known at run time only, or is one by channel")
    return scheme.scale, scheme.zero


@torch_op("quantized::mul_scalar_relu", "quantized::mul_relu.Scalar")
def mul_scalar_relu(g, qa, b):
    out = mul_scalar(g, qa, b)
    return attach_scheme(g.Relu(out), known_scheme(out))
