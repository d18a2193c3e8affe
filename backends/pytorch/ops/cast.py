"""Casts between dtypes."""

from __future__ import annotations

import onnx_ir as ir
import torch

from ..dtypes import FLOAT8, torch_dtype
from ..rules import onnx_op


@onnx_op("Cast")
def cast(t, x, *, to, saturate, round_mode="up"):
    return to_kind(x, ir.DataType(to), bool(saturate), round_mode)


@onnx_op("CastLike")
def cast_like(t, x, target, *, saturate, round_mode="up"):
    # The tensor's dtype does not say: numbers of less than a byte are in a dtype of one byte.
    return to_kind(x, t.node.outputs[0].dtype or t.node.inputs[1].dtype, bool(saturate), round_mode)


@onnx_op("BitCast")
def bit_cast(t, x, *, to):
    kind = ir.DataType(to)
    y = x.view(torch_dtype(kind))
    return _cut_to(y.to(torch.int32), kind) if kind in LIMITS else y


LIMITS = {
    ir.DataType.INT4: (-8, 7),
    ir.DataType.UINT4: (0, 15),
    ir.DataType.INT2: (-2, 1),
    ir.DataType.UINT2: (0, 3),
}
"""The least and the largest value of integers of less than a byte."""


def to_kind(x: torch.Tensor, dtype: ir.DataType, saturate: bool = True, round_mode: str = "up") -> torch.Tensor:
    """Return x in an ONNX dtype, by Cast-25. Integers lose the bits that do not fit."""
    if dtype in LIMITS:
        return _cut_to((x.to(torch.float32) if x.dtype in FLOAT8 else x).to(torch.int32), dtype)
    if dtype == ir.DataType.FLOAT4E2M1:
        return to_float4(x).to(torch_dtype(dtype))
    if dtype == ir.DataType.FLOAT8E8M0:
        return _to_power(x, saturate, round_mode)
    return to_dtype(x, torch_dtype(dtype), saturate)


def _cut_to(x: torch.Tensor, dtype: ir.DataType) -> torch.Tensor:
    low, high = LIMITS[dtype]
    return (torch.remainder(x - low, high - low + 1) + low).to(torch_dtype(dtype))


def to_float4(x: torch.Tensor) -> torch.Tensor:
    """Round x to FLOAT4E2M1: 0, ½, 1, 1½, 2, 3, 4 and 6. NaN, which the dtype lacks, gives −0."""
    wide = x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)
    size = torch.clamp(torch.abs(wide), max=6.0)
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0)).to(wide.dtype)
    near = torch.copysign(torch.round(size / step) * step, wide)
    return torch.where(torch.isnan(wide), -torch.zeros_like(wide), near)


def _to_power(x: torch.Tensor, saturate: bool, round_mode: str) -> torch.Tensor:
    """Return x as FLOAT8E8M0, a power of two, from the bits of float32: its exponent, plus one if it is rounded up."""
    bits = x.to(torch.float32).view(torch.int32).to(torch.int64) & 0x7FFFFFFF
    exponent, rest = bits >> 23, bits & 0x7FFFFF
    if round_mode == "nearest":  # the smallest subnormals are below half of the first power
        up = torch.where(exponent > 0, rest >= 0x400000, rest > 0x400000)
    else:
        up = (rest > 0) if round_mode == "up" else torch.zeros_like(rest, dtype=torch.bool)
    finite = exponent < 255
    code = exponent + (up & finite).to(torch.int64)
    code = torch.where(finite, torch.clamp(code, max=254) if saturate else code, 255)
    return code.to(torch.uint8).view(torch.float8_e8m0fnu)


def to_dtype(x: torch.Tensor, dtype: torch.dtype, saturate: bool = True) -> torch.Tensor:
    """Return x in a dtype, by Cast-25: values beyond a float8's range give its limit if `saturate`, else NaN or ∞."""
    if x.dtype == dtype:
        return x
    if dtype == torch.bool and x.dtype.is_floating_point:
        return x.to(torch.float32) != 0 if x.dtype in FLOAT8 else x != 0
    if dtype in FLOAT8:
        return _to_float8(x, dtype, saturate)
    if x.dtype in FLOAT8:
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
"""The midpoint between the largest number and its would-be successor, and the result above that midpoint."""


def _to_float8(x: torch.Tensor, dtype: torch.dtype, saturate: bool) -> torch.Tensor:
    wide = x.to(torch.float32)
    limit = torch.finfo(dtype).max
    near = torch.clamp(wide, -limit, limit)
    if saturate:  # includes infinities; NaN is kept
        return near.to(dtype)
    middle, beyond = _OVERFLOW[dtype]
    even = dtype == torch.float8_e4m3fn  # its largest number is even, so ties round to it
    past = torch.abs(wide) > middle if even else torch.abs(wide) >= middle
    far = torch.sign(wide) * beyond
    return torch.where(past, far.to(dtype).to(torch.float32), near).to(dtype)
