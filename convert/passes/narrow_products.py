"""Narrows float64 products to float32, for formats without float64 products.

Only products that a reader marked are narrowed: they are float64 because the kernel of a runtime computes so.
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
    for node in list(model.graph.all_nodes()):
        if node.op_type == "Gemm" and WIDER_KEY in node.metadata_props:
            modified |= _narrow(model, node)
    return modified


def _narrow(model: ir.Model, node: ir.Node) -> bool:
    x, *others = node.inputs
    maker = None if x is None else x.producer()
    result, users = node.outputs[0], [user for user, _ in node.outputs[0].uses()]
    if maker is None or maker.op_type != "Cast" or any(v is not None and v.const_value is None for v in others):
        return False
    before = maker.inputs[0]
    to_float = all(u.op_type == "Cast" and u.outputs[0].dtype == ir.DataType.FLOAT for u in users)
    if before is None or before.dtype != ir.DataType.FLOAT or not to_float or result.is_graph_output():
        return False
    node.replace_input_with(0, before)
    for i, value in enumerate(others, 1):
        if value is not None and value.const_value is not None:
            content = ir.tensor(value.const_value.numpy().astype(np.float32))
            node.replace_input_with(i, register_initializer(model.graph, f"{value.name}_float", content))
    result.type = ir.TensorType(ir.DataType.FLOAT)
    del node.metadata_props[WIDER_KEY]
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
