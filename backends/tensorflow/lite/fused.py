"""Rewrites operators that TensorFlow's converter to TensorFlow Lite would fuse wrongly."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.values import nodes_of
from convert.semantics.windows import Window


def give_transposed_convolutions_a_bias(model: ir.Model) -> bool:
    """Add a bias of zeros to each transposed convolution without a bias; return whether there was one.

    The converter takes any term added to the result for the bias, even a single number. TRANSPOSE_CONV expects one
    number per channel, so it fails or reads past the end. Zeros that are all of one sign would be removed by the
    converter.
    """
    modified = False
    for node in [n for n in nodes_of(model.graph) if n.op_type == "ConvTranspose"]:
        weight = node.inputs[1]
        alone = len(node.inputs) < 3 or node.inputs[2] is None
        if (
            not alone
            or _is_cropped(node)
            or node.attributes.get_int("group", 1) != 1
            or weight is None
            or node.graph is None
        ):
            continue
        if weight.shape is None or not isinstance(weight.shape[1], int) or weight.dtype != ir.DataType.FLOAT:
            continue
        name = f"{node.outputs[0].name}_zeros"
        zeros = np.zeros(weight.shape[1], np.float32)
        zeros[1::2] = -0.0
        node.resize_inputs(3)
        node.replace_input_with(2, register_initializer(node.graph, name, ir.tensor(zeros, name=name)))
        modified = True
    return modified


def _is_cropped(node: ir.Node) -> bool:
    """Return whether an operator removes the pads of a transposed convolution, behind which no bias is fused."""
    a, weight = node.attributes, node.inputs[1]
    pads = a.get_ints("pads") or ()
    if not any(pads) or weight is None or weight.shape is None:
        return bool(any(pads))
    kernel = [d if isinstance(d, int) else str(d) for d in weight.shape][2:]
    window = Window.of(kernel, a.get_ints("strides"), a.get_ints("dilations"), pads)
    return not window.is_transposed_same(a.get_ints("output_padding") or [0] * window.rank)
