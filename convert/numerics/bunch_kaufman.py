"""Bunch-Kaufman factorization of symmetric float64 matrices, unrolled over the columns, as LAPACK's sytf2."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.matrices import batch_shape, column, matrix_shape, mirror_lower_triangle, row, transpose_matrix
from convert.numerics.series import constant_like
from convert.numerics.solve import broadcast_batch

ALPHA = (1 + math.sqrt(17)) / 8
"""The smallest pivot, relative to the rest of its column; it bounds the growth of the entries."""


def ldl(g: Graph, a: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return L and D of each matrix in one matrix, the pivots, and which columns have no pivot.

    Only the lower triangle is read. Pivots [..., n] follow LAPACK: int64, counted from 1, both negative for a 2 x 2
    block, whose second row was swapped. Booleans [..., n] mark columns of zeros. One step handles a column of the whole
    batch. It leaves a matrix unchanged if the column belongs to the previous block.
    """
    n, _ = matrix_shape(g, a)
    dims, numbers = g.shape(a), np.arange(n)[:, None]
    zero, one = constant_like(g, 0.0, a), constant_like(g, 1.0, a)
    if not n:
        return (
            a,
            g.Expand(np.zeros(0, np.int64), batch_shape(g, a, 0)),
            g.Expand(np.zeros(0, bool), batch_shape(g, a, 0)),
        )
    a = mirror_lower_triangle(g, a)
    ended = g.Expand(np.zeros((1, 1), bool), batch_shape(g, a, 1, 1))
    ended_by, ended_factors = g.const(0), zero
    columns, pivots, missing = [], [], []
    for k in range(n - 1):
        place, double, none = _choose_pivot(g, a, k)
        double = g.And(double, g.Not(ended))
        place = g.Where(ended, g.const(k), place)
        order = swapped_order(g, n, g.Where(double, g.const(k + 1), g.const(k)), place)
        a = g.GatherElements(a, g.Expand(order, g.dims(a)), axis=-2)
        a = g.GatherElements(a, g.Expand(transpose_matrix(g, order), g.dims(a)), axis=-1)
        first, second = column(g, a, k), column(g, a, k + 1)
        head, corner = row(g, first, k), row(g, first, k + 1)
        single = g.Div(first, g.Where(g.Equal(head, zero), one, head))
        pair = _times_inverse(g, first, second, head, g.Where(double, corner, one), row(g, second, k + 1))
        behind = g.And(double, numbers > k + 1)
        alone = g.And(g.Not(g.Or(double, ended)), numbers > k)
        factors = g.Where(behind, pair[0], g.Where(alone, single, zero))
        factors_of_second = g.Where(behind, pair[1], zero)
        update = g.Mul(factors, transpose_matrix(g, first))
        second = g.Where(double, second, zero)
        a = g.Sub(a, g.Add(update, g.Mul(factors_of_second, transpose_matrix(g, second))))
        begun = g.Where(g.And(double, numbers == k + 1), corner, factors)
        columns.append(g.Where(numbers == k, head, g.Where(ended, ended_factors, begun)))
        counted = g.Add(place, 1)
        counted = g.Where(double, g.Neg(counted), counted)
        pivots.append(g.Where(ended, ended_by, counted))
        missing.append(g.And(none, g.Not(ended)))
        ended, ended_by, ended_factors = double, counted, factors_of_second
    head = row(g, column(g, a, n - 1), n - 1)
    columns.append(g.Where(numbers == n - 1, head, zero))
    pivots.append(g.Where(ended, ended_by, g.const(n)))
    missing.append(g.Not(g.Or(ended, g.Greater(g.Abs(head), zero))))
    found = g.facts(g.Concat(*columns, axis=-1), shape=dims)
    return found, *(g.Squeeze(g.Concat(*each, axis=-1), [-2]) for each in (pivots, missing))


def _choose_pivot(g: Graph, a: ir.Value, k: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return the row to swap with row k, whether the pivot is 2 x 2, and whether there is none: [..., 1, 1] each."""
    n, _ = matrix_shape(g, a)
    numbers = np.arange(n)
    zero, absent, alpha = (constant_like(g, c, a) for c in (0.0, -1.0, ALPHA))
    here = g.Abs(column(g, a, k))
    size = row(g, here, k)
    below = g.Slice(here, [k + 1], [n], [-2])
    place, largest = g.Add(g.ArgMax(below, axis=-2), k + 1), g.ReduceMax(below, [-2])
    other = g.Abs(g.GatherElements(a, g.Expand(place, batch_shape(g, a, 1, n)), axis=-2))
    beside = g.And((numbers >= k)[None], g.Not(g.Equal(g.const(numbers[None]), place)))
    rival = g.ReduceMax(g.Where(beside, other, absent), [-1])
    limit = g.Mul(alpha, largest)
    none = g.And(g.Equal(largest, zero), g.Not(g.Greater(size, zero)))
    large = g.Or(g.GreaterOrEqual(size, limit), g.GreaterOrEqual(size, g.Mul(limit, g.Div(largest, rival))))
    stays = g.Or(none, large)
    moves = g.GreaterOrEqual(g.GatherElements(other, place, axis=-1), g.Mul(alpha, rival))
    return g.Where(stays, g.const(k), place), g.Not(g.Or(stays, moves)), none


def _times_inverse(
    g: Graph, first: ir.Value, second: ir.Value, head: ir.Value, corner: ir.Value, end: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return the two columns times the inverse of [[head, corner], [corner, end]].

    Everything is divided by `corner` first.
    """
    end, head = g.Div(end, corner), g.Div(head, corner)
    scale = g.Mul(corner, g.Sub(g.Mul(end, head), constant_like(g, 1.0, head)))
    return (
        g.Div(g.Sub(g.Mul(end, first), second), scale),
        g.Div(g.Sub(g.Mul(head, second), first), scale),
    )


def swapped_order(g: Graph, n: int, one: ir.Value, other: ir.Value) -> ir.Value:
    """Return the indices of n rows [..., n, 1] with two of them swapped."""
    numbers = g.const(np.arange(n)[:, None])
    return g.Where(g.Equal(numbers, one), other, g.Where(g.Equal(numbers, other), one, numbers))


def solve_by_ldl(g: Graph, factors: ir.Value, pivots: ir.Value, b: ir.Value) -> ir.Value:
    """Return x with a x = b, as LAPACK's sytrs.

    `factors` holds L and D of a in one matrix; `pivots` are LAPACK's, as int64.
    """
    n, _ = matrix_shape(g, factors)
    b = broadcast_batch(g, factors, b)
    if not n:
        return b
    begins = _first_columns(g, pivots, n)
    blocks = g.Unsqueeze(g.Concat(*begins, axis=-1), [-2])
    lower = g.Where(g.And(blocks, np.eye(n, k=-1, dtype=bool)), constant_like(g, 0.0, factors), factors)
    rows, steps = [], []
    for k in range(n):
        begin = g.Unsqueeze(begins[k], [-1])
        place = g.Sub(g.Abs(g.Unsqueeze(g.Gather(pivots, np.array([k]), axis=-1), [-1])), k + 1)
        if k:  # the second row of a block was swapped with the first
            place = g.Where(g.Unsqueeze(begins[k - 1], [-1]), g.const(0), place)
        order = swapped_order(g, n - k, g.Where(begin, g.const(1), g.const(0)), place)
        below = g.Slice(column(g, lower, k), [k + 1], [n], [-2])
        steps.append((order, below))
        b = g.GatherElements(b, g.Expand(order, g.dims(b)), axis=-2)
        rows.append(row(g, b, 0))
        b = g.Sub(g.Slice(b, [1], [n], [-2]), g.Mul(below, rows[-1]))
    halfway = _divide_by_blocks(g, factors, blocks, g.Concat(*rows, axis=-2))
    for k in reversed(range(n)):
        order, below = steps[k]
        here = g.Sub(row(g, halfway, k), g.ReduceSum(g.Mul(below, b), [-2]))
        b = g.Concat(here, b, axis=-2)
        b = g.GatherElements(b, g.Expand(order, g.dims(b)), axis=-2)
    return b


def _first_columns(g: Graph, pivots: ir.Value, n: int) -> list[ir.Value]:
    """Return whether each column is the first of a 2 x 2 block: booleans [..., 1]."""
    begins: list[ir.Value] = []
    for k in range(n):
        negative = g.Less(g.Gather(pivots, np.array([k]), axis=-1), 0)
        begins.append(g.And(negative, g.Not(begins[-1])) if k else negative)
    return begins


def _divide_by_blocks(g: Graph, factors: ir.Value, blocks: ir.Value, b: ir.Value) -> ir.Value:
    """Return x with D x = b; booleans `blocks` [..., 1, n] mark the first columns of 2 x 2 blocks."""
    n, _ = matrix_shape(g, factors)
    zero, one = constant_like(g, 0.0, b), constant_like(g, 1.0, b)
    following, before = np.minimum(np.arange(n) + 1, n - 1), np.maximum(np.arange(n) - 1, 0)
    first = transpose_matrix(g, blocks)
    second = g.And(g.Gather(first, before, axis=-2), np.arange(n)[:, None] > 0)
    diagonal = g.ReduceSum(g.Where(np.eye(n, dtype=bool), factors, zero), [-1])
    corner = g.ReduceSum(g.Where(np.eye(n, k=-1, dtype=bool), factors, zero), [-2])
    corner = g.Where(first, transpose_matrix(g, corner), one)
    above, below = _times_inverse(
        g, b, g.Gather(b, following, axis=-2), diagonal, corner, g.Gather(diagonal, following, axis=-2)
    )
    return g.Where(first, above, g.Where(second, g.Gather(below, before, axis=-2), g.Div(b, diagonal)))
