"""Narrows float64 products and Fourier transforms to float32, for formats without float64 products.

Only those that a reader marked are narrowed: they are float64 because the kernel of a runtime computes so, or because
it would lose digits.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.metadata import WIDER_KEY


def narrow_products(model: ir.Model) -> bool:
    """Rewrite each marked Gemm by constants between Casts from and to float32; return whether there was any.

    A product that is float64 in the source itself stays.
    """
    modified = False
    for node in _marked(model, "Gemm"):
        if all(v is None or v.const_value is not None for v in node.inputs[1:]) and _narrow(node, node):
            for i, value in enumerate(node.inputs[1:], 1):
                if value is not None and value.const_value is not None:
                    content = ir.tensor(value.const_value.numpy().astype(np.float32))
                    node.replace_input_with(i, register_initializer(model.graph, f"{value.name}_float", content))
            del node.metadata_props[WIDER_KEY]
            modified = True
    return modified


def narrow_transforms(model: ir.Model) -> bool:
    """Rewrite each marked DFT between Casts from and to float32; return whether there was any.

    A DFT is written out as products with matrices, whose elements are correctly rounded, so float32 keeps its digits.
    """
    modified = False
    for node in _marked(model, "DFT"):
        x, users = node.inputs[0], [user for user, _ in node.outputs[0].uses()]
        before = None if x is None else x.producer()
        unsqueezed = x is not None and before is not None and before.op_type == "Unsqueeze" and len(x.uses()) == 1
        first = before if before is not None and unsqueezed else node
        last = users[0] if len(users) == 1 and users[0].op_type == "Squeeze" else node
        if not node.outputs[0].is_graph_output() and _narrow(first, last):
            for inner in (first, node):
                inner.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
            del node.metadata_props[WIDER_KEY]
            modified = True
    return modified


def _marked(model: ir.Model, operator: str) -> list[ir.Node]:
    return [n for n in model.graph.all_nodes() if n.op_type == operator and WIDER_KEY in n.metadata_props]


def _narrow(first: ir.Node, last: ir.Node) -> bool:
    """Remove the Cast from float32 before `first`, and those to float32 after `last`; return whether there are any."""
    x = first.inputs[0]
    maker = None if x is None else x.producer()
    result, users = last.outputs[0], [user for user, _ in last.outputs[0].uses()]
    before = maker.inputs[0] if maker is not None and maker.op_type == "Cast" else None
    to_float = all(u.op_type == "Cast" and u.outputs[0].dtype == ir.DataType.FLOAT for u in users)
    if maker is None or before is None or before.dtype != ir.DataType.FLOAT:
        return False
    if not to_float or result.is_graph_output():
        return False
    first.replace_input_with(0, before)
    result.type = ir.TensorType(ir.DataType.FLOAT)
    for user in users:
        if user.outputs[0].is_graph_output():
            continue  # this Cast now has equal input and output dtypes
        user.outputs[0].replace_all_uses_with(result)
        assert user.graph is not None
        user.graph.remove(user, safe=True)
    if not maker.outputs[0].uses():
        assert maker.graph is not None
        maker.graph.remove(maker, safe=True)
    return True
