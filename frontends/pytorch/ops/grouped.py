"""Products of groups of rows with a matrix per group, as in mixtures of experts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dims_of, lazy_tensor, transposed_tensor

from ..common.sizes import size, vector
from ..common.values import cast
from ..rules import torch_op


@torch_op("_grouped_mm")
def _grouped_mm(g, x, mat2, offs=None, bias=None):
    if offs is None or g.rank(x) != 2 or g.rank(mat2) != 3:
        raise Unsupported("a grouped product of other than rows [rows, k] in groups with matrices [groups, k, n]")
    out = grouped_matmul(g, x, mat2, offs)
    return out if bias is None else g.Add(out, bias)


@torch_op("transformers::grouped_mm_fallback")
def grouped_mm_fallback(g, input, weight, offs):
    return grouped_matmul(g, input, weight, offs)


def grouped_matmul(g: Graph, x: ir.Value, matrices: ir.Value, ends: ir.Value) -> ir.Value:
    """Return x [rows, k] times matrices [groups, k, n]: group i has the rows from ends[i - 1] up to ends[i].

    Rows after the last group are zero.
    """
    groups = g.shape(matrices)[0]
    if not isinstance(groups, int):
        raise Unsupported("a grouped product whose number of groups is not known")
    ends = cast(g, ends, ir.DataType.INT64)
    start = g.const(np.array([0]))
    parts = []
    for i, matrix in enumerate(_group_matrices(g, matrices, groups)):
        end = g.Slice(ends, [i], [i + 1])
        parts.append(g.MatMul(g.Slice(x, start, end, [0]), matrix))
        start = end
    missing = g.Sub(vector(g, [size(g, x, 0)]), start)
    pads = g.Concat(g.const(np.zeros(2, np.int64)), missing, g.const(np.zeros(1, np.int64)), axis=0)
    return g.Pad(g.Concat(*parts, axis=0), pads)


def _group_matrices(g: Graph, matrices: ir.Value, groups: int) -> Iterator[ir.Value]:
    """Yield the matrices one by one, as views of a weight, transposed or not, so that nothing is copied at run time."""
    weight = _constant_content(matrices)
    for i in range(groups):
        if weight is None:
            yield g.Gather(matrices, g.const(i), axis=0)
        else:
            yield g.initializer(f"{matrices.name}.{i}", _group_view(weight, i))


def _constant_content(value: ir.Value) -> ir.TensorProtocol | None:
    node = value.producer()
    if node is not None and node.op_type == "Transpose" and node.inputs[0] is not None:
        tensor = node.inputs[0].const_value
        return None if tensor is None else transposed_tensor(tensor, list(node.attributes["perm"].as_ints()))
    return value.const_value


def _group_view(weight: ir.TensorProtocol, i: int) -> ir.TensorProtocol:
    return lazy_tensor(weight.dtype, dims_of(weight)[1:], lambda: weight.numpy()[i])
