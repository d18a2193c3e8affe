"""Recognizes the matrix product that tf.tensordot writes as a product of flattened rows."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph import Dim, Graph

from ..common.lazy_reshape import transpose
from .matching import inputs_of


def tensordot_as_matmul(g: Graph, tensor: ir.Value, target: Sequence[Dim]) -> ir.Value | None:
    """Match a matrix product for a Reshape of one, as tf.tensordot writes it: rows are flattened and restored.

    TensorFlow Lite turns the product into a Gemm with a transposed matrix, and adds the bias to it.
    """
    product, gemm = inputs_of(tensor, "MatMul"), tensor.producer()
    turned = False
    if not product and gemm is not None and set(gemm.attributes) <= {"transB"}:
        product = inputs_of(tensor, "Gemm")
        turned = "transB" in gemm.attributes and gemm.attributes["transB"].as_int() == 1
    if len(product) < 2 or product[1].shape is None or len(product[1].shape) != 2:
        return None
    flat = inputs_of(product[0], "Reshape")
    if len(flat) != 2 or not flat[0].shape:
        return None
    x, (inner, outer) = flat[0], reversed(g.shape(product[1])) if turned else g.shape(product[1])
    rows = g.shape(x)[:-1]
    if not isinstance(inner, int) or None in rows or g.shape(x)[-1] != inner or list(target) != [*rows, outer]:
        return None
    y = g.MatMul(x, transpose(g, product[1], [1, 0]) if turned else product[1])
    return y if len(product) == 2 else g.Add(y, product[2])
