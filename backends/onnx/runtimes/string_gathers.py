"""Rewrites a Gather of rows of strings as GatherND, because onnxruntime's Gather (1.32) takes only the first string of
a row.

A Gather of single strings along the last dim is correct and is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Dim, register_initializer
from convert.graph.values import known_dims

_STRING, _INT64 = ir.DataType.STRING, ir.DataType.INT64


def gather_rows_of_strings(model: ir.Model) -> bool:
    """Rewrite every such Gather of a model. Return whether anything changed."""
    found = [(graph, node) for graph in model.graphs() for node in graph if _takes_rows(node)]
    for graph, node in found:
        _write_gather_nd(graph, node)
    return bool(found)


def _takes_rows(node: ir.Node) -> bool:
    if node.op_type != "Gather" or node.domain or node.inputs[0] is None or node.inputs[1] is None:
        return False
    dims = known_dims(node.inputs[0])
    if node.inputs[0].dtype != _STRING or not dims or known_dims(node.inputs[1]) is None:
        return False
    return any(d != 1 for d in dims[_axis_of(node, len(dims)) + 1 :])


def _axis_of(node: ir.Node, rank: int) -> int:
    return node.attributes.get_int("axis", 0) % rank


def _write_gather_nd(graph: ir.Graph, node: ir.Node) -> None:
    """Emit the axis first, with each index as a row of one; then move the dims before the axis to the front again."""
    x, indices = node.inputs
    assert x is not None
    assert indices is not None
    dims, places = list(known_dims(x) or ()), list(known_dims(indices) or ())
    axis = _axis_of(node, len(dims))
    order = [axis, *(i for i in range(len(dims)) if i != axis)]
    made: list[ir.Node] = []
    if axis:
        x = _emit(node, made, "Transpose", [x], [dims[i] for i in order], _STRING, perm=order)
    if indices.dtype != _INT64:
        indices = _emit(node, made, "Cast", [indices], places, _INT64, to=int(_INT64))
    last = register_initializer(graph, f"{node.outputs[0].name}.last", ir.tensor(np.array([-1], np.int64)))
    index = _emit(node, made, "Unsqueeze", [indices, last], [*places, 1], _INT64)
    rest = [dims[i] for i in order[1:]]
    out = _emit(node, made, "GatherND", [x, index], [*places, *rest], _STRING)
    if axis and places:
        count = len(places)
        perm = [*range(count, count + axis), *range(count), *range(count + axis, count + len(rest))]
        out = _emit(node, made, "Transpose", [out], [*rest[:axis], *places, *rest[axis:]], _STRING, perm=perm)
    (y,) = node.outputs
    name = y.name
    graph.insert_before(node, made)
    ir.convenience.replace_all_uses_with(y, out, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    out.name = name


def _emit(
    node: ir.Node,
    made: list[ir.Node],
    operator: str,
    inputs: Sequence[ir.Value | None],
    shape: Sequence[Dim],
    dtype: ir.DataType,
    **attributes: int | list[int],
) -> ir.Value:
    """Insert a node before `node`, after those in `made`; return its result, of this shape and dtype."""
    name = f"{node.outputs[0].name}.{operator}.{len(made)}"
    step = ir.node(operator, inputs, attributes, num_outputs=1, name=name)
    step.metadata_props.update(node.metadata_props)
    made.append(step)
    out = step.outputs[0]
    out.name, out.dtype, out.shape = name, dtype, ir.Shape(shape)
    return out
