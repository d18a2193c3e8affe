"""Rules for matrix products."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.tensors import dtype_name

from ..dtypes import FLOAT, cast, widen
from ..net import Blob, Net
from ..rules import onnx
from ..shapes import transpose


@onnx("MatMul")
def matmul(net: Net, a: Blob, b: Blob) -> Blob:
    """A constant matrix on the right is a fully connected layer over the last axis: one product for all of the rest."""
    _floating(a)
    x, y = widen(net, a, FLOAT), widen(net, b, FLOAT)
    ranks = net.rank(a), net.rank(b)
    if y.content is not None and ranks[1] == 2 and ranks[0] >= 2:
        return cast(net, fully_connected(net, x, net.transposed(y, [1, 0]), None), a.dtype)
    product = net.BatchMatMul(x, y, broadcast=1)
    if ranks == (1, 1):
        product = net.Reshape(product, shape=[], outputs=2)[0]
    return cast(net, product, a.dtype)


@onnx("Gemm")
def gemm(net: Net, a: Blob, b: Blob, c: Blob | None, *, alpha: float, beta: float, transA: int, transB: int) -> Blob:
    """alpha·A·B + beta·C; FC does the plain form with constant B and a C of one row."""
    _floating(a)
    x, y = widen(net, a, FLOAT), widen(net, b, FLOAT)
    if transA:
        x = transpose(net, x, [1, 0])
    row = c is None or (len(net.shape(c)) == 1 and c.shape == net.shape(b)[0 if transB else 1 :][:1])
    plain = alpha == 1 and (c is None or beta == 1)
    if plain and row and y.content is not None:
        bias = None if c is None else widen(net, c, FLOAT)
        return cast(net, fully_connected(net, x, y if transB else net.transposed(y, [1, 0]), bias), a.dtype)
    product = net.MatMul(x, y, trans_b=transB)
    if alpha != 1:
        product = net.Mul(product, net.const(alpha))
    if c is not None and beta != 0:
        wide = widen(net, c, FLOAT)
        product = net.Add(product, wide if beta == 1 else net.Mul(wide, net.const(beta)))
    return cast(net, product, a.dtype)


def fully_connected(net: Net, x: Blob, w: Blob, bias: Blob | None) -> Blob:
    """x·Wᵀ + bias over the last axis of `x`; FC needs a bias, so there are zeros where none is given."""
    shape = net.shape(x)
    width = net.shape(w)[0]
    if bias is None:
        bias = net.const(np.zeros([int(str(width))], np.float32))
    return net.facts(net.FC(x, w, bias, axis=len(shape) - 1), shape=[*shape[:-1], width])


def _floating(x: Blob) -> None:
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        raise Unsupported(f"a matrix product in {dtype_name(x.dtype)}: Caffe2 has float32's only")
