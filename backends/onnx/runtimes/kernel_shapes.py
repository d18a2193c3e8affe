"""Writes `kernel_shape` explicitly: some readers of ONNX need it, although the standard infers it from the weight."""

from __future__ import annotations

import onnx_ir as ir

_WEIGHT = {"Conv": 1, "ConvTranspose": 1, "ConvInteger": 1, "DeformConv": 1, "QLinearConv": 3}
"""Index of a convolution's weight, [m,c,*kernel], among its inputs; pools always have the attribute."""


def write_kernel_shapes(model: ir.Model) -> bool:
    """Give every convolution its `kernel_shape` if the weight's sizes are known. Return whether anything changed."""
    modified = False
    for node in model.graph.all_nodes():
        place = _WEIGHT.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if place is None or "kernel_shape" in node.attributes or len(node.inputs) <= place:
            continue
        weight = node.inputs[place]
        dims = [] if weight is None or weight.shape is None else list(weight.shape)[2:]
        sizes = [size for size in dims if isinstance(size, int)]
        if sizes and len(sizes) == len(dims):
            node.attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", sizes)
            modified = True
    return modified
