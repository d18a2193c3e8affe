"""Matrix factorizations, linear systems and singular values: unrolled or in loops, in float64."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.factor import cholesky_factor, lu, permute_rows
from convert.numerics.matrices import batch_shape, identity_matrix, matrix_shape, transpose_matrix, triangle
from convert.numerics.reflections import apply_all_reflections, householder_reflections
from convert.numerics.solve import broadcast_batch, solve_triangular, solve_with_factors
from convert.numerics.spectral import complete_basis, singular_values, symmetric_eigen

from ..common.lazy_reshape import cast
from ..rules import tf_op
from .special import cast_like, to_float64


@tf_op("Cholesky")
def cholesky(g: Graph, input: ir.Value) -> ir.Value:
    return cast_like(g, cholesky_factor(g, to_float64(g, input)), input)


@tf_op("Lu")
def lu_(g: Graph, input: ir.Value, *, output_idx_type: ir.DataType) -> list[ir.Value]:
    """Lu: both factors in one matrix, and the input row that each of its rows came from."""
    factors, pivots = lu(g, to_float64(g, input))
    rows, _ = matrix_shape(g, input)
    numbers = g.Expand(np.arange(rows)[:, None], batch_shape(g, input, rows, 1))
    numbers = g.facts(numbers, shape=[*g.shape(input)[:-2], rows, 1])
    order = g.Squeeze(permute_rows(g, numbers, pivots), [-1])
    return [cast_like(g, factors, input), cast(g, order, output_idx_type)]


@tf_op("MatrixInverse")
def matrix_inverse(g: Graph, input: ir.Value, *, adjoint: bool) -> ir.Value:
    a = to_float64(g, input)
    a = transpose_matrix(g, a) if adjoint else a
    inverse = solve_with_factors(g, a, identity_matrix(g, a, matrix_shape(g, a)[0]))[0]
    return g.facts(cast_like(g, inverse, input), shape=g.shape(input))


@tf_op("MatrixSolve")
def matrix_solve(g: Graph, matrix: ir.Value, rhs: ir.Value, *, adjoint: bool) -> ir.Value:
    a = to_float64(g, matrix)
    solution = solve_with_factors(g, transpose_matrix(g, a) if adjoint else a, to_float64(g, rhs))[0]
    return g.facts(cast_like(g, solution, rhs), shape=g.shape(rhs))


@tf_op("TridiagonalSolve")
def tridiagonal_solve(
    g: Graph, diagonals: ir.Value, rhs: ir.Value, *, partial_pivoting: bool, perturb_singular: bool
) -> ir.Value:
    """TridiagonalSolve; always with pivoting, which does not change the solution."""
    if perturb_singular:
        raise Unsupported("perturb_singular=True, which changes singular matrices")
    *batch, _, size = g.shape(diagonals)
    upper, middle, lower = (
        g.facts(g.Squeeze(part, [-2]), shape=[*batch, size])
        for part in g.Split(to_float64(g, diagonals), axis=-2, num_outputs=3, outputs=3)
    )
    places = g.Range(0, g.Squeeze(g.Gather(g.dims(diagonals), np.array([-1])), [0]), 1)
    distance = g.Sub(g.Unsqueeze(places, [0]), g.Unsqueeze(places, [1]))
    rows = [g.Unsqueeze(part, [-1]) for part in (upper, middle, lower)]
    a = g.const(0.0, ir.DataType.DOUBLE)
    for row, offset in zip(rows, (1, 0, -1), strict=True):  # rows outside the matrix are never chosen
        a = g.Where(g.Equal(distance, offset), row, a)
    a = g.facts(a, shape=[*batch, size, size])
    solution = solve_with_factors(g, a, to_float64(g, rhs))[0]
    return g.facts(cast_like(g, solution, rhs), shape=g.shape(rhs))


@tf_op("TridiagonalMatMul")
def tridiagonal_mat_mul(
    g: Graph, superdiag: ir.Value, maindiag: ir.Value, subdiag: ir.Value, rhs: ir.Value
) -> ir.Value:
    """TridiagonalMatMul: three rows of `rhs` give one; the last of `superdiag` and the first of `subdiag` are
    unused.
    """
    upper, middle, lower = (g.Squeeze(part, [-2]) for part in (superdiag, maindiag, subdiag))
    upper, middle, lower = (g.Unsqueeze(part, [-1]) for part in (upper, middle, lower))
    ends = np.array([np.iinfo(np.int64).max])
    axis = np.array([-2])
    above = g.Mul(g.Slice(upper, [0], [-1], axis), g.Slice(rhs, [1], ends, axis))
    below = g.Mul(g.Slice(lower, [1], ends, axis), g.Slice(rhs, [0], [-1], axis))
    sides = g.Pad(above, np.array([0, 1]), None, axis), g.Pad(below, np.array([1, 0]), None, axis)
    return g.facts(g.Add(g.Add(g.Mul(middle, rhs), sides[0]), sides[1]), shape=g.shape(rhs))


@tf_op("MatrixTriangularSolve")
def matrix_triangular_solve(g: Graph, matrix: ir.Value, rhs: ir.Value, *, lower: bool, adjoint: bool) -> ir.Value:
    a = to_float64(g, matrix)
    a = transpose_matrix(g, a) if adjoint else a
    solution = solve_triangular(g, a, broadcast_batch(g, a, to_float64(g, rhs)), upper=lower == adjoint)
    same = g.shape(matrix)[:-2] == g.shape(rhs)[:-2]
    return g.facts(cast_like(g, solution, rhs), shape=g.shape(rhs) if same else None)


@tf_op("Qr")
def qr(g: Graph, input: ir.Value, *, full_matrices: bool) -> list[ir.Value]:
    a = to_float64(g, input)
    rows, columns = matrix_shape(g, a)
    r, vectors, factors = householder_reflections(g, a)
    width = rows if full_matrices else min(rows, columns)
    q = apply_all_reflections(g, identity_matrix(g, a, rows, width), vectors, factors)
    return [cast_like(g, v, input) for v in (q, triangle(g, g.Slice(r, [0], [width], [-2]), True))]


@tf_op("Svd")
def svd(g: Graph, input: ir.Value, *, compute_uv: bool, full_matrices: bool) -> list[ir.Value]:
    """Svd: singular values and vectors of both sides, with arbitrary signs; without `compute_uv` two empty tensors."""
    u, values, v = singular_values(g, to_float64(g, input))
    if not compute_uv:
        return [cast_like(g, values, input), *[g.const(np.zeros(0, g.dtype(input).numpy()))] * 2]
    return [
        cast_like(g, x, input)
        for x in (values, complete_basis(g, u, full_matrices), complete_basis(g, v, full_matrices))
    ]


@tf_op("SelfAdjointEigV2")
def self_adjoint_eig(g: Graph, input: ir.Value, *, compute_v: bool) -> list[ir.Value]:
    """SelfAdjointEigV2: eigenvalues in ascending order, and vectors with arbitrary signs."""
    values, vectors = symmetric_eigen(g, to_float64(g, input))
    empty = g.const(np.zeros(0, g.dtype(input).numpy()))
    return [cast_like(g, values, input), cast_like(g, vectors, input) if compute_v else empty]
