"""Casts, and conversion between run-time numbers and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.complexes import ComplexPair, pair_of, part_dtype
from ..common.values import as_value, cast, is_float, mark_scalar, promote_operands, result_dtype, torch_dtype
from ..rules import torch_op
from .compare import cast_to_bool


@torch_op("to", "_to_copy", "type_as")
def to(g, x, other=None, *, dtype=None, copy=False):
    if isinstance(other, ir.Value):
        dtype = torch_dtype(g, other)
    elif isinstance(other, torch.dtype):
        dtype = other
    if isinstance(x, (bool, int, float)):  # a number that vmap treats as a tensor
        return as_value(g, x, dtype or result_dtype(g, x))
    return x if dtype is None else convert_to(g, x, dtype)


@torch_op("to.dtype")
def to_dtype(g, x, dtype, *, copy=False):
    return convert_to(g, x, dtype)


@torch_op("prims::convert_element_type")
def convert_element_type(g, a, dtype):
    return convert_to(g, a, dtype)


@torch_op("to.dtype_layout", "to.device")
def to_layout(g, x, *, dtype=None, copy=False):
    return x if dtype is None else convert_to(g, x, dtype)


@torch_op("_autocast_to_reduced_precision")
def autocast_to_reduced_precision(g, x, cuda_enabled, cpu_enabled, cuda_dtype, cpu_dtype):
    """TorchScript's autocast before operators that are narrowed on the CPU: only float32 is narrowed."""
    return cast(g, x, cpu_dtype) if cpu_enabled and g.dtype(x) == ir.DataType.FLOAT else x


@torch_op("_autocast_to_full_precision")
def autocast_to_full_precision(g, x, cuda_enabled, cpu_enabled):
    """TorchScript's autocast before operators that are not narrowed: halves become float32."""
    narrow = g.dtype(x) in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    return cast(g, x, torch.float32) if cpu_enabled and narrow else x


def convert_to(g: Graph, x: ir.Value, dtype: torch.dtype) -> ir.Value | ComplexPair:
    """Cast as PyTorch does: to booleans by comparison with zero, to integers by truncation."""
    return pair_of(g, x, part_dtype(dtype)) if dtype.is_complex else cast(g, x, dtype)


def _cast_rule(dtype: torch.dtype) -> Any:
    def rule(g: Graph, x: ir.Value) -> ir.Value:
        return cast(g, x, dtype)

    return rule


torch_op.same(
    _cast_rule, _cast_Float=torch.float32, _cast_Double=torch.float64, _cast_Int=torch.int32, _cast_Long=torch.int64
)


@torch_op("sym_float")
def sym_float(g, x):
    return mark_scalar(as_value(g, x, torch.float64))


@torch_op("item", "_local_scalar_dense")
def item(g, x):
    return mark_scalar(g.Reshape(x, g.const(np.zeros(0, np.int64))))


@torch_op("sym_ite")
def sym_ite(g, condition, x, y):
    a, b = promote_operands(g, x, y)
    return mark_scalar(g.Where(cast_to_bool(g, condition), a, b))


@torch_op("sym_int")
def sym_int(g, x):
    return mark_scalar(cast(g, as_value(g, x, torch.float64), torch.int64))


@torch_op("sym_truediv")
def sym_truediv(g, x, y):
    return mark_scalar(g.Div(as_value(g, x, torch.float64), as_value(g, y, torch.float64)))


def _whole_number_rule(operator: str) -> Any:
    def rule(g: Graph, x: ir.Value) -> ir.Value:
        """Round a run-time float to a Python integer."""
        return mark_scalar(g.Cast(g.node(operator, [x]), to=ir.DataType.INT64)) if is_float(g, x) else x

    return rule


torch_op.same(_whole_number_rule, sym_ceil="Ceil", sym_floor="Floor", sym_round="Round")


@torch_op("sym_sqrt")
def sym_sqrt(g, x):
    return mark_scalar(g.Sqrt(as_value(g, x, torch.float64)))


@torch_op("scalar_tensor")
def scalar_tensor(g, s, *, dtype=None):
    dtype = dtype or (torch.get_default_dtype() if isinstance(s, ir.Value) else result_dtype(g, s))
    return g.Identity(cast(g, s, dtype)) if isinstance(s, ir.Value) else as_value(g, s, dtype)
