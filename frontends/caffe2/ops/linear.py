"""Matrix products and softmax."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph import Graph

from ..rules import caffe2_op


@caffe2_op("FC")
def fully_connected(g: Graph, x: ir.Value, w: ir.Value, b: ir.Value, *, axis: int = 1, axis_w: int = 1) -> ir.Value:
    """FC: x·Wᵀ + b, with the dims of `x` from `axis` on, and of `w` from `axis_w` on, merged."""
    return g.Add(_matmul_from_axis(g, x, g.Transpose(_flatten_to_matrix(g, w, axis_w), perm=[1, 0]), axis), b)


@caffe2_op("FCTransposed")
def fully_connected_transposed(
    g: Graph, x: ir.Value, w: ir.Value, b: ir.Value, *, axis: int = 1, axis_w: int = 1
) -> ir.Value:
    return g.Add(_matmul_from_axis(g, x, _flatten_to_matrix(g, w, axis_w), axis), b)


def _matmul_from_axis(g: Graph, x: ir.Value, w: ir.Value, axis: int) -> ir.Value:
    """Return […, K…]·[K, N], with the dims of `x` from `axis` on merged."""
    rank = g.rank(x)
    axis = axis % rank
    if axis == rank - 1:
        return g.MatMul(x, w)
    if axis == 1:
        return g.MatMul(g.Flatten(x, axis=1), w)
    joined = g.Reshape(x, g.Concat(g.Shape(x, end=axis), [-1], axis=0))
    return g.MatMul(joined, w)


@caffe2_op("MatMul")
def matmul(
    g: Graph, a: ir.Value, b: ir.Value, *, axis_a: int = 1, axis_b: int = 1, trans_a: int = 0, trans_b: int = 0
) -> ir.Value:
    """MatMul of two matrices; operands of more dims are flattened to matrices."""
    a, b = _flatten_to_matrix(g, a, axis_a), _flatten_to_matrix(g, b, axis_b)
    return g.MatMul(*(g.Transpose(m, perm=[1, 0]) if t else m for m, t in ((a, trans_a), (b, trans_b))))


def _flatten_to_matrix(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    return x if g.rank(x) == 2 and axis == 1 else g.Flatten(x, axis=axis)


@caffe2_op("BatchMatMul")
def batch_matmul(
    g: Graph, a: ir.Value, b: ir.Value, *, trans_a: int = 0, trans_b: int = 0, broadcast: int = 0
) -> ir.Value:
    """BatchMatMul. `broadcast` allows batch dims that differ; if they are equal, it changes nothing."""
    ranks = g.rank(a), g.rank(b)
    y = g.MatMul(_transpose_matrix(g, a) if trans_a else a, _transpose_matrix(g, b) if trans_b else b)
    return g.Unsqueeze(y, [0]) if ranks == (1, 1) else y  # Caffe2 returns a vector of one number


def _transpose_matrix(g: Graph, x: ir.Value) -> ir.Value:
    rank = g.rank(x)
    return g.Transpose(x, perm=[*range(rank - 2), rank - 1, rank - 2])


@caffe2_op("Softmax")
def softmax(g: Graph, x: ir.Value, *, axis: int = 1) -> ir.Value:
    """Softmax over all dims from `axis` on, merged."""
    rank = g.rank(x)
    axis = axis % rank
    if axis == rank - 1:
        return g.Softmax(x, axis=-1)
    return g.Reshape(g.Softmax(g.Flatten(x, axis=axis), axis=-1), g.dims(x))
