"""Element-wise operators of one input."""

from __future__ import annotations

import torch

from ..common import plain, wide
from ..dtypes import FLOAT8, SCARCE
from ..rules import host, onnx_op

onnx_op.same(
    plain,
    Abs=torch.abs,
    Acos=torch.acos,
    Acosh=torch.acosh,
    Asin=torch.asin,
    Asinh=torch.asinh,
    Atan=torch.atan,
    Atanh=torch.atanh,
    Ceil=torch.ceil,
    Cos=torch.cos,
    Cosh=torch.cosh,
    Erf=torch.erf,
    Exp=torch.exp,
    Floor=torch.floor,
    Log=torch.log,
    Neg=torch.neg,
    Reciprocal=torch.reciprocal,
    Round=torch.round,
    Sigmoid=torch.sigmoid,
    Sin=torch.sin,
    Sinh=torch.sinh,
    Softsign=torch.nn.functional.softsign,
    Sqrt=torch.sqrt,
    Tan=torch.tan,
    Tanh=torch.tanh,
    Not=torch.logical_not,
    BitwiseNot=torch.bitwise_not,
)


@onnx_op("Sign")
def sign(t, x):
    if x.dtype in SCARCE:  # half of uint64 would be negative numbers
        return (wide(x) != 0).to(torch.int64)
    x = wide(x)
    y = torch.sign(x)
    return torch.where(torch.isnan(x), x, y) if x.is_floating_point() else y


@onnx_op("Identity")
@host("x")
def identity(t, x):
    return x


@onnx_op("IsNaN")
def is_nan(t, x):
    if x.dtype in FLOAT8:
        x = x.to(torch.float32)
    return torch.isnan(x)


@onnx_op("IsInf")
def is_inf(t, x, *, detect_negative, detect_positive):
    x = wide(x)
    if detect_negative and detect_positive:
        return torch.isinf(x)
    if detect_positive:
        return torch.isposinf(x)
    return torch.isneginf(x) if detect_negative else torch.zeros_like(x, dtype=torch.bool)
