"""Matrix products and the like."""

from __future__ import annotations

import tensorflow as tf

from ..rules import onnx
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


def product(a, b):
    """numpy.matmul: vectors are promoted, batch dims broadcast."""
    if b.shape.rank == 1:
        return tf.squeeze(product(a, tf.expand_dims(b, -1)), -1)
    if a.shape.rank == 1:
        return tf.squeeze(product(tf.expand_dims(a, 0), b), -2)
    if a.dtype in WIDER:
        wide = WIDER[a.dtype]
        return tf.cast(tf.matmul(tf.cast(a, wide), tf.cast(b, wide)), a.dtype)
    return tf.matmul(a, b)


@onnx("MatMul")
def matmul(t, a, b):
    return product(a, b)


@onnx("Gemm")
def gemm(t, a, b, c, *, alpha, beta, transA, transB):
    a = t.permuted(a, (1, 0)) if transA else a
    b = t.permuted(b, (1, 0)) if transB else b
    y = product(a, b)
    if alpha != 1:
        y = scaled(y, alpha)
    if c is None or beta == 0:
        return y
    c = as_row(scaled(c, beta) if beta != 1 else c, y)
    # A vector goes through BiasAdd, which TensorFlow fuses with the product.
    plain = c.shape.rank == 1 and c.shape[0] == y.shape[-1] and c.shape[0] is not None and y.dtype.is_floating
    return tf.nn.bias_add(y, c) if plain else tf.add(y, c)


def scaled(x, factor):
    """x times a floating number; an integer x is rounded towards zero."""
    if x.dtype.is_integer:
        return tf.cast(tf.cast(x, tf.float64) * factor, x.dtype)
    return tf.multiply(x, tf.constant(factor, x.dtype))


@onnx("Einsum")
def einsum(t, *inputs, equation):
    return tf.einsum(equation.replace(" ", ""), *(tf.convert_to_tensor(x) for x in inputs))
