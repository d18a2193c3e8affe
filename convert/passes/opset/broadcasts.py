"""Max, Min, Sum and Mean before opset 8, which need inputs of equal shapes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.tensors import numpy_dtype
from convert.graph.values import Dim


def lower_extremum(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Max and Min: smaller inputs are repeated."""
    inputs = [x for x in node.inputs if x is not None and x.shape is not None]
    if len(inputs) < len(node.inputs) or len({g.shape(x) for x in inputs}) < 2:
        return None
    return [g.node(node.op_type, repeated_to_one_shape(g, inputs))]


def lower_sum(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value] | None:
    """Sum and Mean: a chain of Adds, which broadcast."""
    inputs = [x for x in node.inputs if x is not None]
    total = reduce(g.Add, inputs[1:], inputs[0])
    if node.op_type == "Sum" or len(inputs) == 1:
        return [total]
    dtype = g.dtype(inputs[0])
    return [g.Div(total, g.const(np.array(len(inputs), numpy_dtype(dtype)), dtype))]


def repeated_to_one_shape(g: Graph, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """Return inputs of known rank, each repeated to the shape that they broadcast to, by operators of opset 7.

    Two unknown dims are assumed to be equal; onnxruntime rejects the inputs otherwise.
    """
    rank = max(map(g.rank, inputs))
    fronts = [rank - g.rank(x) for x in inputs]
    rows: list[tuple[Dim, ...]] = [(1,) * front + g.shape(x) for front, x in zip(fronts, inputs, strict=True)]
    makers = [_longest([row[axis] for row in rows]) for axis in range(rank)]

    def size(i: int, axis: int) -> ir.Value | int:
        known = rows[i][axis]
        if isinstance(known, int):
            return known
        return g.Gather(g.Shape(inputs[i]), np.array([axis - fronts[i]]), axis=0)

    def times(i: int, axis: int) -> ir.Value | int:
        own, whole = rows[i][axis], rows[makers[axis]][axis]
        if own == whole or (isinstance(own, int) and own != 1) or not (own == 1 or isinstance(whole, int)):
            return 1
        return size(makers[axis], axis) if own == 1 else g.Div(np.array([whole]), size(i, axis))

    made = []
    for i, x in enumerate(inputs):
        x = g.Unsqueeze(x, axes=list(range(fronts[i]))) if fronts[i] else x
        repeats = [times(i, axis) for axis in range(rank)]
        if all(isinstance(n, int) for n in repeats):
            made.append(x if set(repeats) <= {1} else g.Tile(x, np.array(repeats, np.int64)))
        else:
            parts = [np.array([n]) if isinstance(n, int) else n for n in repeats]
            made.append(g.Tile(x, parts[0] if rank == 1 else g.Concat(*parts, axis=0)))
    return made


def _longest(dims: Sequence[Dim]) -> int:
    """Return the index of the dim that determines the length of an axis: a number, else an unknown dim, else 1."""
    order = [0 if dim == 1 else 2 if isinstance(dim, int) else 1 for dim in dims]
    return order.index(max(order))
