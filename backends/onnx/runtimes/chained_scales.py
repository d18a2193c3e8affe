"""Merges two products with numbers if onnxruntime's optimizer would otherwise break the graph.

Its MatMulScaleFusion moves a product with a number into the matrix products that read it. It forgets that its own
result still reads the first of two consecutive such products. An example is `w = 1.3 t`, `q = 0.35 w`, `MatMul(q, ·)`
and `MatMul(·, w)`, as in attention of a scaled tensor with itself. The fusion removes w, and the valid file does not
load ("Node input 'w' is not a graph input, initializer, or output of a previous node", 1.22 to 1.32).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.values import constant, rank

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)


def join_chained_scales(model: ir.Model) -> bool:
    """Merge two successive products with numbers if matrix products read both. Return whether anything changed."""
    changed = False
    for node in list(model.graph.all_nodes()):
        outer = _scale(node)
        inner = None if outer is None else _scale(outer[0].producer())
        if outer is None or inner is None:
            continue
        (middle, second), (x, first), graph = outer, inner, node.graph
        if graph is None or not (_feeds_matrix_product(middle) and _feeds_matrix_product(node.outputs[0])):
            continue
        dtype, name = node.outputs[0].dtype, f"{node.outputs[0].name}.scale"
        assert dtype is not None
        with np.errstate(over="ignore"):
            joined = np.float64(first * second).astype(dtype.numpy())
        if not np.isfinite(joined) or not joined:  # the merged number would overflow or underflow
            continue
        initializer = register_initializer(graph, name, ir.tensor(joined, dtype))
        merged = ir.Node("", "Mul", [x, initializer], num_outputs=1, name=node.name)
        merged.metadata_props.update(node.metadata_props)
        y, old = merged.outputs[0], node.outputs[0]
        y.dtype, y.shape, y.name, old.name = dtype, old.shape, old.name, None
        graph.insert_before(node, merged)
        ir.convenience.replace_all_uses_with(old, y, replace_graph_outputs=True)
        graph.remove(node, safe=True)
        changed = True
    return changed


def _scale(node: ir.Node | None) -> tuple[ir.Value, float] | None:
    """Return the factors of a node that multiplies a value by a number, else None."""
    if node is None or node.domain != "" or node.op_type not in ("Mul", "Div"):
        return None
    if node.outputs[0].dtype not in _FLOATS:
        return None
    a, b = node.inputs
    for x, factor in ((a, b), (b, a)) if node.op_type == "Mul" else ((a, b),):
        number = constant(factor)
        if x is None or number is None or number.size != 1 or constant(x) is not None:
            continue
        if len(number.shape) > (rank(x) or 0):  # the number adds dims to the product
            return None
        value = float(number.numpy().astype(np.float64).reshape(()))
        if node.op_type == "Mul":
            return x, value
        return (x, 1 / value) if value else None
    return None


def _feeds_matrix_product(value: ir.Value) -> bool:
    """Return whether a matrix product, or a transpose before one, reads the value."""
    return any(
        user.domain == ""
        and (user.op_type == "MatMul" or (user.op_type == "Transpose" and _feeds_matrix_product(user.outputs[0])))
        for user in value.consumers()
    )
