"""Reshapes, transposes, broadcasts and tensors created from a shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.graph.tensors import dims_of

from ..common import shape_values
from ..common.computed_axis import permuted
from ..common.half_precision import BFLOAT16, FLOAT16, in_float32
from ..common.lazy_reshape import cast, infer_reshape_dims, int64, transpose
from ..common.lazy_reshape import reshape as static_reshape
from ..patterns.conv1d import squeeze_through_windows
from ..patterns.tensordot import tensordot_as_matmul
from ..rules import tf_op


@tf_op("Reshape")
def reshape(g: Graph, tensor: ir.Value, shape: ir.Value) -> ir.Value:
    content = shape_values.content(shape)
    if content is None:
        return g.Reshape(tensor, int64(g, shape), allowzero=1)
    target = content.tolist()
    if 0 in target and -1 in target:
        raise Unsupported(f"a Reshape to {target}: TensorFlow cannot infer the size of -1 from no elements")
    named = shape_values.named_dims(g, tensor)
    source = [] if named is None else list(named)
    if tensor.const_value is not None and all(isinstance(d, int) for d in target) and 0 not in target:
        return static_reshape(g, tensor, target)
    if source and (product := tensordot_as_matmul(g, tensor, infer_reshape_dims(source, target))) is not None:
        return product
    plan = _static_reshape_target(source, target)
    if plan is not None:
        y = g.Reshape(tensor, np.array(plan, np.int64), allowzero=1 if 0 in target else None)
    else:
        y = g.Reshape(tensor, int64(g, shape), allowzero=1)
    return g.facts(y, shape=infer_reshape_dims(source, target) if source else [d if d != -1 else None for d in target])


def _static_reshape_target(source: Sequence[Dim], target: Sequence[Dim]) -> list[int] | None:
    """Return `target` as a constant: the only dynamic dim as -1, others as 0 (copied) if they keep their position; else
    None.
    """
    dynamic = [i for i, d in enumerate(target) if not isinstance(d, int)]
    if 0 in target and (dynamic or -1 in target):  # nothing divides the elements, which are none
        return None
    if len(dynamic) + list(target).count(-1) <= 1:
        return [d if isinstance(d, int) else -1 for d in target]
    stay = [i for i in dynamic if i < len(source) and target[i] is not None and source[i] == target[i]]
    if len(dynamic) - len(stay) + list(target).count(-1) > 1:
        return None
    return [d if isinstance(d, int) else 0 if i in stay else -1 for i, d in enumerate(target)]


@tf_op("ExpandDims")
def expand_dims(g: Graph, input: ir.Value, dim: ir.Value) -> ir.Value:
    if not shape_values.is_known(dim):
        return _expand_computed_dim(g, input, dim)
    axis = shape_values.integer(dim, "dim")
    if input.const_value is not None:
        shape = list(dims_of(input.const_value))
        shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 1)
        return static_reshape(g, input, shape)
    return g.Unsqueeze(input, [axis])


def _expand_computed_dim(g: Graph, input: ir.Value, dim: ir.Value) -> ir.Value:
    """ExpandDims at a run-time axis: the rank is known, so it is a Reshape with a 1 inserted."""
    rank = g.rank(input)
    place = int64(g, g.Reshape(dim, [1]))
    place = g.Where(g.Less(place, [0]), g.Add(place, [rank + 1]), place)
    dims = g.Shape(input)
    shape = g.Concat(g.Slice(dims, [0], place), [1], g.Slice(dims, place, [rank]), axis=0)
    return g.facts(g.Reshape(input, shape, allowzero=1), g.dtype(input), [None] * (rank + 1))


@tf_op("Squeeze")
def squeeze(g: Graph, input: ir.Value, *, squeeze_dims: Sequence[int]) -> ir.Value:
    if input.const_value is not None:
        shape = list(dims_of(input.const_value))
        drop = {d % len(shape) for d in squeeze_dims} if squeeze_dims else {i for i, d in enumerate(shape) if d == 1}
        return static_reshape(g, input, [d for i, d in enumerate(shape) if i not in drop])
    if (
        len(squeeze_dims) == 1
        and (line := squeeze_through_windows(g, input, squeeze_dims[0] % g.rank(input))) is not None
    ):
        return line
    return g.Squeeze(input, np.array(squeeze_dims, np.int64)) if squeeze_dims else g.Squeeze(input)


@tf_op("Transpose")
def transpose_(g: Graph, x: ir.Value, perm: ir.Value) -> ir.Value:
    if not shape_values.is_known(perm):
        return permuted(g, x, perm)
    return transpose(g, x, shape_values.ints(perm, "perm"))


@tf_op("BroadcastTo")
def broadcast_to(g: Graph, input: ir.Value, shape: ir.Value) -> ir.Value:
    return _set_shape_facts(g, g.Expand(input, int64(g, shape)), shape)


@tf_op("BroadcastArgs")
def broadcast_args(g: Graph, s0: ir.Value, s1: ir.Value) -> ir.Value:
    """Return the broadcast of two shapes."""
    both = [g.Expand(g.const(False, ir.DataType.BOOL), int64(g, s)) for s in (s0, s1)]
    return cast(g, g.Shape(g.And(*both)), g.dtype(s0))


@tf_op("Fill")
def fill(g: Graph, dims: ir.Value, value: ir.Value) -> ir.Value:
    return _set_shape_facts(g, g.Expand(value, int64(g, dims)), dims)


@tf_op("Empty")
def empty(g: Graph, shape: ir.Value, *, dtype: ir.DataType, init: bool) -> ir.Value:
    """Return zeros. Without `init`, TensorFlow does not define the content."""
    return fill(g, shape, g.const(0, dtype))


@tf_op("Tile")
def tile(g: Graph, input: ir.Value, multiples: ir.Value) -> ir.Value:
    return g.Tile(input, int64(g, multiples))


@tf_op("ZerosLike")
def zeros_like(g: Graph, x: ir.Value) -> ir.Value:
    return _full_like(g, 0, x)


@tf_op("OnesLike")
def ones_like(g: Graph, x: ir.Value) -> ir.Value:
    return _full_like(g, 1, x)


@tf_op("Range")
@in_float32(BFLOAT16, FLOAT16)
def range_(g: Graph, start: ir.Value, limit: ir.Value, delta: ir.Value) -> ir.Value:
    """Range. For float32, TensorFlow counts the steps in float32 (sequence_ops.cc), ONNX's runtimes in float64."""
    if start.dtype != ir.DataType.FLOAT:
        return g.Range(start, limit, delta)
    first, last, step = (g.static(v) for v in (start, limit, delta))
    if first is not None and last is not None and step is not None:
        count = g.const(int(np.ceil(np.abs((last - first) / step)).item()))
    else:
        count = g.Cast(g.Ceil(g.Abs(g.Div(g.Sub(limit, start), delta))), to=ir.DataType.INT64)
    return g.Add(start, g.Mul(g.Cast(g.Range(0, count, 1), to=ir.DataType.FLOAT), delta))


@tf_op("LinSpace")
def lin_space(g: Graph, start: ir.Value, stop: ir.Value, num: ir.Value) -> ir.Value:
    """LinSpace: start + i·(stop - start) / (num - 1); the last number is exactly stop."""
    count = shape_values.integer(num, "num")
    if count == 1:
        return g.Reshape(start, [1])
    steps = g.const(np.arange(count - 1), start.dtype)
    inner = g.Add(start, g.Mul(steps, g.Div(g.Sub(stop, start), count - 1)))
    return g.Concat(inner, g.Reshape(stop, [1]), axis=0)


def _full_like(g: Graph, number: int, x: ir.Value) -> ir.Value:
    y = g.Expand(g.const(number, x.dtype), g.dims(x))
    return y if x.shape is None else g.facts(y, shape=g.shape(x))


def _set_shape_facts(g: Graph, y: ir.Value, shape: ir.Value) -> ir.Value:
    """Set the shape of `y` to the content of `shape`, as far as it is known."""
    content = shape_values.content(shape)
    return y if content is None else g.facts(y, shape=content.tolist())
