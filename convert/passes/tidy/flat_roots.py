"""Gives the square root of a variance a zero gradient where the variance is zero, as PyTorch's `std` does."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph.metadata import OPERATOR_KEY
from convert.graph.model_names import ModelNames

_SPREADS = ("std", "std_mean")


def flatten_roots(model: ir.Model) -> bool:
    """Rewrite √v of a standard deviation as `where(v == 0, 0, √v)`; return whether there was one.

    The result is the same. With plain √v, the gradient of a row of equal numbers is NaN: it is infinity, the slope of
    √v at zero, times the distance from the mean, which is zero. Used for targets that can be trained.
    """
    found = [node for node in model.graph.all_nodes() if node.op_type == "Sqrt" and not node.domain]
    roots = [node for node in found if node.metadata_props.get(OPERATOR_KEY, "").split(".")[0] in _SPREADS]
    if not roots:
        return False
    names = ModelNames(model.graph)
    for root in roots:
        _flatten(root, names)
    return True


def _flatten(root: ir.Node, names: ModelNames) -> None:
    x, graph, dtype = root.inputs[0], root.graph, root.outputs[0].dtype
    assert x is not None
    assert graph is not None
    assert dtype is not None
    numbers = [ir.node("Constant", [], {"value": ir.tensor(np.array(n, dtype.numpy()))}) for n in (0, 1)]
    zero, one = (node.outputs[0] for node in numbers)
    nothing = ir.node("Equal", [x, zero])
    other = ir.node("Where", [nothing.outputs[0], one, x])
    rooted = ir.node("Sqrt", [other.outputs[0]])
    result = ir.node("Where", [nothing.outputs[0], zero, rooted.outputs[0]])
    made = [*numbers, nothing, other, rooted, result]
    for node in made:
        node.metadata_props.update({k: v for k, v in root.metadata_props.items() if k != OPERATOR_KEY})
        node.name = names.unique(f"{root.name or root.outputs[0].name}_{node.op_type}")
        y = node.outputs[0]
        y.type = ir.TensorType(ir.DataType.BOOL if node is nothing else dtype)
        y.shape = ir.Shape([]) if node in numbers else x.shape
        y.name = names.unique(f"{root.outputs[0].name}_{node.op_type}")
    old, new = root.outputs[0], result.outputs[0]
    new.name = old.name
    graph.insert_before(root, made)
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    graph.remove(root, safe=True)
