"""Rules for matrix products."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.tensors import dtype_name

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.indexing import fixed_dims
from ..common.padding import slice_axis
from ..common.shapes import reshape_fixed, transpose
from ..net import Net
from ..rules import onnx_op


@onnx_op("MatMul")
def matmul(net: Net, a: Blob, b: Blob) -> Blob:
    """MatMul-13. A constant matrix on the right gives one fully connected layer over the last axis."""
    _check_floating(a)
    x, y = widen(net, a, FLOAT), widen(net, b, FLOAT)
    ranks = net.rank(a), net.rank(b)
    if y.content is not None and ranks[1] == 2 and ranks[0] >= 2:
        return cast(net, fully_connected(net, x, net.transposed_constant(y, [1, 0]), None), a.dtype)
    product = net.BatchMatMul(x, y, broadcast=1)
    if ranks == (1, 1):
        product = net.Reshape(product, shape=[], outputs=2)[0]
    return cast(net, product, a.dtype)


@onnx_op("Gemm")
def gemm(net: Net, a: Blob, b: Blob, c: Blob | None, *, alpha: float, beta: float, transA: int, transB: int) -> Blob:
    """alpha·A·B + beta·C; FC computes the plain form with constant B and a single row C."""
    _check_floating(a)
    x, y = widen(net, a, FLOAT), widen(net, b, FLOAT)
    if transA:
        x = transpose(net, x, [1, 0])
    row = c is None or (len(net.shape(c)) == 1 and c.shape == net.shape(b)[0 if transB else 1 :][:1])
    plain = alpha == 1 and (c is None or beta == 1)
    if plain and row and y.content is not None:
        bias = None if c is None else widen(net, c, FLOAT)
        return cast(net, fully_connected(net, x, y if transB else net.transposed_constant(y, [1, 0]), bias), a.dtype)
    product = net.MatMul(x, y, trans_b=transB)
    if alpha != 1:
        product = net.Mul(product, net.const(alpha))
    if c is not None and beta != 0:
        wide = widen(net, c, FLOAT)
        product = net.Add(product, wide if beta == 1 else net.Mul(wide, net.const(beta)))
    return cast(net, product, a.dtype)


def fully_connected(net: Net, x: Blob, w: Blob, bias: Blob | None) -> Blob:
    """Return x·Wᵀ + bias over the last axis of `x`; FC needs a bias, so a missing bias becomes zeros."""
    shape = net.shape(x)
    width = net.shape(w)[0]
    if 0 in net.shape(w):  # FC divides by the size
        product = net.facts(net.BatchMatMul(x, w, trans_b=1, broadcast=1), FLOAT[0], [*shape[:-1], width])
        return product if bias is None else net.facts(net.Add(product, bias), shape=product.shape)
    if bias is None:
        bias = net.const(np.zeros([int(str(width))], np.float32))
    return net.facts(net.FC(x, w, bias, axis=len(shape) - 1), shape=[*shape[:-1], width])


def _check_floating(x: Blob) -> None:
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        raise Unsupported(f"a matrix product in {dtype_name(x.dtype)}: Caffe2 has float32's only")


@onnx_op("Det")
def det(net: Net, x: Blob) -> Blob:
    """Det-22: the product of the pivots of Gaussian elimination with row exchanges, unrolled for small matrices."""
    _check_floating(x)
    if net.root.aten:
        return cast(
            net, net.facts(net.ATen(widen(net, x, FLOAT), operator="det"), FLOAT[0], net.shape(x)[:-2]), x.dtype
        )
    shape = fixed_dims(net, x, "Det")
    size, count = shape[-1], int(np.prod(shape[:-2]))
    if size > _LARGEST_DET:
        raise Unsupported(f"the determinant of a {size}×{size} matrix ({_LARGEST_DET} at most)")
    matrix = reshape_fixed(net, widen(net, x, FLOAT), [count, size, size])
    result = net.const(np.ones([count, 1, 1], np.float32))
    for left in range(size, 0, -1):
        pivot, sign, matrix = _eliminate_column(net, matrix, count, left)
        result = net.facts(net.Mul(net.Mul(result, pivot), sign), FLOAT[0], (count, 1, 1))
    return cast(net, reshape_fixed(net, result, shape[:-2]), x.dtype)


_LARGEST_DET = 32


def _eliminate_column(net: Net, a: Blob, count: int, size: int) -> tuple[Blob, Blob, Blob]:
    """Return the pivot of the first column, −1 if rows are exchanged, and the remaining matrix."""
    column = net.facts(slice_axis(net, a, 2, 0, 1), FLOAT[0], (count, size, 1))
    best = net.facts(net.ArgMax(net.Abs(column), axis=1, keepdims=1), ir.DataType.INT64, (count, 1, 1))
    rows = net.const(np.arange(size, dtype=np.int64).reshape(1, size, 1))
    chosen = cast(net, net.facts(net.EQ(best, rows), shape=(count, size, 1)), FLOAT[0])
    row = net.op("ReduceSum", [net.Mul(a, chosen)], axes=[1], keepdims=1)
    net.facts(row, FLOAT[0], (count, 1, size))
    pivot = net.facts(slice_axis(net, row, 2, 0, 1), FLOAT[0], (count, 1, 1))
    moved = cast(net, net.GT(best, net.const(np.array(0))), FLOAT[0])
    sign = net.facts(net.Sub(net.const(1.0), net.Add(moved, moved)), FLOAT[0], (count, 1, 1))
    if size == 1:
        return pivot, sign, a
    # The first row takes the place of the pivot row; then the first row is dropped.
    first = slice_axis(net, a, 1, 0, 1)
    exchanged = net.Add(a, net.Mul(chosen, net.Sub(first, row)))
    below = slice_axis(net, net.facts(exchanged, FLOAT[0], (count, size, size)), 1, 1, size)
    none = cast(net, net.EQ(pivot, net.const(0.0)), FLOAT[0])
    factor = net.Div(slice_axis(net, below, 2, 0, 1), net.Add(pivot, none))
    rest = net.facts(net.Sub(below, net.Mul(factor, row)), FLOAT[0], (count, size - 1, size))
    return pivot, sign, net.facts(slice_axis(net, rest, 2, 1, size), FLOAT[0], (count, size - 1, size - 1))
