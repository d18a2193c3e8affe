"""Forms that TensorFlow's converter to TensorFlow Lite fuses wrongly, written otherwise."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.values import nodes_of


def give_transposed_convolutions_a_bias(model: ir.Model) -> bool:
    """A bias of zeros for transposed convolutions that have none; whether there is any.

    The converter takes what is added to the result for the bias, a single number too: TRANSPOSE_CONV, which looks for
    one for each channel, then fails or reads what lies behind it. Zeros of one sign it would take away.
    """
    modified = False
    for node in [n for n in nodes_of(model.graph) if n.op_type == "ConvTranspose"]:
        weight = node.inputs[1]
        pads = node.attributes.get_ints("pads") or ()
        alone = len(node.inputs) < 3 or node.inputs[2] is None
        if not alone or any(pads) or node.attributes.get_int("group", 1) != 1 or weight is None or node.graph is None:
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
