"""Matrix products."""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import partial

import keras
import numpy as np
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported
from convert.semantics.einsum import squeeze_labels

from ..constants import Constant
from ..rules import DENSE, onnx_op
from ..tensors import Tensor, is_floating, plus, with_rank


@onnx_op(DENSE)
def dense(k, x, w, b):
    if 0 in w.shape or x.shape[-1] is None:  # a layer cannot have zero units, or an input of unknown width
        y = ops.matmul(*k.tensors(x, w))
        return y if b is None else plus(y, k.tensor(b))
    return k.layer(layers.Dense, x, {"kernel": w, "bias": b}, units=w.shape[1], use_bias=b is not None)


@onnx_op("Gemm")
def gemm(k, a, b, c, *, alpha, beta, transA, transB):
    bias = c if isinstance(c, Constant) and (c.size == 1 or c.size == c.shape[-1]) else None
    if not is_floating(a):
        return _exactly(lambda a, b, c: _affine(a, b, c, alpha, beta, transA, transB), *k.tensors(a, b, c))
    if isinstance(a, KerasTensor) and isinstance(b, Constant) and (c is None or bias is not None) and not transA:
        w = b.permuted(1, 0) if transB else b
        w = w if alpha == 1 else w.map(w.shape, lambda array: (array * alpha).astype(array.dtype))
        if bias is not None:
            units = w.shape[1]
            bias = bias.map(
                (units,), lambda array: np.broadcast_to((array * beta).astype(array.dtype).ravel(), (units,))
            )
        return dense(k, a, w, bias)
    a, b, c = k.tensors(a, b, c)
    return _affine(a, b, c, alpha, beta, transA, transB)


def _affine(a: Tensor, b: Tensor, c: Tensor | None, alpha: float, beta: float, transA: int, transB: int) -> KerasTensor:
    """Compute Gemm as products and sums."""
    y = _product(ops.transpose(a, (1, 0)) if transA else a, ops.transpose(b, (1, 0)) if transB else b)
    y = y if alpha == 1 else alpha * y
    return y if c is None else plus(y, c if beta == 1 else beta * c)


@onnx_op("MatMul")
def matmul(k, a, b):
    matrix = isinstance(b, Constant) and len(b.shape) == 2 and b.dtype.startswith(("float", "bfloat"))
    if matrix and isinstance(a, KerasTensor) and len(a.shape) > 1:
        return dense(k, a, b, None)
    return _product(*k.tensors(a, b))


def _product(a: Tensor, b: Tensor) -> KerasTensor:
    """Return numpy.matmul. All rows of `a` are multiplied as one matrix if `b` is a single matrix, with or without
    leading dims of 1.

    TensorFlow's product of [n, 1, m, k] with one matrix is wrong if oneDNN uses AVX-512.
    """
    if not is_floating(a):
        return _exactly(ops.matmul, a, b)
    rank, front = len(b.shape), len(b.shape) - 2
    if len(a.shape) < 3 or front < 0 or set(b.shape[:front]) - {1}:
        return ops.matmul(a, b)
    y = ops.tensordot(a, ops.squeeze(b, tuple(range(front))) if front else b, axes=1)
    return with_rank(y, rank)


def _exactly(function: Callable[..., KerasTensor], *operands: Tensor | None) -> KerasTensor:
    """Return an exact product of integers, computed in float64 and wrapped to the dtype.

    Keras computes them in float32, which is exact up to 2²⁴ only.
    """
    dtype = next(keras.backend.standardize_dtype(x.dtype) for x in operands if x is not None)
    wide = function(*(None if x is None else ops.cast(x, "float64") for x in operands))
    return ops.cast(ops.cast(wide, "int64"), dtype)


@onnx_op("Einsum")
def einsum(k, *values, equation):
    operands = k.tensors(*values)
    equation, ones = squeeze_labels(equation, [x.shape for x in operands])
    operands = [ops.squeeze(x, tuple(a)) if a else x for x, a in zip(operands, ones, strict=True)]
    product = partial(ops.einsum, _with_small_letters(equation))
    return product(*operands) if is_floating(values[0]) else _exactly(product, *operands)


def _with_small_letters(equation: str) -> str:
    """Return the equation with lowercase labels: Keras infers no shapes for capitals."""
    free = [c for c in string.ascii_lowercase if c not in equation]
    capitals = sorted({c for c in equation if c.isupper()})
    if len(capitals) > len(free):
        raise Unsupported("an Einsum of more than 26 labels")
    return equation.translate(str.maketrans("".join(capitals), "".join(free[: len(capitals)])))
