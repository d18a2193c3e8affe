"""Calls whose results have no elements: nothing is computed, because ONNX's operators reject many such shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.graph import Graph

from .common.quantization import scheme_of
from .common.values import is_scalar, torch_dtype

_DTYPES = (
    torch.float16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
    torch.bool,
)  # fmt: skip


class _Unknown(Exception):
    """Raised for an argument whose shape or value is known at run time only."""


def empty_results(g: Graph, schema: torch.FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the results of an ATen call with an operand without elements, if none of the results has any.

    PyTorch's shape function determines this, without computing anything. Returns None if results have elements, or if a
    shape is known at run time only; then the operator's rule is used. Results are those of the schema: a value, or a
    list.
    """
    if not schema.name.startswith("aten::") or not _has_no_elements([args, list(kwargs.values())]):
        return None
    namespace, name = schema.name.split("::")
    operator = getattr(getattr(torch.ops, namespace), name)
    try:
        overload = getattr(operator, schema.overload_name or "default")
        given = {k: _on_meta(g, v) for k, v in kwargs.items() if k != "device"}
        found = overload(*(_on_meta(g, a) for a in args), **given)
    # its rule reports what is wrong
    except (_Unknown, RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        return None
    results = list(found) if isinstance(found, (list, tuple)) else [found]
    if not results or not all(isinstance(r, torch.Tensor) and not r.numel() and r.dtype in _DTYPES for r in results):
        return None
    constants = [g.const(np.zeros(tuple(r.shape), str(r.dtype).removeprefix("torch."))) for r in results]
    return constants if isinstance(found, (list, tuple)) else constants[0]


def _has_no_elements(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_no_elements(v) for v in value)
    return isinstance(value, ir.Value) and value.shape is not None and 0 in value.shape.dims


def _on_meta(g: Graph, value: Any) -> Any:
    """Return an argument for PyTorch's shape function. Raises `_Unknown`."""
    if isinstance(value, (list, tuple)):
        return [_on_meta(g, v) for v in value]
    if not isinstance(value, ir.Value):
        return value
    shape = value.shape
    if shape is None or is_scalar(value) or scheme_of(value) is not None:
        raise _Unknown
    dims = [d for d in shape if isinstance(d, int)]
    if len(dims) < len(shape):
        raise _Unknown
    return torch.empty(dims, dtype=torch_dtype(g, value), device="meta")
