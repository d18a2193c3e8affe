"""float64 versions of PyTorch's operators whose kernels refuse float64, above all quantized ones.

The reference run of a verification uses them. A quantized tensor stays quantized, since its integers and its scale are
exact. An operator on quantized tensors computes on the float64 numbers that they stand for, by PyTorch's float
operators, and rounds the result to the scheme of its output.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from convert.errors import Unsupported

from ..torch_internals import make_per_channel_quantized_tensor, make_per_tensor_quantized_tensor, schema_of

Double = Callable[..., Any]
DOUBLE: dict[str, Double] = {}
"""The float64 kernels, by operator name with namespace and without overload."""


def double_kernel(function: Any) -> Double | None:
    """Return the function that replaces an operator's overload in float64; None if the operator itself runs in
    float64.
    """
    # An operator with a number as operand hardly changes the integers, and PyTorch's kernel needs no float64 for it.
    return None if schema_of(function).overload_name.startswith("Scalar") else DOUBLE.get(schema_of(function).name)


def _register_double(*names: str) -> Callable[[Double], Double]:
    def register(rule: Double) -> Double:
        DOUBLE.update(dict.fromkeys(names, rule))
        return rule

    return register


# -- steps ------------------------------------------------------------------------------------------------------------


def _reshape_to_axis(parameter: Any, axis: int | None, like: torch.Tensor) -> Any:
    if not isinstance(parameter, torch.Tensor):
        return parameter
    shape = [1] * like.dim()
    if axis is not None:
        shape[axis] = -1
    return parameter.double().reshape(shape if axis is not None else [])


def _round_to_steps(x: Any, scale: Any, zero: Any, low: int, high: int, axis: int | None = None) -> torch.Tensor:
    """Return x in whole steps between low and high, in float64.

    A computed scale (a tensor of one dim with one element) is applied by multiplying with its reciprocal, as the graph
    does.
    """
    computed = isinstance(scale, torch.Tensor) and axis is None and scale.dim() == 1
    numbers, scale = x.double(), _reshape_to_axis(scale, axis, x)
    quotients = numbers * (1 / scale) if computed else numbers / scale
    return (torch.round(quotients) + _reshape_to_axis(zero, axis, x)).clamp(low, high)


def _dequantize_steps(q: torch.Tensor, scale: Any, zero: Any, axis: int | None = None) -> torch.Tensor:
    return (q.double() - _reshape_to_axis(zero, axis, q)) * _reshape_to_axis(scale, axis, q)


def dequantize_content(x: Any) -> Any:
    """Return the float64 numbers that a quantized tensor represents; other arguments are returned unchanged."""
    if isinstance(x, (list, tuple)):
        return [dequantize_content(t) for t in x]
    if not isinstance(x, torch.Tensor) or not x.is_quantized:
        return x
    if x.qscheme() == torch.per_tensor_affine:
        return _dequantize_steps(x.int_repr(), x.q_scale(), x.q_zero_point())
    return _dequantize_steps(
        x.int_repr(), x.q_per_channel_scales(), x.q_per_channel_zero_points(), x.q_per_channel_axis()
    )


def quantize_like(x: torch.Tensor, scale: float, zero: int, like: torch.Tensor | torch.dtype) -> torch.Tensor:
    """Quantize float64 numbers to the dtype `like`, or to the dtype of the quantized tensor `like`."""
    dtype = like if isinstance(like, torch.dtype) else like.dtype
    integers = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}[dtype]
    info = torch.iinfo(integers)
    steps = _round_to_steps(x, float(scale), int(zero), info.min, info.max)
    return make_per_tensor_quantized_tensor(steps.to(integers), float(scale), int(zero))


@_register_double("aten::quantize_per_tensor", "aten::quantize_per_tensor_dynamic")
def _quantize_per_tensor(x: Any, scale: Any, zero: Any, dtype: Any = None) -> Any:
    if dtype is None:  # the dynamic overload: (x, dtype, reduce_range)
        low, high = {torch.qint8: (-128, 127), torch.quint8: (0, 255)}[scale]
        return quantize_like(x, *choose_qparams(x, low, high, zero), scale)
    return quantize_like(x, scale, zero, dtype)


@_register_double("aten::quantize_per_channel")
def _quantize_per_channel(x: Any, scales: Any, zeros: Any, axis: int, dtype: torch.dtype) -> Any:
    integers = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}[dtype]
    info = torch.iinfo(integers)
    steps = _round_to_steps(x, scales, zeros, info.min, info.max, axis)
    return make_per_channel_quantized_tensor(steps.to(integers), scales, zeros, axis)


@_register_double("aten::dequantize")
def _dequantize(x: Any) -> Any:
    return dequantize_content(x)


@_register_double("aten::fake_quantize_per_tensor_affine")
def _fake_quantize_per_tensor(x: Any, scale: Any, zero: Any, low: int, high: int) -> Any:
    scale = float(scale)  # the scale is a constant of the module
    return _dequantize_steps(_round_to_steps(x, scale, zero, low, high), scale, zero)


@_register_double("aten::fake_quantize_per_channel_affine", "quantized_decomposed::fake_quant_per_channel")
def _fake_quantize_per_channel(x: Any, scale: Any, zero: Any, axis: int, low: int, high: int) -> Any:
    return _dequantize_steps(_round_to_steps(x, scale, zero, low, high, axis), scale, zero, axis)


@_register_double("aten::_fused_moving_avg_obs_fq_helper")
def _fused_fake_quantize(
    x: Any, observing: Any, faking: Any, low: Any, high: Any, scale: Any, zero: Any, average: float,
    least: int, most: int, axis: int, per_row: bool = False, symmetric: bool = False,
) -> Any:  # fmt: skip
    """Quantize and dequantize with the observer off, as the graph does; the mask, needed by training only, is all
    True.
    """
    at = axis if per_row else None
    scale = scale if per_row else float(scale)
    out = _dequantize_steps(_round_to_steps(x, scale, zero, least, most, at), scale, zero, at) if faking.any() else x
    return out, torch.ones_like(out, dtype=torch.bool)


@_register_double("quantized_decomposed::quantize_per_tensor")
def _decomposed_quantize(x: Any, scale: Any, zero: Any, low: Any, high: Any, dtype: torch.dtype) -> Any:
    return _round_to_steps(x, scale, zero, int(low), int(high)).to(dtype)


@_register_double("quantized_decomposed::dequantize_per_tensor")
def _decomposed_dequantize(q: Any, scale: Any, zero: Any, *range: Any, out_dtype: Any = None) -> Any:
    return _dequantize_steps(q, scale, zero)


@_register_double("quantized_decomposed::quantize_per_channel")
def _decomposed_quantize_channels(
    x: Any, scales: Any, zeros: Any, axis: int, low: int, high: int, dtype: torch.dtype
) -> Any:
    return _round_to_steps(x, scales, zeros, low, high, axis).to(dtype)


@_register_double("quantized_decomposed::dequantize_per_channel")
def _decomposed_dequantize_channels(
    q: Any, scales: Any, zeros: Any, axis: int, *rest: Any, out_dtype: Any = None
) -> Any:
    return _dequantize_steps(q, scales, torch.zeros(len(scales)) if zeros is None else zeros, axis)


@_register_double("quantized_decomposed::choose_qparams")
def _decomposed_choose(x: Any, low: int, high: int, eps: float, dtype: torch.dtype) -> Any:
    least, most = (min(float(x.min()), 0.0), max(float(x.max()), 0.0))
    scale = max((most - least) / (high - low), eps)
    zero = min(max(low - round(least / scale), low), high)
    return torch.tensor([scale], dtype=torch.float64), torch.tensor([zero])


def choose_qparams(x: torch.Tensor, low: int, high: int, reduce_range: bool) -> tuple[float, int]:
    """Return scale and zero point for the range of x, computed as PyTorch's `ChooseQuantizationParams` does."""
    if reduce_range:
        low, high = int(low / 2), int(high / 2)
    least, most = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    scale, width = (most - least) / (high - low), high - low
    if scale < torch.finfo(torch.float32).tiny / 4:
        scale = 0.1
    if scale < _LEAST_SCALE:
        factor = _LEAST_SCALE / scale
        least, most = (
            (0.0, _LEAST_SCALE * width) if least == 0 else
            (-_LEAST_SCALE * width, 0.0) if most == 0 else (least * factor, most * factor)
        )  # fmt: skip
        scale = _LEAST_SCALE
    below, above = least / scale, most / scale
    zero = low - below if abs(low) - abs(below) < abs(high) - abs(above) else high - above
    return scale, round(min(max(zero, low), high))


_LEAST_SCALE = float(torch.tensor(6.1e-5))


def _reshape_to_rows(x: torch.Tensor, block: Any) -> torch.Tensor:
    """Return x in float64, reshaped to one row for each of torchao's blocks."""
    return x.double().reshape(-1, int(torch.tensor([int(b) for b in block]).prod()))


def _reshape_to_column(parameter: Any) -> Any:
    return 0 if parameter is None else parameter.double().reshape(-1, 1)


@_register_double("torchao::quantize_affine")
def _quantize_affine(
    x: Any, block: Any, scale: Any, zero: Any, dtype: torch.dtype, low: Any = None, high: Any = None
) -> Any:
    info = torch.iinfo(dtype)
    low, high = info.min if low is None else low, info.max if high is None else high
    moved = torch.round(_reshape_to_rows(x, block) * (1 / _reshape_to_column(scale))) + _reshape_to_column(zero)
    return moved.clamp(low, high).to(dtype).reshape(x.shape)


@_register_double("torchao::dequantize_affine")
def _dequantize_affine(x: Any, block: Any, scale: Any, zero: Any, *rest: Any, **more: Any) -> Any:
    return ((_reshape_to_rows(x, block) - _reshape_to_column(zero)) * _reshape_to_column(scale)).reshape(x.shape)


# -- other operators that refuse float64 -------------------------------------------------------------------------------


@_register_double("aten::_grouped_mm")
def _grouped_mm(x: Any, matrices: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Multiply each group of rows by its own matrix; PyTorch computes that in float32 and narrower dtypes only.

    Raises `Unsupported` for operands of other ranks.
    """
    if offs is None or x.dim() != 2 or matrices.dim() != 3:
        raise Unsupported("a grouped product of other than rows with matrices in float64")
    ends = [0, *offs.tolist()]
    out = x.new_zeros(x.shape[0], matrices.shape[2])
    for i, (start, end) in enumerate(itertools.pairwise(ends)):
        out[start:end] = x[start:end] @ matrices[i]
    return out if bias is None else out + bias
