"""Quantization, as in QuantizeLinear-25 and DequantizeLinear-25."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from ..common import along, wide
from ..dtypes import FLOAT8, torch_dtype
from ..rules import onnx_op
from .cast import LIMITS, to_kind
from .conv import convolve


def _spread(scale: Any, x: Any, axis: Any, block: Any) -> Any:
    """Return a scale or zero point so that it broadcasts: per tensor, per index of an axis, or per block."""
    if scale.dim() == 0 or (scale.dim() == 1 and not block and scale.shape[0] == 1):
        return scale.reshape(())
    if scale.dim() == 1 and not block:
        return along(scale, axis, x.dim())
    if not block:
        return scale
    count = x.shape[axis]
    return torch.repeat_interleave(scale, block, axis).narrow(axis, 0, count)


@onnx_op("QuantizeLinear")
def quantize_linear(t, x, scale, zero=None, *, axis, block_size, output_dtype, precision=0, saturate=1):
    assert t.node is not None
    kind = t.node.outputs[0].dtype
    dtype = torch_dtype(kind)
    exact = torch_dtype(ir.DataType(precision)) if precision else scale.dtype
    y = x.to(exact) / _spread(wide(scale), x, axis, block_size).to(exact)
    y = y.to(torch.float32)
    if dtype in FLOAT8:
        return to_kind(y, kind, bool(saturate))
    y = torch.round(y)
    if zero is not None:
        y = y + _spread(wide(zero), x, axis, block_size).to(torch.float32)
    low, high = LIMITS.get(kind) or (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    return torch.clamp(y, low, high).to(torch.int64).to(dtype)


@onnx_op("DequantizeLinear")
def dequantize_linear(t, x, scale, zero=None, *, axis, block_size, output_dtype=0):
    kind = scale.dtype if not output_dtype else torch_dtype(ir.DataType(output_dtype))
    y = wide(x)
    y = y.to(torch.float32) if x.dtype in FLOAT8 else y.to(torch.int64)
    if zero is not None:
        y = y - _spread(wide(zero), x, axis, block_size).to(y.dtype)
    scale = _spread(wide(scale), x, axis, block_size)
    if scale.dtype in (torch.float16, torch.bfloat16):
        scale = scale.to(torch.float32)
    return (y.to(scale.dtype) * scale).to(kind)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(t, x):
    low, high = torch.clamp(torch.amin(x), max=0), torch.clamp(torch.amax(x), min=0)
    scale = (high - low) / 255
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)  # the scale of an all-zero input, as in onnxruntime
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    y = torch.clamp(torch.round(x / scale) + zero, 0, 255)
    return y.to(torch.uint8), scale, zero.to(torch.uint8)


@onnx_op("QLinearMatMul")
def qlinear_matmul(t, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    x, x_scale = _centered(a, a_scale, a_zero, -2)
    w, w_scale = _centered(b, b_scale, b_zero, -1)
    y = torch.matmul(x, w)
    return _requantized(y * (x_scale * w_scale / y_scale.to(torch.float64)), y_zero)


def _centered(x: Any, scale: Any, zero: Any, axis: Any) -> Any:
    x, scale, zero = (v.to(torch.float64) for v in (x, scale, zero))
    if axis == -2 and zero.dim() == 1:
        scale, zero = (v.unsqueeze(-1) if v.dim() == 1 else v for v in (scale, zero))
    return x - zero, scale


def _requantized(y: Any, zero: Any) -> Any:
    limits = torch.iinfo(zero.dtype)
    return torch.clamp(torch.round(y) + zero.to(y.dtype), limits.min, limits.max).to(zero.dtype)


@onnx_op("QLinearConv")
def qlinear_conv(
    t, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b=None, *,
    auto_pad, dilations, group, kernel_shape, pads, strides,
):  # fmt: skip
    rank = w.dim()
    a = x.to(torch.float64) - x_zero.to(torch.float64)
    scale, zero = w_scale.to(torch.float64), w_zero.to(torch.float64)
    column = [-1, *[1] * (rank - 1)]
    kernel = w.to(torch.float64) - (zero.reshape(column) if zero.numel() != 1 else zero.reshape(()))
    y = convolve(a, kernel, None if b is None else b.to(torch.float64), auto_pad, dilations, group, pads, strides)
    factor = x_scale.to(torch.float64).reshape(()) * scale / y_scale.to(torch.float64).reshape(())
    factor = factor.reshape([1, *column[:1], *[1] * (rank - 2)]) if factor.numel() != 1 else factor.reshape(())
    return _requantized(y * factor, y_zero)
