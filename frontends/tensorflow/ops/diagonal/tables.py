"""Reading, writing and creating matrix diagonals by gathers with precomputed index tables."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common import shape_values
from ...rules import tf_op
from . import computed as diagonal_computed
from . import dynamic as diagonal_dynamic


def band_indices(rows: int, columns: int, low: int, high: int, align: str) -> np.ndarray:
    """Return flat indices into a matrix, [high - low + 1, longest], with -1 as padding of shorter diagonals.

    Diagonals run from `high` down to `low`; `align` says at which end super- and subdiagonals are padded
    (matrix_diag_op.h).
    """
    length = min(rows + min(high, 0), columns - max(low, 0))
    table = np.full((high - low + 1, length), -1, np.int64)
    for place, k in enumerate(range(high, low - 1, -1)):
        first, second = max(-k, 0), max(k, 0)
        count = max(min(rows - first, columns - second), 0)
        right = align.startswith("RIGHT") if k >= 0 else align.endswith("RIGHT")
        start = length - count if right else 0
        steps = np.arange(count)
        table[place, start : start + count] = (first + steps) * columns + second + steps
    return table


def _diagonal_offsets(k: ir.Value) -> tuple[int, int]:
    values = shape_values.ints(k, "k")
    return values[0], values[-1]


def _is_band(k: ir.Value) -> bool:
    """Return whether `k` selects several diagonals, as far as it is known."""
    return shape_values.is_known(k) and len(set(_diagonal_offsets(k))) > 1


def _static_dims(g: Graph, x: ir.Value, count: int) -> list[int]:
    """Return the last dims of `x`. Raises `Unsupported` if they are dynamic."""
    dims = g.shape(x)[-count:]
    if not all(isinstance(d, int) for d in dims):
        raise Unsupported("matrices of a size that is not static")
    return [int(d or 0) for d in dims]


@tf_op("Diag")
def diag(g: Graph, diagonal: ir.Value) -> ir.Value:
    """Diag: [a, b, …] becomes [a, b, …, a, b, …], zero where the two halves of the indices differ."""
    places = g.Range(0, g.Size(diagonal), 1)
    own = g.Equal(g.Unsqueeze(places, [1]), places)
    whole = g.Where(own, g.Reshape(diagonal, [-1]), g.const(0, diagonal.dtype))
    sizes = g.Shape(diagonal)
    return g.facts(g.Reshape(whole, g.Concat(sizes, sizes, axis=0), allowzero=1), shape=g.shape(diagonal) * 2)


@tf_op("DiagPart")
def diag_part(g: Graph, input: ir.Value) -> ir.Value:
    """DiagPart: the elements of [a, b, …, a, b, …] with equal index halves: one in a·b·… + 1."""
    half = g.rank(input) // 2
    sizes = g.Shape(input, start=0, end=half)
    count = g.ReduceProd(sizes, [0], keepdims=0)
    places = g.Mul(g.Range(0, count, 1), g.Add(count, np.int64(1)))
    found = g.Gather(g.Reshape(input, [-1]), places, axis=0)
    return g.facts(g.Reshape(found, sizes, allowzero=1), shape=g.shape(input)[:half])


@tf_op("MatrixDiagPart")
def matrix_diag_part(g: Graph, input: ir.Value) -> ir.Value:
    return _extract_diagonal(g, input, 0, 0, g.const(0, input.dtype), "RIGHT_LEFT")


@tf_op("MatrixDiagPartV2")
def matrix_diag_part_v2(g: Graph, input: ir.Value, k: ir.Value, padding_value: ir.Value) -> ir.Value:
    return matrix_diag_part_v3(g, input, k, padding_value, align="LEFT_LEFT")


@tf_op("MatrixDiagPartV3")
def matrix_diag_part_v3(g: Graph, input: ir.Value, k: ir.Value, padding_value: ir.Value, *, align: str) -> ir.Value:
    if not shape_values.is_known(k) or (_is_band(k) and diagonal_dynamic.has_dynamic_dims(g, input, 2)):
        return diagonal_computed.extract_band(g, input, k, padding_value, align)
    return _extract_diagonal(g, input, *_diagonal_offsets(k), padding_value, align)


def _extract_diagonal(g: Graph, x: ir.Value, low: int, high: int, padding: ir.Value, align: str) -> ir.Value:
    if low == high and diagonal_dynamic.has_dynamic_dims(g, x, 2):
        return diagonal_dynamic.extract_diagonal(g, x, low)
    rows, columns = _static_dims(g, x, 2)
    table = band_indices(rows, columns, low, high, align)
    return _gather_by_table(g, x, 2, table[0] if low == high else table, padding)


def _gather_by_table(g: Graph, x: ir.Value, inner: int, table: np.ndarray, padding: ir.Value) -> ir.Value:
    """Gather from the last `inner` dims of x by a table of flat indices; an index of -1 gives `padding`."""
    sizes = _static_dims(g, x, inner)
    outer = g.shape(x)[:-inner]
    flat = x
    if inner == 2:
        flat = g.Reshape(x, np.array([*[0] * len(outer), int(np.prod(sizes))], np.int64))
    y = g.Gather(flat, np.maximum(table, 0), axis=-1)
    return y if (table >= 0).all() else g.Where(table >= 0, y, padding)


@tf_op("MatrixDiag")
def matrix_diag(g: Graph, diagonal: ir.Value) -> ir.Value:
    if diagonal_dynamic.has_dynamic_dims(g, diagonal, 1):
        return diagonal_dynamic.diagonal_matrix(g, diagonal, 0, None, None, g.const(0, diagonal.dtype))
    (size,) = _static_dims(g, diagonal, 1)
    return _diagonal_matrix(g, diagonal, 0, 0, size, size, g.const(0, diagonal.dtype), "RIGHT_LEFT")


@tf_op("MatrixDiagV2")
def matrix_diag_v2(
    g: Graph, diagonal: ir.Value, k: ir.Value, num_rows: ir.Value, num_cols: ir.Value, padding_value: ir.Value
) -> ir.Value:
    return matrix_diag_v3(g, diagonal, k, num_rows, num_cols, padding_value, align="LEFT_LEFT")


@tf_op("MatrixDiagV3")
def matrix_diag_v3(
    g: Graph,
    diagonal: ir.Value,
    k: ir.Value,
    num_rows: ir.Value,
    num_cols: ir.Value,
    padding_value: ir.Value,
    *,
    align: str,
) -> ir.Value:
    open_dims = diagonal_dynamic.has_dynamic_dims(g, diagonal, 1 if not _is_band(k) else 2)
    if not shape_values.is_known(k) or (_is_band(k) and (open_dims or _is_dynamic(num_rows) or _is_dynamic(num_cols))):
        return diagonal_computed.band_matrix(g, diagonal, k, (num_rows, num_cols), padding_value, align)
    low, high = _diagonal_offsets(k)
    height, width = (None if _is_least_size(n) else n for n in (num_rows, num_cols))
    if low == high and (
        diagonal_dynamic.has_dynamic_dims(g, diagonal, 1)
        or any(n is not None and _is_dynamic(n) for n in (height, width))
    ):
        return diagonal_dynamic.diagonal_matrix(g, diagonal, low, height, width, padding_value)
    (length,) = _static_dims(g, diagonal, 1)
    rows, columns = shape_values.integer(num_rows, "num_rows"), shape_values.integer(num_cols, "num_cols")
    least_rows, least_columns = length - min(high, 0), length + max(low, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    return _diagonal_matrix(g, diagonal, low, high, rows, columns, padding_value, align)


def _is_dynamic(number: ir.Value) -> bool:
    content = shape_values.content(number)
    return content is None or not isinstance(content.item(), int)


def _is_least_size(number: ir.Value) -> bool:
    """Return whether the number of rows or columns is -1, which means the least that holds the diagonals."""
    return not _is_dynamic(number) and shape_values.integer(number, "the size") == -1


def _diagonal_matrix(
    g: Graph, x: ir.Value, low: int, high: int, rows: int, columns: int, padding: ir.Value, align: str
) -> ir.Value:
    table = _inverse_band_indices(rows, columns, low, high, align)
    return _gather_by_table(g, x, 1 if low == high else 2, table, padding)


def _inverse_band_indices(rows: int, columns: int, low: int, high: int, align: str) -> np.ndarray:
    """Return [rows, columns] flat indices into the diagonals, -1 outside them."""
    table = band_indices(rows, columns, low, high, align)
    inverse = np.full(rows * columns, -1, np.int64)
    inverse[table[table >= 0]] = np.flatnonzero(table >= 0)
    return inverse.reshape(rows, columns)


@tf_op("MatrixSetDiag")
def matrix_set_diag(g: Graph, input: ir.Value, diagonal: ir.Value) -> ir.Value:
    return _set_diagonal(g, input, diagonal, 0, 0, "RIGHT_LEFT")


@tf_op("MatrixSetDiagV2")
def matrix_set_diag_v2(g: Graph, input: ir.Value, diagonal: ir.Value, k: ir.Value) -> ir.Value:
    return matrix_set_diag_v3(g, input, diagonal, k, align="LEFT_LEFT")


@tf_op("MatrixSetDiagV3")
def matrix_set_diag_v3(g: Graph, input: ir.Value, diagonal: ir.Value, k: ir.Value, *, align: str) -> ir.Value:
    if not shape_values.is_known(k) or (_is_band(k) and diagonal_dynamic.has_dynamic_dims(g, input, 2)):
        return diagonal_computed.set_band(g, input, diagonal, k, align)
    return _set_diagonal(g, input, diagonal, *_diagonal_offsets(k), align)


def _set_diagonal(g: Graph, x: ir.Value, diagonal: ir.Value, low: int, high: int, align: str) -> ir.Value:
    if low == high and diagonal_dynamic.has_dynamic_dims(g, x, 2):
        return diagonal_dynamic.set_diagonal(g, x, diagonal, low)
    rows, columns = _static_dims(g, x, 2)
    table = _inverse_band_indices(rows, columns, low, high, align)
    new = _gather_by_table(g, diagonal, 1 if low == high else 2, np.maximum(table, 0), g.const(0, x.dtype))
    return g.Where(table >= 0, new, x)
