"""Changes of dtype."""

from __future__ import annotations

import onnx_ir as ir
import torch

from ..dtypes import FLOAT8, torch_dtype
from ..rules import onnx_op


@onnx_op("Cast")
def cast(t, x, *, to, saturate, round_mode="up"):
    return to_dtype(x, torch_dtype(ir.DataType(to)), bool(saturate), round_mode)


@onnx_op("CastLike")
def cast_like(t, x, target, *, saturate, round_mode="up"):
    return to_dtype(x, target.dtype, bool(saturate), round_mode)


@onnx_op("BitCast")
def bit_cast(t, x, *, to):
    return x.view(torch_dtype(ir.DataType(to)))


def to_dtype(x: torch.Tensor, dtype: torch.dtype, saturate: bool = True, round_mode: str = "up") -> torch.Tensor:
    """x in a dtype, as Cast-24 has it: what is beyond a float8's range is its limit if `saturate`, else NaN or ∞."""
    if x.dtype == dtype:
        return x
    if dtype == torch.bool and x.dtype.is_floating_point:
        return x.to(torch.float32) != 0 if x.dtype in FLOAT8 else x != 0
    if dtype in FLOAT8:
        return _to_float8(x, dtype, saturate)
    if x.dtype in FLOAT8 and not dtype.is_floating_point:
        x = x.to(torch.float32)
    if x.dtype.is_floating_point and dtype in (torch.uint16, torch.uint32, torch.uint64):
        x = x.to(torch.int64)
    return x.to(dtype)


_OVERFLOW = {
    torch.float8_e4m3fn: (464.0, float("nan")),
    torch.float8_e4m3fnuz: (248.0, float("nan")),
    torch.float8_e5m2: (61440.0, float("inf")),
    torch.float8_e5m2fnuz: (61440.0, float("nan")),
}
"""The middle between the largest number and the one that would be next, and what lies beyond it."""


def _to_float8(x: torch.Tensor, dtype: torch.dtype, saturate: bool) -> torch.Tensor:
    wide = x.to(torch.float32)
    limit = torch.finfo(dtype).max
    near = torch.clamp(wide, -limit, limit)
    if saturate:  # infinities too; NaN stays
        return near.to(dtype)
    middle, beyond = _OVERFLOW[dtype]
    even = dtype == torch.float8_e4m3fn  # its largest number is even, and halves go to it
    past = torch.abs(wide) > middle if even else torch.abs(wide) >= middle
    far = torch.sign(wide) * beyond
    return torch.where(past, far.to(dtype).to(torch.float32), near).to(dtype)
