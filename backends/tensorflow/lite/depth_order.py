"""Orders the channels before DepthToSpace as TensorFlow Lite's DEPTH_TO_SPACE wants them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.metadata import CHANNELS_LAST
from convert.graph.values import constant, nodes_of

_ANY_ORDER = ("Clip", "Elu", "Gelu", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh")
"""Operators that compute each number on its own."""


def order_depths(model: ir.Model) -> bool:
    """Change each DepthToSpace of mode CRD (PyTorch's pixel_shuffle) behind a convolution to mode DCR, and order the
    weights of the convolution accordingly. Return whether there was one.

    DEPTH_TO_SPACE has mode DCR alone. Otherwise a TRANSPOSE of six dims is needed, which takes longer than a small
    convolution.
    """
    modified = False
    for node in [n for n in nodes_of(model.graph) if n.op_type == "DepthToSpace" and n.domain in ("", CHANNELS_LAST)]:
        conv = _convolution_before(node)
        if node.attributes.get_string("mode", "DCR") != "CRD" or conv is None:
            continue
        block = node.attributes.get_int("blocksize", 1)
        for place, value in list(enumerate(conv.inputs))[1:]:
            content = constant(value)
            if value is None or content is None:
                continue
            array = content.numpy()
            depths = array.reshape(-1, block * block, *array.shape[1:])
            ordered = np.ascontiguousarray(np.swapaxes(depths, 0, 1)).reshape(array.shape)
            name = f"{value.name}_{node.outputs[0].name}"
            assert conv.graph is not None
            conv.replace_input_with(place, register_initializer(conv.graph, name, ir.tensor(ordered, name=name)))
        node.attributes["mode"] = ir.AttrString("mode", "DCR")
        modified = True
    return modified


def _convolution_before(node: ir.Node) -> ir.Node | None:
    """Return the Conv with constant weights that alone computes the input of a node, across elementwise operators."""
    while True:
        value = node.inputs[0]
        maker = None if value is None else value.producer()
        if value is None or maker is None or len(value.uses()) > 1 or value.is_graph_output():
            return None
        if maker.op_type == "Conv" and maker.domain in ("", CHANNELS_LAST):
            known = all(v is None or constant(v) is not None for v in maker.inputs[1:])
            return maker if known and maker.attributes.get_int("group", 1) == 1 else None
        scalars = all(v is None or (v.shape is not None and not len(v.shape)) for v in maker.inputs[1:])
        if maker.op_type not in _ANY_ORDER or maker.domain or not scalars:
            return None
        node = maker
