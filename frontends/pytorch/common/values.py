"""Helpers for values: dtypes and their promotion, run-time numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from .dtypes import TORCH_DTYPES, onnx_dtype

Number: TypeAlias = bool | int | float
Operand: TypeAlias = "ir.Value | Number"

_SCALAR = "convert.scalar"


# -- dtypes -----------------------------------------------------------------------------------------------------------


def torch_dtype(g: Graph, x: ir.Value) -> torch.dtype:
    """Return PyTorch's dtype of a value."""
    return TORCH_DTYPES[g.dtype(x)]


def is_float(g: Graph, x: ir.Value) -> bool:
    """Return whether a value is real floating-point."""
    return torch_dtype(g, x).is_floating_point


def is_bool(g: Graph, x: ir.Value) -> bool:
    """Return whether a value is boolean."""
    return g.dtype(x) == ir.DataType.BOOL


NARROW_INTEGERS = (torch.uint8, torch.int8, torch.int16)
"""Integers that ONNX's powers, sums and products do not support."""


def is_int(g: Graph, x: ir.Value) -> bool:
    """Return whether a value is a signed or unsigned integer, not boolean."""
    dtype = torch_dtype(g, x)
    return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool


def cast(g: Graph, x: ir.Value, dtype: torch.dtype | ir.DataType) -> ir.Value:
    """Return `x` in `dtype`; itself if it has that already. Floats are truncated to integers, as in PyTorch."""
    target = dtype if isinstance(dtype, ir.DataType) else onnx_dtype(dtype)
    return x if x.dtype == target else g.Cast(x, to=target)


def cast_to_floating(g: Graph, x: ir.Value) -> ir.Value:
    """Return `x` with integers and booleans cast to PyTorch's default dtype, as `sin` and similar operators do
    first.
    """
    dtype = torch_dtype(g, x)
    return x if dtype.is_floating_point or dtype.is_complex else cast(g, x, torch.get_default_dtype())


def widen_bfloat16(g: Graph, x: ir.Value) -> ir.Value:
    """Return bfloat16 as float32, for operators that ONNX lacks in bfloat16; other dtypes unchanged."""
    return cast(g, x, torch.float32) if g.dtype(x) == ir.DataType.BFLOAT16 else x


def mark_scalar(value: ir.Value) -> ir.Value:
    """Mark `value` (rank 0) as a run-time Python number, so that it promotes as a number."""
    value.meta[_SCALAR] = True
    return value


def is_scalar(value: Any) -> bool:
    """Return whether a value is a Python number, known now or at run time."""
    return not isinstance(value, ir.Value) or bool(value.meta.get(_SCALAR, False))


def result_dtype(g: Graph, *operands: Operand | None) -> torch.dtype:
    """Return PyTorch's result dtype: tensors with dims take precedence over those without, and these over numbers.

    The formula is that of `at::native::result_type`.
    """
    groups: list[torch.dtype | None] = [None, None, None]
    for x in operands:
        if x is None:
            continue
        if isinstance(x, ir.Value):
            dtype = torch_dtype(g, x)
            rank = None if x.shape is None else len(x.shape)
            group = 2 if is_scalar(x) else 1 if rank == 0 else 0
            if group == 2 and dtype.is_floating_point:
                dtype = torch.get_default_dtype()
        else:
            dtype, group = _number_dtype(x), 2
        before = groups[group]
        groups[group] = dtype if before is None else torch.promote_types(before, dtype)
    result = _promoted_dtype(groups[0], _promoted_dtype(groups[1], groups[2]))
    if result is None:
        raise ValueError("an operator without operands has no dtype")
    return result


def promote_operands(g: Graph, *operands: Operand) -> list[ir.Value]:
    """Return the operands as values of their common dtype; Python's own dtype if all are Python numbers."""
    dtype = result_dtype(g, *operands)
    if dtype.is_floating_point and all(is_scalar(x) for x in operands):
        dtype = torch.float64
    return [as_value(g, x, dtype) for x in operands]


def as_value(g: Graph, x: Operand | np.ndarray, dtype: torch.dtype | ir.DataType) -> ir.Value:
    """Return a tensor or number as a value of `dtype` (numbers become constants of rank 0)."""
    if isinstance(x, ir.Value):
        return cast(g, x, dtype)
    target = dtype if isinstance(dtype, ir.DataType) else onnx_dtype(dtype)
    if isinstance(x, float) and TORCH_DTYPES[target] in _INTEGERS:
        x = int(x)
    if isinstance(x, float) and TORCH_DTYPES[target].is_floating_point:
        return g.const(x, target)  # the constant keeps the exact number for the float64 run
    return g.const(np.array(x).astype(target.numpy()))


def constant_like(g: Graph, number: Number, x: ir.Value) -> ir.Value:
    """Return a number as a constant of the dtype of `x`."""
    return as_value(g, number, g.dtype(x))


def lowest(dtype: ir.DataType) -> Any:
    """Return the smallest value of `dtype`: minus infinity for floats."""
    return (
        -np.inf
        if TORCH_DTYPES[dtype].is_floating_point
        else False
        if dtype == ir.DataType.BOOL
        else int(np.iinfo(dtype.numpy()).min)
    )


def highest(dtype: ir.DataType) -> Any:
    """Return the largest value of `dtype`: infinity for floats."""
    return (
        np.inf
        if TORCH_DTYPES[dtype].is_floating_point
        else True
        if dtype == ir.DataType.BOOL
        else int(np.iinfo(dtype.numpy()).max)
    )


def mark_if_scalars(value: ir.Value, *operands: Any) -> ir.Value:
    """Mark the result of arithmetic on run-time numbers as a run-time number."""
    return mark_scalar(value) if all(is_scalar(x) for x in operands) else value


_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def _number_dtype(number: Any) -> torch.dtype:
    if isinstance(number, int):
        return torch.bool if isinstance(number, bool) else torch.int64
    dtype = torch.get_default_dtype()
    return dtype.to_complex() if isinstance(number, complex) else dtype


def _promoted_dtype(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return torch.promote_types(higher, torch.complex32) if lower.is_complex else higher
    if higher == torch.bool or lower.is_floating_point or lower.is_complex:
        return torch.promote_types(higher, lower)
    return higher
