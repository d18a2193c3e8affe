"""Matrix products and the like."""

from __future__ import annotations

import tensorflow as tf

from ..rules import onnx_op
from .binary import as_row

# Integer types that TensorFlow's matrix product has no kernel for, and what it is done in.
WIDER = {
    tf.int8: tf.int32,
    tf.uint8: tf.int32,
    tf.int16: tf.int32,
    tf.uint16: tf.int32,
    tf.uint32: tf.int64,
    tf.uint64: tf.int64,
}


def matrix_product(a, b):
    """numpy.matmul: vectors are promoted, batch dims broadcast."""
    if b.shape.rank == 1:
        return tf.squeeze(matrix_product(a, tf.expand_dims(b, -1)), -1)
    if a.shape.rank == 1:
        return tf.squeeze(matrix_product(tf.expand_dims(a, 0), b), -2)
    if a.dtype in WIDER:
        wide = WIDER[a.dtype]
        return tf.cast(tf.matmul(tf.cast(a, wide), tf.cast(b, wide)), a.dtype)
    return tf.matmul(a, b)


@onnx_op("MatMul")
def matmul(t, a, b):
    return matrix_product(a, b)


@onnx_op("Gemm")
def gemm(t, a, b, c, *, alpha, beta, transA, transB):
    a = t.permuted(a, (1, 0)) if transA else a
    b = t.permuted(b, (1, 0)) if transB else b
    y = matrix_product(a, b)
    kind = y.dtype
    if kind.is_integer and (alpha != 1 or beta != 1):
        # The sum is rounded towards zero, not its parts.
        y, c = tf.cast(y, tf.float64), None if c is None else tf.cast(c, tf.float64)
    return tf.cast(_add_scaled(scale_by(y, alpha), c, beta), kind)


def _add_scaled(y, c, beta):
    if c is None or beta == 0:
        return y
    c = as_row(scale_by(c, beta), y)
    # A vector goes through BiasAdd, which TensorFlow fuses with the product.
    plain = c.shape.rank == 1 and c.shape[0] == y.shape[-1] and c.shape[0] is not None and y.dtype.is_floating
    return tf.nn.bias_add(y, c) if plain else tf.add(y, c)


def scale_by(x, factor):
    """x times a number."""
    return x if factor == 1 else tf.multiply(x, tf.constant(factor, x.dtype))


@onnx_op("Einsum")
def einsum(t, *inputs, equation):
    kind = inputs[0].dtype
    wide = WIDER.get(kind, kind)
    return tf.cast(tf.einsum(equation.replace(" ", ""), *(tf.cast(x, wide) for x in inputs)), kind)


@onnx_op("Det")
def det(t, x):
    wide = tf.cast(x, tf.float32 if x.dtype.size < 4 else x.dtype)
    return tf.cast(tf.linalg.det(wide), x.dtype)
