"""Matrix products, einsums, and other operators on matrices."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ..common import wide
from ..dtypes import FLOAT8
from ..rules import LINEAR, host, onnx_op


@onnx_op(LINEAR)
def linear(t, x, weight, bias=None):
    return F.linear(x, weight, bias)


@onnx_op("MatMul")
def matmul(t, x, y):
    dtype = x.dtype
    if dtype in (torch.uint32, torch.uint64) or dtype in FLOAT8:
        return torch.matmul(wide(x), wide(y)).to(dtype)
    return torch.matmul(x, y)


@onnx_op("Gemm")
def gemm(t, a, b, c, *, alpha, beta, transA, transB):
    a, b = (a.mT if transA else a), (b.mT if transB else b)
    whole = a.dtype.is_floating_point
    y = torch.matmul(wide(a), wide(b))
    if alpha != 1:
        y = y * alpha if whole else (y * alpha).to(y.dtype)
    if c is None or beta == 0:
        return y
    c = wide(c)
    return y + (c if beta == 1 else (c * beta).to(y.dtype))


@onnx_op("Einsum")
def einsum(t, *xs, equation):
    equation = equation.replace(" ", "")
    return torch.einsum(equation, *map(wide, xs))


@onnx_op("Det")
def det(t, x):
    return torch.linalg.det(x)


@onnx_op("CumSum")
@host("axis")
def cum_sum(t, x, axis, *, exclusive, reverse):
    return cumulative(t, torch.cumsum, x, axis, exclusive, reverse, 0)


@onnx_op("CumProd")
@host("axis")
def cum_prod(t, x, axis, *, exclusive, reverse):
    return cumulative(t, torch.cumprod, x, axis, exclusive, reverse, 1)


def cumulative(t: Any, function: Any, x: Any, axis: Any, exclusive: Any, reverse: Any, neutral: Any) -> Any:
    """Return a running sum or product. If the axis is known at run time only, each axis is tried."""
    known = t.static(axis)
    if known is None:
        place = t.tensor(axis).reshape(()) % x.dim()
        found = x
        for i in range(x.dim()):
            found = torch.where(place == i, _run(function, x, i, exclusive, reverse, neutral), found)
        return found
    return _run(function, x, int(known.ravel()[0]), exclusive, reverse, neutral)


def _run(function: Any, x: Any, axis: Any, exclusive: Any, reverse: Any, neutral: Any) -> Any:
    dtype = x.dtype
    x = x.flip(axis) if reverse else x
    y = function(wide(x), axis)
    if exclusive:
        first = torch.full_like(y.narrow(axis, 0, 1), neutral)
        y = torch.cat([first, y.narrow(axis, 0, y.shape[axis] - 1)], axis)
    y = y.to(dtype)
    return y.flip(axis) if reverse else y
