"""Rewrites a product with a vector as one with a matrix of one column, in models with a Transpose.

onnxruntime 1.32 fuses a Transpose into the MatMul after it, also if that multiplies by a vector, and then computes
wrong numbers. With the vector first, and with matrices, it is right.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.values import known_dims


def columns_for_vectors(model: ir.Model) -> bool:
    """Rewrite every such product of a model. Return whether anything changed."""
    nodes = [(graph, node) for graph in model.graphs() for node in graph if not node.domain]
    if not any(node.op_type == "Transpose" for _, node in nodes):
        return False
    found = [(graph, node) for graph, node in nodes if node.op_type == "MatMul" and _rank(node.inputs[1]) == 1]
    for graph, node in found:
        _multiply_by_column(graph, node)
    return bool(found)


def _rank(value: ir.Value | None) -> int | None:
    dims = None if value is None else known_dims(value)
    return None if dims is None else len(dims)


def _multiply_by_column(graph: ir.Graph, node: ir.Node) -> None:
    """Unsqueeze the vector before the product, and squeeze the result."""
    vector, result = node.inputs[1], node.outputs[0]
    assert vector is not None
    axis = register_initializer(graph, f"{result.name}.column_axis", ir.tensor(np.array([-1], np.int64)))
    column = ir.Node("", "Unsqueeze", [vector, axis], num_outputs=1, name=f"{node.name}_column")
    column.outputs[0].name, column.outputs[0].type = f"{result.name}.column", vector.type
    column.outputs[0].shape = ir.Shape([*(vector.shape or ()), 1])
    node.replace_input_with(1, column.outputs[0])
    graph.insert_before(node, column)
    squeeze = ir.Node("", "Squeeze", [result, axis], num_outputs=1, name=f"{node.name}_squeeze")
    graph.insert_after(node, squeeze)
    made = squeeze.outputs[0]
    made.type, made.shape = result.type, result.shape
    ir.convenience.replace_all_uses_with(result, made, replace_graph_outputs=True)
    squeeze.replace_input_with(0, result)
    made.name, result.name = result.name, f"{result.name}.of_column"
    result.shape = None if made.shape is None else ir.Shape([*made.shape, 1])
    for one in (column, squeeze):
        one.metadata_props.update(node.metadata_props)
