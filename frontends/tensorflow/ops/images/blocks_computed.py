"""SpaceToBatch and BatchToSpace with sizes, paddings, crops or blocks that are known at run time only."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph

from ...common import shape_values
from ...common.lazy_reshape import int64


def space_to_batch_computed(g: Graph, x: ir.Value, block_shape: ir.Value, paddings: ir.Value) -> ir.Value:
    """Pad, split every spatial dim into (blocks, block), and move the block dims before the batch."""
    m, rank = _block_dims(g, block_shape), g.rank(x)
    channels, blocks = g.shape(x)[m + 1 :], int64(g, g.Reshape(block_shape, [m]))
    if not _is_zero(paddings):
        outer, inner = np.zeros((1, 2), np.int64), np.zeros((rank - m - 1, 2), np.int64)
        full = g.Concat(outer, int64(g, g.Reshape(paddings, [m, 2])), inner, axis=0)
        x = g.Pad(x, g.Reshape(g.Transpose(full, perm=[1, 0]), [-1]))
    counts = [g.Div(_size(g, x, i + 1), _element(g, blocks, i)) for i in range(m)]
    split = [part for i in range(m) for part in (counts[i], _element(g, blocks, i))]
    tail = g.Shape(x, start=m + 1, end=rank)
    x = g.Reshape(x, g.Concat(_size(g, x, 0), *split, tail, axis=0))
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, rank + m)]
    y = g.Reshape(g.Transpose(x, perm=order), g.Concat([-1], *counts, tail, axis=0))
    return g.facts(y, g.dtype(y), [*[None] * (m + 1), *channels])


def batch_to_space_computed(g: Graph, x: ir.Value, block_shape: ir.Value, crops: ir.Value) -> ir.Value:
    """Move the block dims from the batch to the spatial dims, then crop."""
    m, rank = _block_dims(g, block_shape), g.rank(x)
    dims, blocks = g.shape(x), int64(g, g.Reshape(block_shape, [m]))
    sizes, tail = [_size(g, x, i + 1) for i in range(m)], g.Shape(x, start=m + 1, end=rank)
    first = g.Div(_size(g, x, 0), g.ReduceProd(blocks, [0], keepdims=1))
    split = g.Reshape(x, g.Concat(blocks, first, *sizes, tail, axis=0))
    order = [m, *(i for k in range(m) for i in (m + 1 + k, k)), *range(2 * m + 1, rank + m)]
    whole = [g.Mul(size, _element(g, blocks, i)) for i, size in enumerate(sizes)]
    y = g.Reshape(g.Transpose(split, perm=order), g.Concat(first, *whole, tail, axis=0))
    if not _is_zero(crops):
        cut = int64(g, g.Reshape(crops, [m, 2]))
        start, end = (g.Squeeze(g.Slice(cut, [i], [i + 1], [1]), [1]) for i in range(2))
        # Crops at the end are counted from the end, which does not work for a crop of 0.
        y = g.Slice(y, start, g.Sub(g.Concat(*whole, axis=0), end), np.arange(1, m + 1, dtype=np.int64))
    shape: list[Dim] = [*[None] * (m + 1), *dims[m + 1 :]]
    return g.facts(y, g.dtype(y), shape)


def _block_dims(g: Graph, block_shape: ir.Value) -> int:
    (count,) = g.shape(block_shape)
    if not isinstance(count, int):
        raise Unsupported("a number of blocks' dims that depends on data")
    return count


def _is_zero(pairs: ir.Value) -> bool:
    """Return whether paddings or crops are known to be zeros."""
    content = shape_values.content(pairs)
    return content is not None and all(isinstance(n, int) and n == 0 for n in content.ravel())


def _size(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    return g.Shape(x, start=axis, end=axis + 1)


def _element(g: Graph, vector: ir.Value, i: int) -> ir.Value:
    return g.Slice(vector, [i], [i + 1], [0])
