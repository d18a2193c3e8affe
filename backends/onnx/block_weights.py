"""Stores the weights of matrix products in 4 or 8 bits, by blocks (MatMulNBits), with onnxruntime's own kernel.

Each weight is read when it is quantized and released afterwards, so that only the result is kept in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import UsageError
from convert.graph import register_initializer
from convert.graph.tensors import contiguous_array, dims_of, transposed_tensor
from convert.graph.values import constant, rank
from convert.runtimes.onnx import import_onnxruntime

from .lower import drop_unused_weights

_DOMAIN = "com.microsoft"


@dataclass(frozen=True)
class Blocks:
    """How weights are stored in `bits`, 4 or 8: blocks of `size` with a scale, and a zero point if `zero_points`.

    accuracy_level: the attribute of MatMulNBits; 4 lets onnxruntime round the activations to 8 bits in such blocks.
    """

    bits: int = 4
    size: int = 32
    zero_points: bool = False
    accuracy_level: int = 0


def quantize_products(model: ir.Model, blocks: Blocks) -> None:
    """Replace each product with a constant matrix by MatMulNBits, in place. Dense layers (Gemm) are products too.

    Raises `UsageError` if there is none, and `ConvertError` if onnxruntime is not installed.
    """
    _write_gemms_as_products(model)
    stored: dict[ir.Value, list[ir.Value]] = {}
    for node in [n for n in model.graph.all_nodes() if n.op_type == "MatMul" and not n.domain]:
        x, weight = node.inputs
        tensor = constant(weight)
        if x is None or weight is None or tensor is None or rank(weight) != 2:
            continue
        if weight not in stored:
            stored[weight] = _stored(model.graph, str(weight.name), tensor, blocks)
        _replace(node, [x, *stored[weight]], dims_of(tensor), blocks)
    if not stored:
        raise UsageError("the model has no weights that --quantize stores in blocks", hint="leave it out")
    model.graph.opset_imports.setdefault(_DOMAIN, 1)
    drop_unused_weights(model)


def _stored(graph: ir.Graph, name: str, tensor: ir.TensorProtocol, blocks: Blocks) -> list[ir.Value]:
    """Add a weight [inputs, outputs] to `graph` as integers, scales and zero points; return these initializers."""
    import_onnxruntime()
    from onnxruntime.capi import _pybind_state

    numbers = contiguous_array(tensor.numpy())
    inputs, outputs = numbers.shape
    count = math.ceil(inputs / blocks.size)
    if inputs % blocks.size:
        numbers = np.pad(numbers, ((0, count * blocks.size - inputs), (0, 0)))
    packed = np.zeros((outputs, count, blocks.size * blocks.bits // 8), np.uint8)
    scales = np.zeros((outputs, count), numbers.dtype)
    zeros = np.zeros((outputs, math.ceil(count * blocks.bits / 8)), np.uint8)
    quantize = {4: _pybind_state.quantize_matmul_4bits, 8: _pybind_state.quantize_matmul_8bits}[blocks.bits]
    quantize(packed, numbers, scales, zeros, blocks.size, outputs, inputs, not blocks.zero_points)
    found = {f"Q{blocks.bits}": packed, "scales": scales, **({"zero_points": zeros} if blocks.zero_points else {})}
    return [register_initializer(graph, f"{name}_{part}", ir.tensor(array)) for part, array in found.items()]


def _replace(node: ir.Node, inputs: list[ir.Value], dims: Sequence[int], blocks: Blocks) -> None:
    """Put a MatMulNBits in the place of a product whose weight has `dims`."""
    numbers = {"K": dims[0], "N": dims[1], "bits": blocks.bits, "block_size": blocks.size}
    if blocks.accuracy_level:  # runtimes without the attribute read files without it
        numbers["accuracy_level"] = blocks.accuracy_level
    attributes = [ir.AttrInt64(name, number) for name, number in numbers.items()]
    made = ir.Node(_DOMAIN, "MatMulNBits", inputs, attributes, num_outputs=1, name=node.name)
    made.metadata_props.update(node.metadata_props)
    old, new = node.outputs[0], made.outputs[0]
    name, new.type, new.shape = old.name, old.type, old.shape
    assert node.graph is not None
    node.graph.insert_before(node, [made])
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)
    new.name = name


def _write_gemms_as_products(model: ir.Model) -> None:
    """Rewrite each dense layer as MatMul and Add, because the operator with blocks replaces a MatMul."""
    for node in [n for n in model.graph if n.op_type == "Gemm" and n.domain == ""]:
        weight, numbers = constant(node.inputs[1]), node.attributes
        plain = numbers.get_float("alpha", 1.0) == 1 and numbers.get_float("beta", 1.0) == 1
        if weight is None or not plain or numbers.get_int("transA"):
            continue
        x, w, y, bias = node.inputs[0], node.inputs[1], node.outputs[0], [*node.inputs, None][2]
        if numbers.get_int("transB"):
            turned = transposed_tensor(weight, (1, 0))
            w = register_initializer(model.graph, f"{w.name}.transposed", turned)  # type: ignore[union-attr]
        product = ir.Node("", "MatMul", [x, w], num_outputs=1, name=f"{node.name}.product")
        last = product if bias is None else ir.Node("", "Add", [product.outputs[0], bias], num_outputs=1)
        last.name = node.name if bias is not None else product.name
        for made in (product, last):
            made.outputs[0].name, made.outputs[0].type = f"{y.name}.product", y.type
            made.outputs[0].shape = y.shape
            made.metadata_props.update(node.metadata_props)
        model.graph.insert_before(node, [product] if bias is None else [product, last])
        name = y.name
        ir.convenience.replace_all_uses_with(y, last.outputs[0], replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
        last.outputs[0].name = name
