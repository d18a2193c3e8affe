"""Set operations on rows: the last dim of a tensor is a set; intersection, union and difference of two."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common.lazy_reshape import cast
from ...rules import tf_op
from ..ragged.to_sparse import sparse_from_mask

_SORTED = (ir.DataType.INT32, ir.DataType.INT64)
_SMALL = (ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT8, ir.DataType.UINT16)
STRINGS = tf_op.limit("DenseToDenseSetOperation", "sets of strings, which ONNX cannot sort")


@tf_op("DenseToDenseSetOperation")
def dense_to_dense_set_operation(
    g: Graph, set1: ir.Value, set2: ir.Value, *, set_operation: str, validate_indices: bool
) -> list[ir.Value]:
    """Return a sparse tensor of the resulting sets, each in ascending order."""
    dtype, rank = g.dtype(set1), g.rank(set1)
    if dtype not in (*_SORTED, *_SMALL):
        raise Unsupported(STRINGS)
    first, second = (_flatten_to_rows(g, x) for x in (set1, set2))
    if set_operation == "b-a":
        first, second = second, first
    whole = g.Concat(first, second, axis=1) if set_operation == "union" else first
    ordered, _ = g.TopK(whole, g.Shape(whole, start=1), axis=-1, largest=0, sorted=1, outputs=2)
    keep = _first_occurrences(g, ordered)
    if set_operation != "union":
        same = g.Equal(g.Unsqueeze(ordered, [2]), g.Unsqueeze(second, [1]))
        # A column of zeros is added, because the maximum of no elements is undefined.
        found = g.ReduceMax(g.Pad(g.Cast(same, to=ir.DataType.INT32), np.array([0, 0, 0, 0, 0, 1])), [2], keepdims=0)
        there = g.Cast(found, to=ir.DataType.BOOL)
        keep = g.And(keep, there if set_operation == "intersection" else g.Not(there))
    indices, items, shape = sparse_from_mask(g, ordered, keep)
    lead = g.Shape(set1, start=0, end=rank - 1)
    if rank > 2:
        row, place = (g.Gather(indices, np.array([i]), axis=1) for i in (0, 1))
        indices = g.Concat(*_unravel_index(g, row, lead, rank - 1), place, axis=1)
        shape = g.Concat(lead, g.Slice(shape, [1], [2], [0]), axis=0)
    g.facts(indices, ir.DataType.INT64, [None, rank])
    return [indices, cast(g, items, dtype), g.facts(shape, ir.DataType.INT64, [rank])]


def _flatten_to_rows(g: Graph, x: ir.Value) -> ir.Value:
    """Return [rows, items], in a dtype that ONNX sorts."""
    x = x if x.dtype in _SORTED else g.Cast(x, to=ir.DataType.INT32)
    last = g.Shape(x, start=g.rank(x) - 1)
    rows = g.ReduceProd(g.Shape(x, start=0, end=g.rank(x) - 1), keepdims=1)
    return g.facts(g.Reshape(x, g.Concat(rows, last, axis=0), allowzero=1), shape=[None, None])


def _first_occurrences(g: Graph, ordered: ir.Value) -> ir.Value:
    """Return whether each item of a row is the first, or differs from the one before it."""
    before = g.Slice(ordered, [0], [-1], [1])
    after = g.Slice(ordered, [1], [np.iinfo(np.int64).max], [1])
    first = g.Equal(g.Slice(ordered, [0], [1], [1]), g.Slice(ordered, [0], [1], [1]))
    return g.Concat(first, g.Not(g.Equal(before, after)), axis=1)


def _unravel_index(g: Graph, row: ir.Value, lead: ir.Value, count: int) -> list[ir.Value]:
    """Return the indices along each of the dims `lead` for a flat row number."""
    places: list[ir.Value] = []
    for axis in reversed(range(count)):
        size = g.Slice(lead, [axis], [axis + 1], [0])
        places.insert(0, g.Mod(row, size))
        row = g.Div(row, size)
    return places
