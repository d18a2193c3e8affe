"""Turns products with a constant matrix, and the bias added to them, into linear layers with weights [out, in]."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.tensors import transposed_tensor
from convert.graph.values import constant

from ..rules import OWN


def fuse_linear(model: ir.Model) -> bool:
    """Fuse MatMul by a constant matrix that has no other reader, Add of a constant vector, and Gemm.

    Returns whether anything changed.
    """
    modified = False
    for node in list(model.graph):
        if node.domain not in ("", "ai.onnx") or node.graph is None:
            continue
        if node.op_type == "MatMul":
            modified |= _matmul(model, node)
        elif node.op_type == "Gemm":
            modified |= _gemm(model, node)
    if modified:
        model.graph.opset_imports.setdefault(OWN, 1)
    return modified


def _matmul(model: ir.Model, node: ir.Node) -> bool:
    x, weight = node.inputs
    if not _is_own_matrix(weight) or x is None or x.shape is None or len(x.shape) < 1 or constant(x) is not None:
        return False
    assert weight is not None
    assert weight.const_value is not None
    width = weight.const_value.numpy().shape[1]
    add, bias = _bias_after(node.outputs[0], width)
    _replace(model, node, add, [x, _transposed(model, weight), *([bias] if bias is not None else [])])
    return True


def _gemm(model: ir.Model, node: ir.Node) -> bool:
    attributes = {name: a.value for name, a in node.attributes.items()}
    plain = attributes.get("alpha", 1.0) == 1 and attributes.get("beta", 1.0) == 1 and not attributes.get("transA", 0)
    x, weight, *rest = node.inputs
    bias = rest[0] if rest else None
    if not plain or x is None or not _is_own_matrix(weight) or constant(x) is not None:
        return False
    assert weight is not None
    if bias is not None and (constant(bias) is None or bias.shape is None or len(bias.shape) != 1):
        return False
    width = weight.const_value.shape[0 if attributes.get("transB", 0) else 1]  # type: ignore[union-attr]
    if bias is not None and bias.shape is not None and bias.shape[0] != width:
        return False
    turned = weight if attributes.get("transB", 0) else _transposed(model, weight)
    _replace(model, node, None, [x, turned, *([bias] if bias is not None else [])])
    return True


def _is_own_matrix(value: ir.Value | None) -> bool:
    """Return whether a value is a constant floating-point matrix that a single node reads."""
    found = value is not None and value.is_initializer() and constant(value) is not None and len(value.uses()) == 1
    if not found:
        return False
    assert value is not None
    assert value.const_value is not None
    floating = value.const_value.dtype.is_floating_point()
    return len(value.const_value.shape) == 2 and floating and not value.is_graph_output()


def _bias_after(product: ir.Value, width: int) -> tuple[ir.Node | None, ir.Value | None]:
    """Return the Add of a constant vector that is the only reader of a product, and the vector."""
    uses = list(product.uses())
    if len(uses) != 1 or product.is_graph_output():
        return None, None
    add = uses[0].node
    if add.op_type != "Add" or add.domain not in ("", "ai.onnx") or add.graph is not product.producer().graph:  # type: ignore[union-attr]
        return None, None
    other = add.inputs[1] if add.inputs[0] is product else add.inputs[0]
    if other is None or constant(other) is None or other.shape is None or list(other.shape) != [width]:
        return None, None
    return add, other


def _transposed(model: ir.Model, weight: ir.Value) -> ir.Value:
    """Return the initializer transposed, under the same name."""
    assert weight.const_value is not None
    weight.const_value = transposed_tensor(weight.const_value, (1, 0))
    weight.shape = ir.Shape([weight.const_value.shape[0], weight.const_value.shape[1]])
    return weight


def _replace(model: ir.Model, node: ir.Node, add: ir.Node | None, inputs: list[ir.Value]) -> None:
    linear = ir.Node(OWN, "Linear", inputs, num_outputs=1, name=node.name)
    linear.metadata_props.update(node.metadata_props)
    last = add or node
    made, old = linear.outputs[0], last.outputs[0]
    made.name, made.type, made.shape = old.name, old.type, old.shape
    ir.convenience.replace_nodes_and_values(model.graph, last, [last], [linear], [old], [made])
    if add is not None:
        model.graph.remove(node, safe=True)
