"""Folds inference-mode BatchNormalization into the preceding convolution or dense layer."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.tensors import dims_of, lazy_tensor
from convert.graph.values import is_used

# The axis of the weight that holds the output channels (of a Gemm: axis 0 if transB is set).
_CHANNEL_AXIS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}


def fold_batch_norms(model: ir.Model) -> bool:
    """Merge each Conv, ConvTranspose, Gemm or MatMul with the constant BatchNormalization that is its only consumer.

    With s = scale / sqrt(var + epsilon): W' = s·W along the output channels and b' = s·(b − mean) + bias (ONNX
    BatchNormalization-15). s and b' are computed in float64; W' is computed lazily, when it is written. Returns whether
    anything changed.
    """
    modified = False
    for node in list(model.graph):
        if node.op_type == "BatchNormalization" and node.domain == "" and _fold(model.graph, node):
            modified = True
    return modified


def _fold(graph: ir.Graph, norm: ir.Node) -> bool:
    x = norm.inputs[0]
    producer = x.producer() if x is not None else None
    if producer is None or producer.domain != "" or producer.op_type not in _CHANNEL_AXIS or x is None:
        return False
    training = norm.attributes.get("training_mode")
    if (training is not None and training.as_int()) or len(x.uses()) != 1 or x.is_graph_output():
        return False
    if any(is_used(o) for o in norm.outputs[1:]):
        return False
    weight = producer.inputs[1]
    bias = producer.inputs[2] if len(producer.inputs) > 2 else None
    values = [weight, *norm.inputs[1:5], *([bias] if bias is not None else [])]
    if any(v is None or v.const_value is None for v in values) or weight is None or weight.const_value is None:
        return False
    if not _one_output_channel_axis(producer, weight):
        return False
    scale, shift, mean, variance = (_float64_array(v) for v in norm.inputs[1:5])
    epsilon = norm.attributes["epsilon"].as_float() if "epsilon" in norm.attributes else 1e-5
    factor = scale / np.sqrt(variance + epsilon)
    old_bias = _float64_array(bias) if bias is not None else np.zeros_like(factor)
    if old_bias.size not in (1, factor.size) or any(n != 1 for n in old_bias.shape[:-1]):  # Gemm also accepts a column
        return False
    new_bias = (old_bias.reshape(-1) - mean) * factor + shift
    dtype = weight.const_value.numpy().dtype
    producer.op_type = "Gemm" if producer.op_type == "MatMul" else producer.op_type
    producer.resize_inputs(3)
    producer.replace_input_with(
        1, register_initializer(graph, f"{weight.name}.folded", _scaled_weight(weight, factor, producer))
    )
    producer.replace_input_with(2, register_initializer(graph, f"{x.name}.bias", ir.tensor(new_bias.astype(dtype))))
    y, old_name = norm.outputs[0], norm.outputs[0].name
    x.shape = x.shape if x.shape is not None else y.shape
    ir.convenience.replace_all_uses_with(y, x, replace_graph_outputs=True)
    graph.remove(norm, safe=True)
    x.name = old_name
    return True


def _one_output_channel_axis(producer: ir.Node, weight: ir.Value) -> bool:
    # ConvTranspose keeps output channels per group on axis 1; Gemm is folded only as x·W + b or x·Wᵀ + b.
    if producer.op_type == "ConvTranspose":
        group = producer.attributes.get("group")
        return group is None or group.as_int() == 1
    if producer.op_type == "MatMul":  # only a product of two matrices can be a Gemm
        return all(v is not None and v.shape is not None and len(v.shape) == 2 for v in producer.inputs)
    if producer.op_type == "Gemm":
        wanted = {"transA": 0, "alpha": 1.0, "beta": 1.0}
        return all(k not in producer.attributes or producer.attributes[k].value == v for k, v in wanted.items())
    return weight.shape is not None


def _scaled_weight(weight: ir.Value, factor: np.ndarray, producer: ir.Node) -> ir.LazyTensor:
    tensor = weight.const_value
    assert tensor is not None
    shape = [1] * len(tensor.shape)
    shape[0 if producer.attributes.get_int("transB", 0) else _CHANNEL_AXIS[producer.op_type]] = -1
    column = factor.reshape(shape)

    def make() -> np.ndarray:
        array = tensor.numpy()
        return (array * column).astype(array.dtype)

    return lazy_tensor(tensor.dtype, dims_of(tensor), make)


def _float64_array(value: ir.Value | None) -> np.ndarray:
    assert value is not None
    assert value.const_value is not None
    return value.const_value.numpy().astype(np.float64)
