"""Matrix products."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.factor import lu
from convert.numerics.matrices import LARGEST, matrix_shape
from convert.numerics.solve import sign_and_log_det

from ..common.lazy_reshape import cast, transpose
from ..rules import tf_op
from .special import cast_like, to_float64


@tf_op("MatMul")
def mat_mul(g: Graph, a: ir.Value, b: ir.Value, *, transpose_a: bool, transpose_b: bool) -> ir.Value:
    for x in (a, b):
        if x.shape is None:
            g.facts(x, shape=[None, None])
    return g.MatMul(_transpose_if(g, a, transpose_a), _transpose_if(g, b, transpose_b))


@tf_op("BatchMatMul", "BatchMatMulV2")
def batch_mat_mul(g: Graph, x: ir.Value, y: ir.Value, *, adj_x: bool, adj_y: bool) -> ir.Value:
    x, y = _transpose_if(g, x, adj_x), _transpose_if(g, y, adj_y)
    return g.MatMul(x, y)


@tf_op("BatchMatMulV3")
def batch_mat_mul_v3(g: Graph, x: ir.Value, y: ir.Value, *, adj_x: bool, adj_y: bool, Tout: ir.DataType) -> ir.Value:
    """BatchMatMulV3 in the requested dtype: bytes are summed in 32 bits. (MatMulInteger of signed bytes may
    saturate.)
    """
    if g.dtype(x) != Tout or g.dtype(y) != Tout:
        x, y = cast(g, x, Tout), cast(g, y, Tout)
    return batch_mat_mul(g, x, y, adj_x=adj_x, adj_y=adj_y)


def _transpose_if(g: Graph, x: ir.Value, wanted: bool) -> ir.Value:
    if not wanted:
        return x
    rank = g.rank(x)
    if x.dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        raise Unsupported("complex matrices")
    return transpose(g, x, [*range(rank - 2), rank - 1, rank - 2])


@tf_op("MatrixDeterminant")
def matrix_determinant(g: Graph, input: ir.Value) -> ir.Value:
    """MatrixDeterminant; onnxruntime has ONNX's Det for float32 only."""
    if g.dtype(input) != ir.DataType.DOUBLE:
        return g.Det(input)
    sign, log = _sign_and_log(g, input)
    return g.Mul(sign, g.Exp(log))


@tf_op("LogMatrixDeterminant")
def log_matrix_determinant(g: Graph, input: ir.Value) -> list[ir.Value]:
    """Compute the logarithm from the factors of the matrix, because the determinant itself may overflow or
    underflow.
    """
    known = all(isinstance(size, int) and size <= LARGEST for size in g.shape(input)[-2:])
    return list(_sign_and_log(g, input) if known else _determinant_of_unit_rows(g, input))


def _sign_and_log(g: Graph, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    wide = to_float64(g, x)
    if not matrix_shape(g, x)[0]:
        none = g.ReduceSum(wide, [-2, -1], keepdims=0)
        return cast_like(g, g.Add(none, np.float64(1)), x), cast_like(g, none, x)
    sign, log = sign_and_log_det(g, *lu(g, wide))
    return cast_like(g, sign, x), cast_like(g, log, x)


def _determinant_of_unit_rows(g: Graph, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the determinant of the rows divided by their lengths, which is at most 1 (Hadamard), and these lengths."""
    length = g.ReduceL2(x, [-1], keepdims=1)
    length = g.Where(g.Equal(length, g.const(0, g.dtype(x))), g.const(1, g.dtype(x)), length)
    det = g.Det(g.Div(x, length))
    return g.Sign(det), g.Add(g.Log(g.Abs(det)), g.ReduceSum(g.Log(length), [-2, -1], keepdims=0))


@tf_op("Cross")
def cross(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """Cross: a₁b₂ - a₂b₁ and its cyclic permutations, from operands rolled by one and by two."""
    once, twice = np.array([1, 2, 0], np.int64), np.array([2, 0, 1], np.int64)
    turned = [[g.Gather(x, order, axis=-1) for order in (once, twice)] for x in (a, b)]
    return g.Sub(g.Mul(turned[0][0], turned[1][1]), g.Mul(turned[0][1], turned[1][0]))
