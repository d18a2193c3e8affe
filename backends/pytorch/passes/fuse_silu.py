"""x · sigmoid(x), as Keras and most exporters write swish, as the one operator that PyTorch has for it."""

from __future__ import annotations

import onnx_ir as ir


def fuse_silu(model: ir.Model) -> bool:
    """Mul of a value and its Sigmoid that nothing else reads becomes Swish. Whether anything changed."""
    modified = False
    for graph in model.graphs():
        for node in list(graph):
            if node.op_type == "Mul" and node.domain in ("", "ai.onnx"):
                modified |= _fuse(graph, node)
    return modified


def _fuse(graph: ir.Graph, mul: ir.Node) -> bool:
    for x, gate in (tuple(mul.inputs), tuple(reversed(mul.inputs))):
        sigmoid = None if gate is None else gate.producer()
        if sigmoid is None or sigmoid.op_type != "Sigmoid" or sigmoid.domain not in ("", "ai.onnx"):
            continue
        assert gate is not None
        if x is None or sigmoid.inputs[0] is not x or len(gate.uses()) != 1 or gate.is_graph_output():
            continue
        if sigmoid.graph is not graph:
            continue
        swish = ir.Node("", "Swish", [x], num_outputs=1, name=mul.name)
        swish.metadata_props.update(mul.metadata_props)
        made, old = swish.outputs[0], mul.outputs[0]
        made.name, made.type, made.shape = old.name, old.type, old.shape
        ir.convenience.replace_nodes_and_values(graph, mul, [mul], [swish], [old], [made])
        graph.remove(sigmoid, safe=True)
        return True
    return False
