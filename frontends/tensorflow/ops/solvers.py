"""Factorisations of matrices, systems of linear equations, singular values: unrolled or in loops, in float64."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.numerics.factor import lower_root, lu, permuted
from convert.numerics.matrices import identity, lead_and, sides, swapped, triangle
from convert.numerics.reflections import orthogonal, reflections
from convert.numerics.solve import matching, solved, substituted
from convert.numerics.spectral import completed, singular, symmetric

from ..common.lazy_reshape import cast
from ..rules import tf_op
from .special import narrow, wide


@tf_op("Cholesky")
def cholesky(g: Graph, input: ir.Value) -> ir.Value:
    return narrow(g, lower_root(g, wide(g, input)), input)


@tf_op("Lu")
def lu_(g: Graph, input: ir.Value, *, output_idx_type: ir.DataType) -> list[ir.Value]:
    """The factors in one matrix, and the row of the input that each row of them came from."""
    factors, pivots = lu(g, wide(g, input))
    rows, _ = sides(g, input)
    numbers = g.Expand(np.arange(rows)[:, None], lead_and(g, input, rows, 1))
    numbers = g.facts(numbers, shape=[*g.shape(input)[:-2], rows, 1])
    order = g.Squeeze(permuted(g, numbers, pivots), [-1])
    return [narrow(g, factors, input), cast(g, order, output_idx_type)]


@tf_op("MatrixInverse")
def matrix_inverse(g: Graph, input: ir.Value, *, adjoint: bool) -> ir.Value:
    a = wide(g, input)
    a = swapped(g, a) if adjoint else a
    inverse = solved(g, a, identity(g, a, sides(g, a)[0]))[0]
    return g.facts(narrow(g, inverse, input), shape=g.shape(input))


@tf_op("MatrixSolve")
def matrix_solve(g: Graph, matrix: ir.Value, rhs: ir.Value, *, adjoint: bool) -> ir.Value:
    a = wide(g, matrix)
    solution = solved(g, swapped(g, a) if adjoint else a, wide(g, rhs))[0]
    return g.facts(narrow(g, solution, rhs), shape=g.shape(rhs))


@tf_op("MatrixTriangularSolve")
def matrix_triangular_solve(g: Graph, matrix: ir.Value, rhs: ir.Value, *, lower: bool, adjoint: bool) -> ir.Value:
    a = wide(g, matrix)
    a = swapped(g, a) if adjoint else a
    solution = substituted(g, a, matching(g, a, wide(g, rhs)), upper=lower == adjoint)
    same = g.shape(matrix)[:-2] == g.shape(rhs)[:-2]
    return g.facts(narrow(g, solution, rhs), shape=g.shape(rhs) if same else None)


@tf_op("Qr")
def qr(g: Graph, input: ir.Value, *, full_matrices: bool) -> list[ir.Value]:
    a = wide(g, input)
    rows, columns = sides(g, a)
    r, vectors, factors = reflections(g, a)
    width = rows if full_matrices else min(rows, columns)
    q = orthogonal(g, identity(g, a, rows, width), vectors, factors)
    return [narrow(g, v, input) for v in (q, triangle(g, g.Slice(r, [0], [width], [-2]), True))]


@tf_op("Svd")
def svd(g: Graph, input: ir.Value, *, compute_uv: bool, full_matrices: bool) -> list[ir.Value]:
    """Singular values, and the vectors of both sides, whose signs are free; without them two empty tensors."""
    u, values, v = singular(g, wide(g, input))
    if not compute_uv:
        return [narrow(g, values, input), *[g.const(np.zeros(0, g.dtype(input).numpy()))] * 2]
    return [narrow(g, x, input) for x in (values, completed(g, u, full_matrices), completed(g, v, full_matrices))]


@tf_op("SelfAdjointEigV2")
def self_adjoint_eig(g: Graph, input: ir.Value, *, compute_v: bool) -> list[ir.Value]:
    """Eigenvalues in ascending order, and the vectors, whose signs are free."""
    values, vectors = symmetric(g, wide(g, input))
    empty = g.const(np.zeros(0, g.dtype(input).numpy()))
    return [narrow(g, values, input), narrow(g, vectors, input) if compute_v else empty]
