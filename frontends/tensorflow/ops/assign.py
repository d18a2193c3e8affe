"""Operators that change a variable; its new value becomes a model output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common import shape_values
from ..common.lazy_reshape import int64
from ..common.strided_slice import subscript
from ..graph.variables import Variable
from ..rules import tf_op

# An operator of TensorFlow 1 returns its variable; those on resources return nothing.
Result = list[Variable]


@tf_op("Assign", "AssignVariableOp")
def assign(g: Graph, resource: Variable, value: ir.Value) -> Result:
    resource.write(g, value)
    return [resource] if resource.reference else []


@tf_op("AssignAdd", "AssignAddVariableOp")
def assign_add(g: Graph, resource: Variable, value: ir.Value) -> Result:
    return assign(g, resource, g.Add(resource.read(g), value))


@tf_op("AssignSub", "AssignSubVariableOp")
def assign_sub(g: Graph, resource: Variable, value: ir.Value) -> Result:
    return assign(g, resource, g.Sub(resource.read(g), value))


def _row_scatter_rule(reduction: str) -> Callable[..., Any]:
    """Return the rule of an operator that writes one row per index; a scalar is written to the whole row."""

    def rule(g: Graph, resource: Variable, indices: ir.Value, updates: ir.Value) -> Result:
        rows = resource.read(g)
        if updates.shape is not None and not len(updates.shape) and g.rank(indices):
            updates = g.Expand(updates, g.Concat(g.Shape(indices), g.Shape(rows, start=1), axis=0))
        return _scatter_assign(g, resource, g.Unsqueeze(int64(g, indices), [-1]), updates, reduction)

    return rule


def _nd_scatter_rule(reduction: str) -> Callable[..., Any]:
    """Return the rule of an operator whose indices have a number for each of the first dims."""

    def rule(g: Graph, resource: Variable, indices: ir.Value, updates: ir.Value) -> Result:
        return _scatter_assign(g, resource, int64(g, indices), updates, reduction)

    return rule


def _scatter_assign(g: Graph, resource: Variable, at: ir.Value, updates: ir.Value, reduction: str) -> Result:
    if reduction == "sub":
        updates, reduction = g.Sub(g.const(0, g.dtype(updates)), updates), "add"
    return assign(g, resource, g.ScatterND(resource.read(g), at, updates, reduction=reduction))


@tf_op("StridedSliceAssign", "ResourceStridedSliceAssign")
def strided_slice_assign(
    g: Graph, ref: Variable, begin: ir.Value, end: ir.Value, strides: ir.Value, value: ir.Value, *, begin_mask: int,
    end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int,
) -> Result:  # fmt: skip
    """`v[2:4, 0].assign(x)`."""
    masks = {"begin_mask": begin_mask, "end_mask": end_mask, "ellipsis_mask": ellipsis_mask,
             "new_axis_mask": new_axis_mask, "shrink_axis_mask": shrink_axis_mask}  # fmt: skip
    return assign(g, ref, _replace_slice(g, ref.read(g), (begin, end, strides), value, masks))


STATIC = tf_op.limit("TensorStridedSliceUpdate", "a part of a tensor whose shape is not static")


@tf_op("TensorStridedSliceUpdate")
def tensor_strided_slice_update(
    g: Graph, input: ir.Value, begin: ir.Value, end: ir.Value, strides: ir.Value, value: ir.Value, *, begin_mask: int,
    end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int,
) -> ir.Value:  # fmt: skip
    masks = {"begin_mask": begin_mask, "end_mask": end_mask, "ellipsis_mask": ellipsis_mask,
             "new_axis_mask": new_axis_mask, "shrink_axis_mask": shrink_axis_mask}  # fmt: skip
    return _replace_slice(g, input, (begin, end, strides), value, masks)


def _replace_slice(
    g: Graph, before: ir.Value, ends: tuple[ir.Value, ...], value: ir.Value, masks: dict[str, int]
) -> ir.Value:
    """Return `before` with the elements at the subscript replaced, by flat indices."""
    dims = g.shape(before)
    if not all(isinstance(d, int) for d in dims):
        raise Unsupported(STATIC)
    begin, end, strides = (shape_values.ints(v, "a subscript") for v in ends)
    items = subscript(begin, end, strides, masks)
    shape = np.array(dims, np.int64)
    places = np.arange(np.prod(shape)).reshape(shape)[items]
    if value.shape is None or g.shape(value) != places.shape:
        value = g.Expand(value, np.array(places.shape, np.int64))
    updates = g.Reshape(value, np.array([-1], np.int64))
    flat = g.ScatterND(g.Reshape(before, np.array([-1], np.int64)), places.reshape(-1, 1), updates)
    return g.facts(g.Reshape(flat, shape), shape=dims)


_ROWS = {"ResourceScatterUpdate": "none", "ResourceScatterAdd": "add", "ResourceScatterSub": "sub",
         "ResourceScatterMul": "mul", "ResourceScatterMax": "max", "ResourceScatterMin": "min",
         "ScatterUpdate": "none", "ScatterAdd": "add", "ScatterSub": "sub"}  # fmt: skip
_PLACES = {"ResourceScatterNdUpdate": "none", "ResourceScatterNdAdd": "add", "ResourceScatterNdSub": "sub",
           "ScatterNdUpdate": "none", "ScatterNdAdd": "add", "ScatterNdSub": "sub"}  # fmt: skip

tf_op.same(_row_scatter_rule, **_ROWS)
tf_op.same(_nd_scatter_rule, **_PLACES)
