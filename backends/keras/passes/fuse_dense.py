"""Fuses a product with a constant matrix and a bias into one node, which becomes a Dense layer."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.values import dims

from ..rules import OWN
from .match_heads import is_constant


def fuse_dense(model: ir.Model) -> bool:
    """Fuse MatMul by a constant matrix and Add of a constant vector. Return whether anything changed."""
    modified = False
    for node in list(model.graph):
        if node.op_type == "Add" and node.domain == "":
            modified |= _fuse(model, node)
    return modified


def _fuse(model: ir.Model, add: ir.Node) -> bool:
    for product, bias in (add.inputs, tuple(reversed(add.inputs))):
        matmul = product.producer() if product is not None else None
        if product is None or matmul is None or matmul.op_type != "MatMul" or matmul.domain or bias is None:
            continue
        x, weight = matmul.inputs
        if len(product.uses()) != 1 or product.is_graph_output() or x is None or x.const_value is not None:
            continue
        if x.dtype is None or not x.dtype.is_floating_point():  # a layer computes in floats
            continue
        if not (_is_constant(weight, 2) and _is_constant(bias, 1)) or x.shape is None or len(x.shape) < 2:
            continue
        assert weight is not None
        assert weight.shape is not None
        if list(bias.shape or ()) != [weight.shape[1]]:
            continue
        dense = ir.Node(OWN, "Dense", [x, weight, bias], num_outputs=1, name=matmul.name)
        dense.metadata_props.update(matmul.metadata_props)
        made, old = dense.outputs[0], add.outputs[0]
        made.name, made.type, made.shape = old.name, old.type, old.shape
        ir.convenience.replace_nodes_and_values(model.graph, add, [add], [dense], [old], [made])
        model.graph.remove(matmul, safe=True)
        model.graph.opset_imports.setdefault(OWN, 1)
        return True
    return False


def _is_constant(value: ir.Value | None, rank: int) -> bool:
    return value is not None and is_constant(value) and len(dims(value)) == rank
