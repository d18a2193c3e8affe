"""Fake quantization, and operators in the graphs of PyTorch's and torchao's exported quantization."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.legalize.quantize import range_with_zero

from ..common.quantization import (
    Parameter,
    Scheme,
    affine_parameters,
    broadcast_parameter,
    from_steps,
    symmetric_scale,
    to_steps,
)
from ..common.values import as_value, cast, promote_operands
from ..rules import torch_op

# -- fake quantization ------------------------------------------------------------------------------------------------


@torch_op("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize_per_tensor_affine(g, self, scale, zero_point, quant_min, quant_max):
    return _fake_quantize(g, self, scale, zero_point, None, quant_min, quant_max)


@torch_op("fake_quantize_per_channel_affine")
def fake_quantize_per_channel_affine(g, self, scale, zero_point, axis, quant_min, quant_max):
    return _fake_quantize(g, self, scale, zero_point, axis, quant_min, quant_max)


@torch_op("quantized_decomposed::fake_quant_per_channel")
def fake_quant_per_channel(g, input, scales, zero_points, axis, quant_min, quant_max):
    return _fake_quantize(g, input, scales, zero_points, axis, quant_min, quant_max)


@torch_op("fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_channel_affine_cachemask")
def fake_quantize_cachemask(g, self, scale, zero_point, *range):
    raise Unsupported("the mask of fake quantization is for training only; put the module in eval mode")


@torch_op("fused_moving_avg_obs_fake_quant")
def fused_moving_avg_obs_fake_quant(
    g, self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, averaging_const,
    quant_min, quant_max, ch_axis, per_row_fake_quant=False, symmetric_quant=False,
):  # fmt: skip
    if g.static(observer_on) is None or g.static(observer_on).any():
        raise Unsupported(
            "an observer that still measures ranges",
            hint="call model.apply(torch.ao.quantization.disable_observer) before converting",
        )
    enabled = g.static(fake_quant_on)
    if enabled is None:
        raise Unsupported("fake quantization that is switched on or off at run time")
    if not enabled.any():
        return self
    return _fake_quantize(g, self, scale, zero_point, ch_axis if per_row_fake_quant else None, quant_min, quant_max)


def _fake_quantize(
    g: Graph, x: ir.Value, scale: Parameter, zero_point: Parameter, axis: int | None, low: int, high: int
) -> ir.Value:
    """Return x rounded to the steps between `low` and `high`."""
    dtype = torch.uint8 if low >= 0 and high <= 255 else torch.int8 if low >= -128 and high <= 127 else torch.int32
    if dtype != torch.int32 and not _zero_point_fits(g, zero_point, dtype):
        dtype = torch.int32
    scheme = Scheme(scale, zero_point, dtype, axis)
    return cast(g, from_steps(g, to_steps(g, x, scheme, low, high), scheme), g.dtype(x))


def _zero_point_fits(g: Graph, zero: Parameter, dtype: torch.dtype) -> bool:
    """Return whether a zero point is an integer of `dtype`. An unknown zero point is assumed to be within the bounds,
    as PyTorch requires.
    """
    known = g.static(zero) if isinstance(zero, ir.Value) else zero
    if known is None:
        return True
    array, info = np.asarray(known), torch.iinfo(dtype)
    return bool((array == np.rint(array)).all() and (array >= info.min).all() and (array <= info.max).all())


# -- quantized_decomposed ---------------------------------------------------------------------------------------------


@torch_op("quantized_decomposed::quantize_per_tensor")
def quantize_per_tensor(g, input, scale, zero_point, quant_min, quant_max, dtype):
    return to_steps(
        g, input, Scheme(scale, zero_point, dtype), _constant_bound(g, quant_min), _constant_bound(g, quant_max)
    )


@torch_op("quantized_decomposed::dequantize_per_tensor")
def dequantize_per_tensor(g, input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None):
    return _dequantize(g, input, Scheme(scale, zero_point, dtype), out_dtype)


@torch_op("quantized_decomposed::quantize_per_channel")
def quantize_per_channel(g, input, scales, zero_points, axis, quant_min, quant_max, dtype):
    return to_steps(g, input, Scheme(scales, zero_points, dtype, axis), quant_min, quant_max)


@torch_op("quantized_decomposed::dequantize_per_channel")
def dequantize_per_channel(
    g, input, scales, zero_points, axis, quant_min, quant_max, dtype, *, out_dtype=None
):  # fmt: skip
    return _dequantize(g, input, Scheme(scales, 0 if zero_points is None else zero_points, dtype, axis), out_dtype)


def _dequantize(g: Graph, q: ir.Value, scheme: Scheme, out_dtype: torch.dtype | None) -> ir.Value:
    if out_dtype in (None, torch.float32):
        return from_steps(g, q, scheme)
    if out_dtype == torch.float64:
        raise Unsupported("dequantizing to float64")
    # In half precision PyTorch rounds the integers, their difference and the product, but not the scale.
    moved = g.Sub(cast(g, q, out_dtype), broadcast_parameter(g, q, scheme.zero, scheme.axis, out_dtype))
    scale = broadcast_parameter(g, q, scheme.scale, scheme.axis, torch.float32)
    return cast(g, g.Mul(cast(g, moved, torch.float32), scale), out_dtype)


def _constant_bound(g: Graph, number: ir.Value | int) -> int:
    """Return a bound that an overload takes as a tensor."""
    if not isinstance(number, ir.Value):
        return number
    array = g.static(number)
    if array is None:
        raise Unsupported("bounds of quantization that are known at run time only")
    return int(array.item())


@torch_op("quantized_decomposed::convert_element_type.no_fuse")
def convert_element_type(g, input, dtype):
    return cast(g, input, dtype)


# -- scales from data -------------------------------------------------------------------------------------------------


@torch_op("quantized_decomposed::choose_qparams.tensor")
def choose_qparams(g, input, qmin, qmax, eps, dtype):
    low, high = range_with_zero(g, cast(g, input, torch.float32))
    scale, zero = affine_parameters(g, low, high, (qmin, qmax), eps)
    return _reshape_to_one(g, scale, torch.float64), _reshape_to_one(g, zero, torch.int64)


@torch_op("quantized_decomposed::choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(g, input, qmin, qmax, eps, dtype):
    scale = symmetric_scale(g, *range_with_zero(g, cast(g, input, torch.float32)), (qmin, qmax), eps)
    zero = g.const(128 if dtype == torch.uint8 else 0, ir.DataType.INT64)
    return _reshape_to_one(g, scale, torch.float64), _reshape_to_one(g, zero, torch.int64)


def _reshape_to_one(g: Graph, x: ir.Value, dtype: torch.dtype) -> ir.Value:
    """Return a tensor with one element in one dim, the shape that PyTorch's choice returns."""
    return cast(g, g.Reshape(x, [1]), dtype)


@torch_op("quantized_decomposed::choose_qparams_per_token")
def choose_qparams_per_token(g, input, dtype):
    x = cast(g, input, torch.float32) if g.dtype(input) == ir.DataType.FLOAT16 else input
    largest = g.ReduceMax(g.Abs(x), [-1], keepdims=1)
    scales = g.Div(g.Max(largest, as_value(g, 1e-5, g.dtype(x))), as_value(g, 127.0, g.dtype(x)))
    return scales, g.Mul(scales, as_value(g, 0.0, g.dtype(x)))


@torch_op(
    "quantized_decomposed::choose_qparams_per_token_asymmetric",
    "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl",
)
def choose_qparams_per_token_asymmetric(g, input, dtype):
    def number(value: float) -> ir.Value:
        return as_value(g, value, g.dtype(input))

    low, high = range_with_zero(g, input, [-1], keepdims=1)
    scale = g.Max(g.Div(g.Sub(high, low), number(255.0)), number(float(np.finfo(np.float32).eps)))
    below, above = g.Div(low, scale), g.Div(high, scale)
    error = g.Add(g.Add(number(-128.0), below), g.Add(number(127.0), above))
    zero = g.Where(g.Greater(error, number(0.0)), g.Sub(number(-128.0), below), g.Sub(number(127.0), above))
    zero = g.Round(g.Clip(zero, number(-128.0), number(127.0)))
    return cast(g, scale, torch.float64), cast(g, zero, torch.int64)


@torch_op("quantized_decomposed::quantize_per_token")
def quantize_per_token(g, input, scales, zero_points, quant_min, quant_max, dtype):
    return _quantize_rounding_last(g, input, scales, zero_points, quant_min, quant_max, dtype)


def _quantize_rounding_last(
    g: Graph, x: ir.Value, scales: ir.Value, zeros: ir.Value, low: int, high: int, dtype: torch.dtype
) -> ir.Value:
    """Return x / scale + zero point, rounded only after the sum, in the dtype that PyTorch promotes them to."""
    x, scales = promote_operands(g, x, scales)
    zeros = cast(g, zeros, g.dtype(x))
    steps = g.Round(g.Add(g.Mul(x, g.Reciprocal(scales)), zeros))
    return cast(g, g.Clip(steps, as_value(g, low, g.dtype(x)), as_value(g, high, g.dtype(x))), dtype)


@torch_op("quantized_decomposed::dequantize_per_token")
def dequantize_per_token(
    g, input, scales, zero_points, quant_min, quant_max, dtype, output_dtype
):  # fmt: skip
    moved = g.Sub(*promote_operands(g, input, zero_points))
    return cast(g, g.Mul(*promote_operands(g, moved, scales)), output_dtype)


@torch_op("quantized_decomposed::quantize_per_channel_group")
def quantize_per_channel_group(g, input, scales, zero_points, quant_min, quant_max, dtype, group_size):
    if 0 in g.shape(input):
        return cast(g, input, dtype)
    groups, scales, zeros = _reshape_to_groups(g, input, scales, zero_points, group_size)
    assert zeros is not None
    return g.Reshape(_quantize_rounding_last(g, groups, scales, zeros, quant_min, quant_max, dtype), g.dims(input))


@torch_op("quantized_decomposed::dequantize_per_channel_group")
def dequantize_per_channel_group(
    g, w_int8, scales, zero_points, quant_min, quant_max, dtype, group_size, output_dtype
):  # fmt: skip
    if 0 in g.shape(w_int8):
        return cast(g, w_int8, output_dtype)
    groups, scales, zeros = _reshape_to_groups(g, w_int8, scales, zero_points, group_size)
    if zeros is not None:
        groups = g.Sub(*promote_operands(g, groups, zeros))
    return cast(g, g.Reshape(g.Mul(*promote_operands(g, groups, scales)), g.dims(w_int8)), output_dtype)


def _reshape_to_groups(
    g: Graph, x: ir.Value, scales: ir.Value, zeros: ir.Value | None, size: int
) -> tuple[ir.Value, ir.Value, ir.Value | None]:
    """Return rows of one group each, with the scales and zero points."""
    width = g.shape(x)[-1]
    if isinstance(width, int) and size > width and g.shape(scales)[-1] == 1:
        size = width
    return g.Reshape(x, [-1, size]), g.Reshape(scales, [-1, 1]), None if zeros is None else g.Reshape(zeros, [-1, 1])
