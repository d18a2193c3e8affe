"""Inputs, constants, variables, and operators that pass a tensor on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.complexes import Complex

from ..common.complexes import split_constant
from ..common.ragged_rows import RaggedTensor
from ..graph.variables import Variable
from ..rules import tf_op


@tf_op("Const")
def const(g: Graph, *, value: ir.TensorProtocol) -> ir.Value | Complex:
    return split_constant(g, g.const(value, name=None if value.size <= 16 else g.location.node))


@tf_op("Identity", "StopGradient", "PreventGradient", "Snapshot", "DebugGradientIdentity")
def identity(g: Graph, input: Any) -> Any:
    return input


@tf_op("CheckNumerics", "EnsureShape", "PlaceholderWithDefault")
def unchecked(g: Graph, input: ir.Value, *, shape: Any = None) -> ir.Value:
    """Drop the check; keep a tensor's declared shape as a fact."""
    if shape is None:
        return input
    if input.shape is None:
        return g.facts(input, shape=shape)
    dims = g.shape(input)
    if len(dims) != len(shape) or all(isinstance(d, int) or s is None for d, s in zip(dims, shape, strict=True)):
        return input
    sizes = [s if isinstance(s, int) else d for d, s in zip(dims, shape, strict=True)]
    return g.facts(g.Identity(input), g.dtype(input), sizes)


@tf_op("IdentityN")
def identity_n(g: Graph, input: Sequence[Any]) -> list[Any]:
    return list(input)


@tf_op("ReadVariableOp")
def read_variable(g: Graph, resource: Variable) -> ir.Value | Complex:
    return split_constant(g, resource.read(g))


@tf_op("ResourceGather")
def resource_gather(g: Graph, resource: Variable, indices: ir.Value, *, batch_dims: int) -> ir.Value:
    if batch_dims:
        raise Unsupported(f"batch_dims={batch_dims} is not handled")
    return g.Gather(resource.read(g), indices, axis=0)


@tf_op("VarIsInitializedOp")
def var_is_initialized(g: Graph, resource: Variable) -> ir.Value:
    """VarIsInitializedOp is true, because the variable was read from the checkpoint."""
    return g.const(np.array(True))


@tf_op("Shape")
def shape(g: Graph, input: ir.Value | RaggedTensor, *, out_type: ir.DataType) -> ir.Value:
    """Shape. (A ragged tensor as a variant is a vector of its rows.)"""
    if isinstance(input, RaggedTensor):
        return _cast_from_int64(g, g.Reshape(input.count(g), [1]), out_type)
    return _cast_from_int64(g, g.Shape(input), out_type)


@tf_op("ShapeN")
def shape_n(g: Graph, input: Sequence[ir.Value], *, out_type: ir.DataType) -> list[ir.Value]:
    return [_cast_from_int64(g, g.Shape(x), out_type) for x in input]


@tf_op("Size")
def size(g: Graph, input: ir.Value, *, out_type: ir.DataType) -> ir.Value:
    return _cast_from_int64(g, g.Size(input), out_type)


@tf_op("Rank")
def rank(g: Graph, input: ir.Value) -> ir.Value:
    return _cast_from_int64(g, g.Squeeze(g.Shape(g.Shape(input)), [0]), ir.DataType.INT32)


def _cast_from_int64(g: Graph, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    return value if dtype == ir.DataType.INT64 else g.Cast(value, to=dtype)
