"""Matrix products and related operators."""

from __future__ import annotations

import onnx_ir as ir
import tensorflow as tf

from convert.graph.values import known_dims

from ..constants import Constant
from ..emit import Emitter, LazyDims, Value, fusion_barrier
from ..rules import LITE, onnx_op
from .binary import as_row
from .shape import dims_product, pack_dims

# Integer dtypes without a matrix product in TensorFlow, and the dtypes used instead.
WIDER = {
    tf.int8: tf.int32,
    tf.uint8: tf.int32,
    tf.int16: tf.int32,
    tf.uint16: tf.int32,
    tf.uint32: tf.int64,
    tf.uint64: tf.int64,
}


def matrix_product(a: Value, b: Value, *, flat: bool = True) -> tf.Tensor:
    """Return numpy.matmul: vectors are promoted, batch dims broadcast. flat: multiply all rows of a as one matrix."""
    if flat and None in (a.shape.rank, b.shape.rank) and not _is_one_matrix(a, b):
        return _product_of_any_ranks(a, b)
    if b.shape.rank == 1:
        return tf.squeeze(matrix_product(a, tf.expand_dims(b, -1), flat=flat), -1)
    if a.shape.rank == 1:
        return tf.squeeze(matrix_product(tf.expand_dims(a, 0), b, flat=flat), -2)
    if a.dtype in WIDER:
        wide = WIDER[a.dtype]
        return tf.cast(matrix_product(tf.cast(a, wide), tf.cast(b, wide), flat=flat), a.dtype)
    if flat and a.shape.rank != 2 and _is_one_matrix(a, b):
        return _multiply_by_matrix(a, b)
    return _matmul(a, b)


def _product_of_any_ranks(a: Value, b: Value) -> tf.Tensor:
    """Return the product of operands that may be vectors at run time; a vector gets a dim of 1 that is removed
    afterwards.
    """
    before, behind = (tf.maximum(2 - tf.rank(x), 0) for x in (a, b))
    left = tf.reshape(a, tf.concat([tf.ones([before], tf.int32), tf.shape(a)], 0))
    right = tf.reshape(b, tf.concat([tf.shape(b), tf.ones([behind], tf.int32)], 0))
    wide = WIDER.get(a.dtype, a.dtype)
    y = _matmul(tf.cast(left, wide), tf.cast(right, wide))
    dims = tf.shape(y)
    return tf.cast(tf.reshape(y, tf.concat([dims[:-2], dims[-2:-1][before:], dims[-1:][behind:]], 0)), a.dtype)


def _is_one_matrix(a: Value, b: Value) -> bool:
    """Return whether `b` is a single matrix for all rows of `a`: of rank 2, or with leading dims of 1."""
    known = b.shape.rank is not None and (b.shape.rank == 2 or a.shape.rank is not None)
    return known and set(b.shape.as_list()[:-2]) <= {1}


def _multiply_by_matrix(a: Value, b: Value) -> tf.Tensor:
    """Return the product of all rows of `a`, of any rank, with the single matrix in `b`.

    It uses a MatMul between two reshapes, which copy nothing. oneDNN's BatchMatMulV2 of [n, 1, m, k] with one matrix
    returns wrong numbers or crashes the process (TensorFlow 2.21 on AVX-512), and cannot fuse a bias.
    """
    a = tf.convert_to_tensor(a)
    ones = [1] * (b.shape.rank - 2)
    b = tf.reshape(b, pack_dims(LazyDims(b)[-2:])) if ones else b
    if a.shape.rank is None:
        rows, dims = [-1, tf.shape(a)[-1]], tf.concat([tf.shape(a)[:-1], tf.shape(b)[1:]], 0)
        return tf.reshape(tf.matmul(tf.reshape(a, pack_dims(rows)), b), dims)
    dims = LazyDims(a)
    ones = ones[: max(len(ones) + 2 - len(dims), 0)]
    # Reshape cannot infer the number of rows of an empty tensor.
    count = -1 if (a.shape[-1] or b.shape[0]) else dims_product(dims[:-1])
    y = _matmul(tf.reshape(a, pack_dims([count, dims[-1]])), b)
    known = [*ones, *a.shape.as_list()[:-1], b.shape[-1]]
    if known.count(None) == 1 and 0 not in known:
        shape = [-1 if d is None else d for d in known]
    else:
        shape = [*ones, *dims[:-1], LazyDims(b)[-1]]
    y = tf.reshape(y, pack_dims(shape))
    y.set_shape(known)
    return y


def _matmul(a: Value, b: Value) -> tf.Tensor:
    """Return a product whose operands are not flattened. A product that may sum no elements is not fused with a bias.

    oneDNN's fused product crashes the process if there are no elements to sum.
    """
    y = tf.matmul(a, b)
    return y if a.shape[-1] or b.shape[-2] else fusion_barrier(y)


@onnx_op("MatMul")
def matmul(t, a, b):
    if _may_turn_out_one_matrix(t, a, b):
        front = tf.broadcast_dynamic_shape(tf.shape(a)[:-2], tf.shape(b)[:-2])
        y = _matmul(a, tf.broadcast_to(b, tf.concat([front, tf.shape(b)[-2:]], 0)))
        y.set_shape([None] * max(a.shape.rank, b.shape.rank))
        return y
    return matrix_product(a, b)


def _may_turn_out_one_matrix(t: Emitter, a: Value, b: Value) -> bool:
    """Return whether [n, 1, m, k] may be multiplied by a single matrix at run time; see `_multiply_by_matrix`.

    Such a product is broadcast first, which copies nothing if the dims are equal; oneDNN computes it correctly.
    """
    if a.shape.rank is None or b.shape.rank is None or a.shape.rank < 4 or b.shape.rank < 3:
        return False
    front = b.shape.as_list()[:-2]
    if a.shape[-3] not in (None, 1) or None not in front or not set(front) <= {1, None}:
        return False
    assert t.node is not None
    named = [None if v is None else known_dims(v) for v in t.node.inputs]
    left, right = (None if dims is None else dims[:-2] for dims in named)
    return left is None or left != right or None in left


@onnx_op(f"{LITE}::MatMul")
def matmul_of_lite(t, a, b):
    """MatMul for TensorFlow Lite, whose FULLY_CONNECTED takes rows of any rank."""
    if not isinstance(b, Constant) and _are_of_one_tensor(t):
        # XNNPACK computes the product of two transposes of one tensor wrongly (ai-edge-litert 2.3). A maximum of equal
        # operands keeps the transposes apart, because no optimizer simplifies it.
        b = tf.maximum(b, b)
    if not isinstance(b, Constant) and _is_transposed_twice(t):
        a = tf.maximum(a, a)  # the converter of TensorFlow 2.21 segfaults otherwise
    return matrix_product(a, b, flat=False)


def _are_of_one_tensor(t: Emitter) -> bool:
    """Return whether both factors are the same value, or transposes of the same value."""
    assert t.node is not None
    a, b = t.node.inputs[:2]
    (x, moved), (y, moved_too) = (_before_transposes(v) for v in (a, b))
    return a is b or (x is y and moved and moved_too)


def _is_transposed_twice(t: Emitter) -> bool:
    """Return whether the first factor is the transpose of a product of a transpose and a constant matrix."""
    assert t.node is not None
    node, moved = _maker_of(t.node.inputs[0]), False
    while node is not None and node.op_type in _REARRANGING | _FUSED_ACTIVATIONS:
        moved = moved or node.op_type == "Transpose"
        node = _maker_of(node.inputs[0])
    if not moved or node is None or node.op_type != "MatMul":
        return False
    factor, matrix = node.inputs[:2]
    return matrix is not None and matrix.const_value is not None and _before_transposes(factor)[1]


def _maker_of(value: ir.Value | None) -> ir.Node | None:
    return None if value is None else value.producer()


_FUSED_ACTIVATIONS = frozenset({"Clip", "Relu", "Tanh"})
"""Activations that the converter fuses with the product before them."""


def _before_transposes(value: ir.Value | None) -> tuple[ir.Value | None, bool]:
    """Return the value from which a value was rearranged, and whether a Transpose was involved."""
    moved = False
    while value is not None and (node := value.producer()) is not None and node.op_type in _REARRANGING:
        moved = moved or node.op_type == "Transpose"
        value = node.inputs[0]
    return value, moved


_REARRANGING = frozenset({"Transpose", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten"})


@onnx_op("Gemm")
def gemm(t, a, b, c, *, alpha, beta, transA, transB):
    a, b = (x if isinstance(x, Constant) else t.of_rank(x, 2) for x in (a, b))
    a = t.permuted(a, (1, 0)) if transA else a
    b = t.permuted(b, (1, 0)) if transB else b
    y = matrix_product(a, b)
    dtype = y.dtype
    if dtype.is_integer and (alpha != 1 or beta != 1):
        # Round the sum towards zero, not its terms.
        y, c = tf.cast(y, tf.float64), None if c is None else tf.cast(c, tf.float64)
    return tf.cast(_add_scaled(scale_by(y, alpha), c, beta), dtype)


def _add_scaled(y: tf.Tensor, c: Value, beta: float) -> tf.Tensor:
    if c is None or beta == 0:
        return y
    c = as_row(scale_by(c, beta), y)
    # A vector is added by BiasAdd, which TensorFlow fuses with the product.
    plain = c.shape.rank == 1 and c.shape[0] == y.shape[-1] and c.shape[0] is not None and y.dtype.is_floating
    return tf.nn.bias_add(y, c) if plain else tf.add(y, c)


def scale_by(x: Value, factor: float) -> Value:
    """Return x times a number."""
    return x if factor == 1 else tf.multiply(x, tf.constant(factor, x.dtype))


@onnx_op("Det")
def det(t, x):
    wide = tf.cast(x, tf.float32 if x.dtype.size < 4 else x.dtype)
    return tf.cast(tf.linalg.det(wide), x.dtype)
