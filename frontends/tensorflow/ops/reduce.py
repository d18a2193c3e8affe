"""Reductions, scans and searches along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.graph.reductions import reduce_dims
from convert.graph.values import known_dims

from ..common import shape_values
from ..common.computed_axis import MIDDLE, along_axis, restore, view_around
from ..common.half_precision import BFLOAT16, in_float32
from ..common.lazy_reshape import cast, int64
from ..rules import tf_op
from .math import FLOATS

_NARROW = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16)
"""Integers that ONNX does not reduce; a 32-bit sum truncated to fewer bits equals the narrow sum."""


def _reduction_rule(operator: str) -> Callable[..., ir.Value]:
    def rule(g: Graph, input: ir.Value, reduction_indices: ir.Value, *, keep_dims: bool) -> ir.Value:
        return _emit_reduce(g, operator, input, reduction_indices, keep_dims)

    return rule


tf_op.same(
    _reduction_rule, Sum="ReduceSum", Prod="ReduceProd", Max="ReduceMax", Min="ReduceMin", EuclideanNorm="ReduceL2"
)


tf_op.limit("Sum", "sums of int64 that leave 64 bits stop at the largest number in onnxruntime, and run over elsewhere")
tf_op.limit("Prod", "products of integers that leave 32 or 64 bits stop at the largest number in onnxruntime")


@tf_op("Mean")
def mean(g: Graph, input: ir.Value, reduction_indices: ir.Value, *, keep_dims: bool) -> ir.Value:
    if input.dtype not in FLOATS:
        total = _emit_reduce(g, "ReduceSum", cast(g, input, ir.DataType.INT64), reduction_indices, keep_dims)
        count = g.Div(g.Size(input), g.Max(g.Size(total), np.int64(1)))
        return cast(g, g.Div(total, count), g.dtype(input))
    found = _emit_reduce(g, "ReduceMean", input, reduction_indices, keep_dims)
    if all(isinstance(d, int) and d for d in known_dims(input) or (None,)):
        return found
    # 0 / 0 is NaN and 0 / n is 0. ONNX does not define the mean of no elements, and onnxruntime returns 0.
    axes = shape_values.content(reduction_indices)
    if input.shape is None:
        return found
    places = range(g.rank(input)) if axes is None else {int(a) % g.rank(input) for a in axes.ravel()}
    reduced = [d for i, d in enumerate(g.shape(input)) if i in places]
    # The dims after windows are unknown, but never 0.
    if all(isinstance(d, int) and d for d in reduced) or None in reduced:
        return found
    count = cast(g, g.Div(g.Size(input), g.Max(g.Size(found), np.int64(1))), g.dtype(found))
    return g.Add(found, g.Div(g.const(0.0, g.dtype(found)), count))


@tf_op("All")
def all_(g: Graph, input: ir.Value, reduction_indices: ir.Value, *, keep_dims: bool) -> ir.Value:
    numbers = g.Cast(input, to=ir.DataType.INT32)
    return g.Cast(_emit_reduce(g, "ReduceMin", numbers, reduction_indices, keep_dims), to=ir.DataType.BOOL)


@tf_op("Any")
def any_(g: Graph, input: ir.Value, reduction_indices: ir.Value, *, keep_dims: bool) -> ir.Value:
    numbers = g.Cast(input, to=ir.DataType.INT32)
    found = _emit_reduce(g, "ReduceMax", numbers, reduction_indices, keep_dims)
    return g.Greater(found, np.int32(0))  # without elements this is the least integer


def _emit_reduce(g: Graph, operator: str, x: ir.Value, axes: ir.Value, keep_dims: bool) -> ir.Value:
    content = shape_values.content(axes)
    if content is not None and content.size == 0:
        return reduce_dims(g, operator, x, [])
    if content is not None and len(distinct_axes(g, x, content.ravel().tolist())) < content.size:
        raise Unsupported(f"reduction_indices={content.tolist()}, which TensorFlow refuses: one of them comes twice")
    narrow, dims = x.dtype if x.dtype in _NARROW else None, x.shape
    x = x if narrow is None else g.Cast(x, to=ir.DataType.INT32)
    if content is not None:
        y = g.node(operator, [x, content.reshape(-1).astype(np.int64)], {"keepdims": int(keep_dims)})
    else:
        lengths = known_dims(axes)
        count = None if lengths is None else 1 if not lengths else lengths[0]  # run-time axes
        y = _reduce_along_computed(g, operator, x, axes, count, keep_dims)
        if dims is not None and (keep_dims or isinstance(count, int)):
            g.facts(y, shape=[None] * (len(dims) - (0 if keep_dims else int(count or 0))))
    return y if narrow is None else g.Cast(y, to=narrow)


def distinct_axes(g: Graph, x: ir.Value, axes: Sequence[int]) -> list[int]:
    """Return the axes of `x` in the given order, each once."""
    rank = None if x.shape is None else g.rank(x)
    named = {int(a) % rank if rank and -rank <= a < rank else a: a for a in reversed(axes)}
    return [a for a in dict.fromkeys(axes) if a in named.values()]


def _reduce_along_computed(
    g: Graph, operator: str, x: ir.Value, axes: ir.Value, count: Dim, keep_dims: bool
) -> ir.Value:
    """Reduce along run-time axes. ONNX treats no axes as all, so if there may be none, an extra dim of 1 is always
    reduced.
    """
    axes = g.Reshape(int64(g, axes), [-1])
    if isinstance(count, int) and count:
        return g.node(operator, [x, axes], {"keepdims": int(keep_dims)})
    moved = g.Where(g.Less(axes, [0]), g.Sub(axes, [1]), axes)
    y = g.node(operator, [g.Unsqueeze(x, [-1]), g.Concat(moved, [-1], axis=0)], {"keepdims": int(keep_dims)})
    return g.Squeeze(y, [-1]) if keep_dims else y


@tf_op("ArgMax")
def arg_max(g: Graph, input: ir.Value, dimension: ir.Value, *, output_type: ir.DataType) -> ir.Value:
    return cast(g, _search(g, "ArgMax", input, dimension), output_type)


@tf_op("ArgMin")
def arg_min(g: Graph, input: ir.Value, dimension: ir.Value, *, output_type: ir.DataType) -> ir.Value:
    return cast(g, _search(g, "ArgMin", input, dimension), output_type)


def _search(g: Graph, operator: str, x: ir.Value, dimension: ir.Value) -> ir.Value:
    """Return the rule of ArgMax or ArgMin; ONNX takes numbers, TensorFlow also takes booleans."""
    x = cast(g, x, ir.DataType.UINT8) if x.dtype == ir.DataType.BOOL else x
    if shape_values.is_known(dimension):
        return g.node(operator, [x], {"axis": shape_values.integer(dimension, "dimension"), "keepdims": 0})
    view = view_around(g, x, dimension)
    return restore(g, view, g.node(operator, [view.whole], {"axis": MIDDLE, "keepdims": 0}), None, g.rank(x) - 1)


tf_op.limit("TopKV2", "sorted=False gives the elements in order all the same, TensorFlow's kernel as they come")


@tf_op("TopKV2")
@in_float32(BFLOAT16)
def top_k_v2(g: Graph, input: ir.Value, k: ir.Value, *, sorted: bool, index_type: ir.DataType) -> list[ir.Value]:
    """TopKV2, always sorted. Without `sorted`, TensorFlow does not define the order, and its kernel has an order of its
    own.
    """
    values, indices = g.TopK(input, g.Reshape(int64(g, k), [1]), axis=-1, sorted=1, outputs=2)
    return [values, cast(g, indices, index_type)]


@tf_op("NthElement")
@in_float32(BFLOAT16)
def nth_element(g: Graph, input: ir.Value, n: ir.Value, *, reverse: bool) -> ir.Value:
    """NthElement: the element of the last dim that has n smaller ones, or n larger ones."""
    place = int64(g, n)
    count = g.Reshape(g.Add(place, np.int64(1)), [1])
    values, _ = g.TopK(input, count, axis=-1, largest=int(reverse), sorted=1, outputs=2)
    return g.Gather(values, place, axis=-1)


@tf_op("Cumprod")
def cumprod(g: Graph, x: ir.Value, axis: ir.Value, *, exclusive: bool, reverse: bool) -> ir.Value:
    """Cumprod as a Scan along the axis; exclusive products are shifted by one position."""
    return along_axis(
        g, x, axis, lambda whole, place: _products_along(g, whole, place % g.rank(whole), exclusive, reverse)
    )


def _products_along(g: Graph, x: ir.Value, along: int, exclusive: bool, reverse: bool) -> ir.Value:
    """Return products along the first axis, over an additional row of ones that is removed afterwards.

    onnxruntime's Scan rejects sequences of length 0, and empty tensors along other axes than 0.
    """
    shape = g.shape(x)
    first = [along, *(i for i in range(len(shape)) if i != along)]
    rows = x if along == 0 else g.Transpose(x, perm=first)
    dims, last = g.dims(rows), np.iinfo(np.int64).max
    row_dims = g.Slice(dims, [1], [last])
    ones = g.Expand(g.const(1, x.dtype), row_dims)
    one_row = g.Unsqueeze(ones, [0])
    rows = g.Concat(*((rows, one_row) if reverse else (one_row, rows)), axis=0)
    body = g.body("products")
    product, element = (body.input(name, g.dtype(x), [shape[i] for i in first[1:]]) for name in ("product", "element"))
    after = body.Mul(product, element)
    for value in (after, body.Identity(after)):
        body.output(value, body.unique("product"))
    directions = {f"scan_{end}_directions": [int(reverse)] for end in ("input", "output")}
    _, y = g.Scan(ones, rows, body=body, num_scan_inputs=1, outputs=2, **directions)
    y = g.Slice(y, [0], [-1], [0]) if exclusive != reverse else g.Slice(y, [1], [last], [0])
    y = y if along == 0 else g.Transpose(y, perm=np.argsort(first).tolist())
    return g.facts(y, g.dtype(x), shape)


@tf_op("InTopKV2")
def in_top_k(g: Graph, predictions: ir.Value, targets: ir.Value, k: ir.Value) -> ir.Value:
    """InTopKV2: whether fewer than k classes score above the target's, which must be a class, with all scores
    finite.
    """
    places = g.Range(0, g.Squeeze(g.Shape(predictions, start=1, end=2), [0]), 1)
    chosen = g.Equal(g.Unsqueeze(int64(g, targets), [1]), places)
    own = g.ReduceSum(g.Where(chosen, predictions, 0.0), [1])
    above = g.ReduceSum(g.Cast(g.Greater(predictions, own), to=ir.DataType.INT64), [1], keepdims=0)
    is_class = g.Greater(g.ReduceMax(g.Cast(chosen, to=ir.DataType.INT32), [1], keepdims=0), 0)
    odd = g.Cast(g.Or(g.IsInf(predictions), g.IsNaN(predictions)), to=ir.DataType.INT32)
    finite = g.Equal(g.ReduceMax(odd, [1], keepdims=0), 0)
    return g.And(g.And(is_class, finite), g.Less(above, int64(g, k)))


@tf_op("Cumsum")
def cumsum(g: Graph, x: ir.Value, axis: ir.Value, *, exclusive: bool, reverse: bool) -> ir.Value:
    """Cumsum. Narrow integers are summed in 32 bits and truncated, which equals the sum in the narrow dtype."""
    if x.dtype in _NARROW:
        return g.Cast(g.CumSum(g.Cast(x, to=ir.DataType.INT32), axis, exclusive=exclusive, reverse=reverse), to=x.dtype)
    return g.CumSum(x, axis, exclusive=exclusive, reverse=reverse)


@tf_op("CumulativeLogsumexp")
def cumulative_logsumexp(g: Graph, x: ir.Value, axis: ir.Value, *, exclusive: bool, reverse: bool) -> ir.Value:
    """CumulativeLogsumexp: each prefix is a masked row, so that large exponentials of one prefix do not hide those of
    another.
    """
    return along_axis(
        g, x, axis, lambda whole, place: _logsumexp_along(g, whole, place % g.rank(whole), exclusive, reverse)
    )


def _logsumexp_along(g: Graph, x: ir.Value, along: int, exclusive: bool, reverse: bool) -> ir.Value:
    rank, dims = g.rank(x), g.shape(x)
    count = dims[along]
    if isinstance(count, int):
        triangle = np.tri(count, count, -1 if exclusive else 0, dtype=bool)
        mask = g.const(triangle.T if reverse else triangle)
    else:
        places = g.Range(0, g.Squeeze(g.Shape(x, start=along, end=along + 1), [0]), 1)
        own, other = g.Unsqueeze(places, [1]), places
        own, other = (other, own) if reverse else (own, other)
        mask = g.Less(other, own) if exclusive else g.LessOrEqual(other, own)
    perm = [i for i in range(rank) if i != along]
    rows = g.Unsqueeze(g.Transpose(x, perm=[*perm, along]), [rank - 1])
    sums = g.ReduceLogSumExp(g.Where(mask, rows, g.const(-np.inf, x.dtype)), [-1], keepdims=0)
    return g.facts(g.Transpose(sums, perm=[*range(along), rank - 1, *range(along, rank - 1)]), shape=dims)
