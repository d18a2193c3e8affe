"""Rewrites a Sigmoid at the end of a model so that small probabilities keep their digits in onnxruntime.

Its kernel (MLAS, a quotient of polynomials plus a half) has an absolute error of 1.7e-7: a probability of 1e-3 has four
correct digits, one of 1e-7 none. 1 / (1 + exp(−x)) by its other kernels is correct to two roundings.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer

# Operators that pass on elements of their input, or means or logarithms of them, so that small values still matter.
_HANDING_ON = frozenset(
    {"Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "Concat", "Split", "Slice", "Expand"}
    | {"Gather", "GatherElements", "GatherND", "TopK", "ReduceMean", "ReduceMax", "ReduceMin", "Log", "Clip"}
)


def exact_probabilities(model: ir.Model) -> bool:
    """Rewrite each float32 Sigmoid that model outputs depend on as Neg, Exp, Add, Reciprocal.

    Gates inside a network are not changed, because the absolute error matters there. Returns whether anything changed.
    """
    found = [n for n in model.graph if n.op_type == "Sigmoid" and n.domain == "" and _is_probability(n)]
    for node in found:
        _expand_sigmoid(model.graph, node)
    return bool(found)


def _is_probability(node: ir.Node) -> bool:
    if node.outputs[0].dtype != ir.DataType.FLOAT:
        return False
    pending, seen = [node.outputs[0]], set()
    while pending:
        value = pending.pop()
        if value.is_graph_output():
            return True
        for user in value.consumers():
            if user not in seen and user.domain == "" and user.op_type in _HANDING_ON:
                seen.add(user)
                pending += user.outputs
    return False


def _expand_sigmoid(graph: ir.Graph, node: ir.Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    assert y.dtype is not None
    one = register_initializer(graph, f"{y.name}.one", ir.tensor(np.array(1, np.float32)))
    made: list[ir.Node] = []
    for operator, further in (("Neg", []), ("Exp", []), ("Add", [one]), ("Reciprocal", [])):
        step = ir.Node("", operator, [x, *further], num_outputs=1, name=f"{node.name}.{operator}")
        step.metadata_props.update(node.metadata_props)
        x = step.outputs[0]
        x.name, x.dtype, x.shape = f"{y.name}.{operator}", y.dtype, y.shape
        made.append(step)
    name = y.name
    graph.insert_before(node, made)
    ir.convenience.replace_all_uses_with(y, step.outputs[0], replace_graph_outputs=True)
    graph.remove(node, safe=True)
    step.outputs[0].name = name
