"""Tables of indices and weights along an axis: numpy arrays for known lengths, else computed in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.tensors import rounded_tensor

from .sizes import arange, reshape, times
from .values import cast

Length: TypeAlias = "int | ir.Value"
Table: TypeAlias = "np.ndarray | ir.Value"


def sliding_places(g: Graph, count: Length, stride: int, offsets: np.ndarray) -> Table:
    """Return the indices int64[count, offsets] of windows that begin `stride` apart."""
    if isinstance(count, int):
        return np.arange(count, dtype=np.int64)[:, None] * stride + offsets.astype(np.int64)
    return g.Add(g.Mul(g.Unsqueeze(arange(g, count), [1]), stride), offsets.astype(np.int64))


def spread(g: Graph, table: Table, ones: Sequence[int], factor: Length = 1) -> Table:
    """Return a table times a factor, with dims of length 1 inserted at the positions `ones`."""
    if isinstance(table, np.ndarray) and isinstance(factor, int):
        return np.expand_dims(table, tuple(ones)) * factor
    wide = g.Unsqueeze(table, list(ones)) if ones else table
    return wide if isinstance(factor, int) and factor == 1 else g.Mul(wide, factor)


def combined(g: Graph, operator: str, a: Table, b: Table) -> Table:
    """Return the sum or product of two tables: `operator` is Add or Mul."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return {"Add": np.add, "Mul": np.multiply}[operator](a, b)
    found: ir.Value = g.node(operator, [a, b])
    return found


def places_in_plane(g: Graph, tables: Sequence[Table], lengths: Sequence[Length], counts: Sequence[Length]) -> ir.Value:
    """Return int64[*counts, window]: the flat indices that windows read in a plane, from the table of each axis."""
    dims = len(tables)
    total: Table = np.zeros((1,) * 2 * dims, dtype=np.int64)
    for i, table in enumerate(tables):
        others = [k for k in range(2 * dims) if k not in (i, dims + i)]
        total = combined(g, "Add", total, spread(g, table, others, times(g, *lengths[i + 1 :])))
    if isinstance(total, np.ndarray):
        return g.const(total.reshape(*total.shape[:dims], -1))
    return reshape(g, total, [*counts, -1])


def multiply_axis(g: Graph, x: ir.Value, axis: int, matrix: Table) -> ir.Value:
    """Return the product of one axis with a float64 matrix, whose number of rows is the axis's length."""
    last = g.rank(x) - 1
    if axis == last - 1:
        return g.MatMul(_like(g, transposed(g, matrix), x), x)
    if axis == last:
        return g.MatMul(x, _like(g, matrix, x))
    perm = [i for i in range(last + 1) if i != axis] + [axis]
    product = g.MatMul(g.Transpose(x, perm=perm), _like(g, matrix, x))
    return g.Transpose(product, perm=[perm.index(i) for i in range(last + 1)])


def transposed(g: Graph, matrix: Table) -> Table:
    """Return the transposed matrix."""
    return np.ascontiguousarray(matrix.T) if isinstance(matrix, np.ndarray) else g.Transpose(matrix, perm=[1, 0])


def _like(g: Graph, matrix: Table, x: ir.Value) -> Any:
    """Return the matrix in the dtype of `x`."""
    return rounded_tensor(matrix, g.dtype(x)) if isinstance(matrix, np.ndarray) else cast(g, matrix, g.dtype(x))
