"""Writes a Pad of some dims as one of all dims, because onnxruntime's optimizer moves a Transpose through it.

The optimizer permutes `pads` as if they were for all dims, even if `axes` says otherwise (onnxruntime 1.32), and the
file does not load. So pads are given for all dims if the rank is known.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.values import constant

from .all_dims import picked_before


def full_pads(model: ir.Model) -> bool:
    """Give every Pad of a model with a Transpose pads for all dims. Return whether anything changed."""
    nodes = [n for n in model.graph.all_nodes() if not n.domain]
    if not any(n.op_type == "Transpose" for n in nodes):
        return False
    found = [n for n in nodes if n.op_type == "Pad" and len(n.inputs) > 3 and n.inputs[3] is not None]
    changed = [_widen(n) for n in found]
    return any(changed)


def _widen(node: ir.Node) -> bool:
    x, pads, _, axes = node.inputs[:4]
    known, graph = constant(axes), node.graph
    if known is None or pads is None or x is None or x.shape is None or not isinstance(graph, ir.Graph):
        return False
    rank, places = len(x.shape), [int(a) for a in np.ravel(known.numpy())]
    places = [a % rank for a in places]
    given = [places.index(a) if a in places else -1 for a in range(rank)]
    order = [*given, *(i if i < 0 else i + len(places) for i in given)]
    name = f"{node.outputs[0].name}_pads_of_all_dims"
    if (content := constant(pads)) is not None:
        full = np.append(content.numpy(), 0)[order]
        wide = register_initializer(graph, name, ir.tensor(full))
    else:
        zero = register_initializer(graph, f"{name}_zero", ir.tensor(np.zeros(1, np.int64)))
        wide = picked_before(node, pads, zero, order, name)
    node.replace_input_with(1, wide)
    node.resize_inputs(3)
    return True
