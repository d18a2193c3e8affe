"""Removes repeated axes of reductions: onnxruntime accepts an axis twice, other runtimes do not."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.values import constant_integers, known_dims


def name_axes_once(model: ir.Model) -> bool:
    """Remove repeated entries from the constant axes of reductions; return whether anything changed."""
    modified = False
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        reduction = node.op_type.startswith("Reduce") and not node.domain and len(node.inputs) == 2
        axes = constant_integers(node.inputs[1]) if reduction and node.inputs[1] is not None else None
        if not axes or len(axes) == 1:
            continue
        dims = None if node.inputs[0] is None else known_dims(node.inputs[0])
        distinct = {a if dims is None else a % max(len(dims), 1): a for a in reversed(axes)}
        if len(distinct) < len(axes):
            kept = np.array([a for a in dict.fromkeys(axes) if a in distinct.values()], np.int64)
            node.replace_input_with(1, register_initializer(model.graph, "axes", ir.tensor(kept)))
            modified = True
    return modified
