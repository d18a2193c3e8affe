"""Channels-first forms of dense layers and of layer norms over the channels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.model_names import ModelNames
from convert.graph.tensors import lazy_tensor
from convert.graph.values import constant, dims, is_used, rank
from convert.legalize.plain_forms import normalize
from convert.passes.layout.model import LayoutForm, Move, Rule, Side, free_sides
from convert.passes.layout.rules import trailing_norm

CHANNELS_FIRST = "convert.channels_first"
"""Domain of MatMul and LayerNormalization over dim 1, only within the layout pass: see `lower_channels_first`."""

# Price of the channels-first form, in transposes of the output. onnxruntime takes the same time for ConvNeXt blocks
# with and without transposes: a convolution with a kernel of one element is slightly faster than MatMul and Add, a
# written-out layer norm slightly slower than one between transposes. So a layer norm costs one transpose, and a dense
# layer only breaks ties.
_DENSE, _NORM = 1 / 64, 1 + 1 / 64

# onnxruntime has no convolutions in other dtypes.
_CONVOLVED = {ir.DataType.FLOAT, ir.DataType.FLOAT16}


def dense(node: ir.Node, move: Move) -> LayoutForm | None:
    """Return the form of a MatMul with a constant matrix: a convolution with a kernel of one element."""
    matrix, full = constant(node.inputs[1]), rank(node.outputs[0])
    if matrix is None or len(matrix.shape) != 2 or full is None or rank(node.inputs[0]) != full:
        return None
    if node.outputs[0].dtype not in _CONVOLVED:
        return None
    return LayoutForm(free_sides(node, 0), (Side.FREE,), moved_domain=CHANNELS_FIRST, moved_price=_DENSE)


def layer_norm(node: ir.Node, move: Move) -> LayoutForm | None:
    """Return the form of a LayerNormalization: kept if its dims stay last, written out if it normalizes over the
    channels.
    """
    full = rank(node.outputs[0])
    kept = trailing_norm(node, move)
    if kept is not None or full is None or any(is_used(x) for x in node.outputs[1:]):
        return kept
    given = [constant(x) for x in node.inputs[1:] if x is not None]
    if node.attributes.get_int("axis", -1) % full != full - 1 or any(c is None or len(c.shape) != 1 for c in given):
        return None
    outputs = (Side.FREE,) + (Side.AS_IS,) * (len(node.outputs) - 1)
    return LayoutForm(free_sides(node, 0), outputs, moved_domain=CHANNELS_FIRST, moved_price=_NORM)


DENSE: dict[str, Rule] = {"LayerNormalization": layer_norm, "MatMul": dense}
"""Operators over the last dim that have a form over dim 1."""


def lower_channels_first(model: ir.Model, names: ModelNames) -> None:
    """Replace the nodes of domain `CHANNELS_FIRST` by ONNX operators that compute them."""
    taken = dict.fromkeys(names.taken, 0)
    for node in [n for n in model.graph.all_nodes() if n.domain == CHANNELS_FIRST]:
        g = Graph(opset=model.opset_imports.get("", 23))
        g.reserve(taken)
        last, y = _WRITTEN[node.op_type](g, node)
        _replace_node(model, g, node, last, y)


def _convolution(g: Graph, node: ir.Node) -> tuple[ir.Node, ir.Value]:
    x, matrix = node.inputs
    tensor = constant(matrix)
    assert x is not None
    assert matrix is not None
    assert tensor is not None
    inner, outer = tensor.shape.numpy()
    shape = [outer, inner] + [1] * (len(dims(x)) - 2)
    turned = lazy_tensor(tensor.dtype, shape, lambda: tensor.numpy().T.reshape(shape))
    add, bias = _bias_add(node, outer)
    y = g.Conv(x, g.initializer(g.unique(f"{matrix.name}_kernel"), turned), bias)
    return add or node, y


def _bias_add(node: ir.Node, channels: int) -> tuple[ir.Node | None, np.ndarray | None]:
    """Return the Add of a constant per channel that is the only consumer of `node`, and the constant; else two None."""
    y = node.outputs[0]
    uses = list(y.uses())
    add = uses[0].node if len(uses) == 1 else None
    if add is None or add.op_type != "Add" or add.domain or add.graph is not node.graph or y.is_graph_output():
        return None, None
    tensor = constant(add.inputs[1 - uses[0].idx])
    shape = [] if tensor is None else list(tensor.shape.numpy())
    by_channel = [channels] + [1] * (len(dims(y)) - 2)
    if tensor is None or shape not in (by_channel, [1, *by_channel]):
        return None, None
    return add, tensor.numpy().reshape(channels)


def _split_layer_norm(g: Graph, node: ir.Node) -> tuple[ir.Node, ir.Value]:
    x = node.inputs[0]
    assert x is not None
    y, _, _ = normalize(g, node, x, np.array([1]))
    y = y if g.dtype(y) == g.dtype(x) else g.Cast(y, to=g.dtype(x))
    for operator, parameter in zip((g.Mul, g.Add), node.inputs[1:], strict=False):
        tensor = constant(parameter)
        if tensor is not None:
            y = operator(y, tensor.numpy().reshape(-1, *[1] * (len(dims(x)) - 2)))
    return node, y


_WRITTEN: dict[str, Callable[[Graph, ir.Node], tuple[ir.Node, ir.Value]]] = {
    "LayerNormalization": _split_layer_norm,
    "MatMul": _convolution,
}
"""Builders by operator. Each returns the node whose output is replaced, and the new output."""


def _replace_node(model: ir.Model, g: Graph, node: ir.Node, last: ir.Node, y: ir.Value) -> None:
    """Replace `node`, and `last` if that is another node, by the nodes of `g`."""
    graph, old = node.graph, last.outputs[0]
    assert graph is not None
    nodes, values = list(g.graph), list(g.graph.initializers.values())
    g.graph.remove(nodes)
    for value in values:
        g.graph.initializers.pop(value.name or "")
        model.graph.register_initializer(value)
    for new in nodes:
        new.metadata_props.update({**node.metadata_props, **last.metadata_props})
    maker = y.producer()
    assert maker is not None
    maker.name = last.name
    graph.insert_before(node, nodes)
    y.type, y.shape = old.type, old.shape
    old.replace_all_uses_with(y, replace_graph_outputs=True)
    y.name, old.name = old.name, None
    graph.remove([last] if last is node else [last, node], safe=True)
