"""Quantization, as in QuantizeLinear-25 and DequantizeLinear-25."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from ..common import along, wide
from ..dtypes import FLOAT8, torch_dtype
from ..rules import onnx_op
from .cast import LIMITS, to_kind


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
    dtype = scale.dtype if not output_dtype else torch_dtype(ir.DataType(output_dtype))
    y = wide(x)
    y = y.to(torch.float32) if x.dtype in FLOAT8 else y.to(torch.int64)
    if zero is not None:
        y = y - _spread(wide(zero), x, axis, block_size).to(y.dtype)
    scale = _spread(wide(scale), x, axis, block_size)
    if scale.dtype in (torch.float16, torch.bfloat16):
        scale = scale.to(torch.float32)
    return (y.to(scale.dtype) * scale).to(dtype)
