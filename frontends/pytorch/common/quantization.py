"""Affine quantization in ONNX: conversion to integers, with a scale and a zero point, and back.

A quantized tensor of PyTorch (`torch.quint8` and others) is represented by its float tensor, with its `Scheme` in the
value's metadata. This is the usual form of quantized ONNX, in which runtimes fuse DequantizeLinear, operator and
QuantizeLinear. The integers can be recovered from the floats at any time, because these are whole numbers of steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from .values import Number, as_value, cast, onnx_dtype
from .weights import tensor_of

PREFIX = "quantized_tensor::"
"""The prefix of rules of ATen operators for quantized operands."""

_KEY = "convert.quantized"
_STORED = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}
Parameter: TypeAlias = "ir.Value | np.ndarray | Number"


@dataclass(frozen=True)
class Scheme:
    """The quantization of a tensor. `dtype` is the dtype of the integers; `axis` is the axis with one scale per index,
    or None.
    """

    scale: Parameter
    zero: Parameter
    dtype: torch.dtype
    axis: int | None = None


def storage_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the integer dtype that stores a quantized dtype. Raises `Unsupported` for those of less than a byte."""
    if dtype not in _STORED:
        raise Unsupported(f"tensors of {dtype} have no equivalent in ONNX")
    return _STORED[dtype]


def quantized_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the quantized dtype that integers of `dtype` store; the inverse of `storage_dtype`."""
    return next(quantized for quantized, integers in _STORED.items() if integers == dtype)


# -- numbers to steps and back ----------------------------------------------------------------------------------------


def to_steps(
    g: Graph,
    x: ir.Value,
    scheme: Scheme,
    low: int | None = None,
    high: int | None = None,
) -> ir.Value:
    """Return x quantized to `scheme`: x / scale rounded half to even, plus the zero point, clamped to low and high.

    PyTorch multiplies by the reciprocal where ONNX divides, so a quotient within the last bit of a tie may be rounded
    the other way.
    """
    least, most = torch.iinfo(scheme.dtype).min, torch.iinfo(scheme.dtype).max
    low, high = least if low is None else max(low, least), most if high is None else min(high, most)
    x = cast(g, x, torch.float32)
    scale, zero = _scale(g, scheme), _zero_point(g, scheme)
    if scheme.dtype not in (torch.int8, torch.uint8) or g.static(scale) is None:
        return _to_wide_steps(g, x, scheme, low, high)
    q = g.QuantizeLinear(x, scale, zero, axis=scheme.axis)
    if (low, high) == (least, most):
        return q
    target = onnx_dtype(scheme.dtype)
    return g.Clip(q, g.const(low, target), g.const(high, target))


def _to_wide_steps(g: Graph, x: ir.Value, scheme: Scheme, low: int, high: int) -> ir.Value:
    """Quantize in PyTorch's arithmetic, for integers that QuantizeLinear lacks, and for computed scales.

    If the scale comes from the largest element, that element may be halfway between two steps (127.5).
    """
    steps = g.Round(g.Mul(x, g.Reciprocal(_along_axis(g, x, _scale(g, scheme), scheme.axis))))
    zero = cast(g, _along_axis(g, x, _zero_point(g, scheme), scheme.axis), torch.float32)
    moved = cast(g, g.Add(steps, zero), torch.float64)
    return cast(g, g.Clip(moved, as_value(g, low, torch.float64), as_value(g, high, torch.float64)), scheme.dtype)


def from_steps(g: Graph, q: ir.Value, scheme: Scheme) -> ir.Value:
    """Return the float32 numbers of the integers q: (q - zero point) · scale."""
    none = scheme.axis is not None and isinstance(scheme.zero, int) and scheme.zero == 0
    scale, zero = _scale(g, scheme), None if none else _zero_point(g, scheme)
    if zero is None or scheme.dtype in (torch.int8, torch.uint8):
        return g.DequantizeLinear(q, scale, zero, axis=scheme.axis)
    known = g.static(zero)
    if scheme.dtype == torch.int32 and known is not None and not known.any():
        return g.DequantizeLinear(q, scale, axis=scheme.axis)
    moved = g.Sub(cast(g, q, torch.float32), cast(g, _along_axis(g, q, zero, scheme.axis), torch.float32))
    return g.Mul(moved, _along_axis(g, q, scale, scheme.axis))


def broadcast_parameter(g: Graph, x: ir.Value, parameter: Parameter, axis: int | None, dtype: torch.dtype) -> ir.Value:
    """Return a scale or zero point of `x` in a dtype and a shape that broadcasts with it."""
    return _along_axis(g, x, _parameter_value(g, parameter, onnx_dtype(dtype), axis), axis)


def round_to_scheme(g: Graph, x: ir.Value, scheme: Scheme, low: int | None = None, high: int | None = None) -> ir.Value:
    """Return x rounded to `scheme`: the nearest quantized tensor, as floats with the scheme attached."""
    return attach_scheme(from_steps(g, to_steps(g, x, scheme, low, high), scheme), scheme)


def _scale(g: Graph, scheme: Scheme) -> ir.Value:
    return _parameter_value(g, scheme.scale, ir.DataType.FLOAT, scheme.axis)


def _zero_point(g: Graph, scheme: Scheme) -> ir.Value:
    return _parameter_value(g, scheme.zero, onnx_dtype(scheme.dtype), scheme.axis)


def _parameter_value(g: Graph, parameter: Parameter, dtype: ir.DataType, axis: int | None) -> ir.Value:
    """Return a quantization parameter: per tensor with rank 0, or per channel with rank 1."""
    shape = [] if axis is None else [-1]
    known = g.static(parameter) if isinstance(parameter, ir.Value) else np.asarray(parameter)
    if known is not None:
        array = known.reshape(shape)
        return g.const(array if dtype == ir.DataType.FLOAT else array.astype(dtype.numpy()), dtype)
    assert isinstance(parameter, ir.Value)
    value = cast(g, parameter, dtype)
    if value.shape is not None and len(value.shape) == len(shape):
        return value
    return g.Reshape(value, g.const(np.array(shape, np.int64)))


def _along_axis(g: Graph, x: ir.Value, parameter: ir.Value, axis: int | None) -> ir.Value:
    if axis is None:
        return parameter
    return g.Reshape(parameter, [-1 if i == axis % g.rank(x) else 1 for i in range(g.rank(x))])


# -- parameters from a range ------------------------------------------------------------------------------------------


def affine_parameters(
    g: Graph, low: ir.Value, high: ir.Value, steps: tuple[int, int], eps: float
) -> tuple[ir.Value, ir.Value]:
    """Return scale and zero point, in float32, that spread the steps over a range; the scale is at least `eps`."""
    least, most = (as_value(g, float(n), torch.float32) for n in steps)
    scale = g.Div(g.Sub(high, low), as_value(g, float(steps[1] - steps[0]), torch.float32))
    scale = g.Max(scale, as_value(g, eps, torch.float32))
    return scale, g.Clip(g.Sub(least, g.Round(g.Div(low, scale))), least, most)


def symmetric_scale(g: Graph, low: ir.Value, high: ir.Value, steps: tuple[int, int], eps: float) -> ir.Value:
    """Return the scale, at least `eps`, of steps around zero that reach both ends of a range."""
    half = as_value(g, (steps[1] - steps[0]) / 2, torch.float32)
    return g.Max(g.Div(g.Max(g.Neg(low), high), half), as_value(g, eps, torch.float32))


# -- quantized tensors ------------------------------------------------------------------------------------------------


def attach_scheme(x: ir.Value, scheme: Scheme) -> ir.Value:
    """Return x with the scheme attached; it must consist of whole steps of `scheme`."""
    x.meta[_KEY] = scheme
    return x


def scheme_of(x: Any) -> Scheme | None:
    """Return the scheme of a quantized tensor, None for any other value."""
    return x.meta.get(_KEY) if isinstance(x, ir.Value) else None


def known_scheme(x: Any) -> Scheme:
    """Return the scheme of a tensor that must be quantized, as operands of quantized operators are."""
    scheme = scheme_of(x)
    assert scheme is not None
    return scheme


def has_quantized(values: Iterable[Any]) -> bool:
    """Return whether a value, or one in a list, is a quantized tensor."""
    return any(has_quantized(v) if isinstance(v, (list, tuple)) else scheme_of(v) is not None for v in values)


def scheme_of_tensor(tensor: torch.Tensor) -> Scheme:
    """Return the scheme of a quantized tensor of PyTorch."""
    dtype = storage_dtype(tensor.dtype)
    if tensor.qscheme() == torch.per_tensor_affine:
        return Scheme(tensor.q_scale(), tensor.q_zero_point(), dtype)
    if tensor.qscheme() != torch.per_channel_affine:
        raise Unsupported(f"a tensor quantized by {tensor.qscheme()}, whose zero points are no integers")
    scales, zeros = tensor.q_per_channel_scales().numpy(), tensor.q_per_channel_zero_points().numpy()
    return Scheme(scales, zeros, dtype, tensor.q_per_channel_axis())


def quantized_constant(g: Graph, tensor: torch.Tensor, name: str) -> ir.Value:
    """Return a quantized tensor of PyTorch as a weight: its integers, followed by DequantizeLinear."""
    scheme = scheme_of_tensor(tensor)
    integers = tensor.detach().int_repr()
    return attach_scheme(from_steps(g, g.initializer(name, tensor_of(integers, name)), scheme), scheme)
