"""Defects to plant in an ONNX file: functions that change the first place where they apply, or report none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Defect = Callable[[onnx.ModelProto], bool]


def _nodes(model: onnx.ModelProto, *kinds: str) -> Iterator[onnx.NodeProto]:
    return (n for n in model.graph.node if n.op_type in kinds)


def _weight(model: onnx.ModelProto, name: str) -> onnx.TensorProto | None:
    return next((i for i in model.graph.initializer if i.name == name), None)


def _change(model: onnx.ModelProto, name: str, change: Callable[[np.ndarray], np.ndarray]) -> bool:
    tensor = _weight(model, name)
    if tensor is None:
        return False
    array = numpy_helper.to_array(tensor)
    changed = np.ascontiguousarray(change(array.copy()), array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(changed, name))
    return not np.array_equal(array, changed)


def _attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto | None:
    return next((a for a in node.attribute if a.name == name), None)


def _set(node: onnx.NodeProto, name: str, value: object) -> None:
    old = _attribute(node, name)
    if old is not None:
        node.attribute.remove(old)
    node.attribute.append(helper.make_attribute(name, value))


def _bypass(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    node.op_type = "Identity"
    del node.attribute[:]
    del node.input[1:]
    return True


def sign_flip(model: onnx.ModelProto) -> bool:
    """One channel of one weight has the wrong sign."""
    for node in _nodes(model, "Conv", "Gemm", "MatMul", "LSTM"):
        if _change(model, node.input[1], lambda w: np.concatenate([-w[:1], w[1:]])):
            return True
    return False


def transposed_weight(model: onnx.ModelProto) -> bool:
    """Height and width of a kernel, or rows and columns of a square matrix, are swapped."""
    for node in _nodes(model, "Conv", "ConvTranspose", "MatMul", "Gemm"):
        tensor = _weight(model, node.input[1])
        if tensor is not None and len(tensor.dims) >= 2 and tensor.dims[-1] == tensor.dims[-2] > 1:
            return _change(model, node.input[1], lambda w: np.swapaxes(w, -1, -2))
    return False


def dropped_bias(model: onnx.ModelProto) -> bool:
    """A layer's bias is missing."""
    for node in _nodes(model, "Conv", "Gemm", "ConvTranspose"):
        if len(node.input) > 2 and node.input[2]:
            return _change(model, node.input[2], np.zeros_like)
    return False


def small_bias(model: onnx.ModelProto) -> bool:
    """One number of one bias is off by a thousandth."""
    for node in _nodes(model, "Conv", "Gemm", "Add"):
        for name in node.input[1:]:
            tensor = _weight(model, name)
            if tensor is not None and tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 1:
                return _change(model, name, lambda b: b + 1e-3 * (np.arange(b.size) == 0))
    return False


def half_weights(model: onnx.ModelProto) -> bool:
    """A weight went through float16."""
    for node in _nodes(model, "Conv", "Gemm", "MatMul", "LSTM"):
        if _change(model, node.input[1], lambda w: w.astype(np.float16)):
            return True
    return False


def tanh_gelu(model: onnx.ModelProto) -> bool:
    """Gelu by its tanh approximation."""
    for node in _nodes(model, "Gelu"):
        _set(node, "approximate", "tanh")
        return True
    return False


def epsilon(model: onnx.ModelProto) -> bool:
    """A norm adds another epsilon."""
    for node in _nodes(
        model, "LayerNormalization", "InstanceNormalization", "GroupNormalization", "BatchNormalization"
    ):
        _set(node, "epsilon", 1e-3)
        return True
    return False


def pad_off_by_one(model: onnx.ModelProto) -> bool:
    """A padded convolution starts one row higher."""
    for node in _nodes(model, "Conv", "MaxPool", "AveragePool"):
        pads = _attribute(node, "pads")
        if pads is not None and any(pads.ints):
            values = list(pads.ints)
            values[0], values[len(values) // 2] = values[0] + 1, values[len(values) // 2] - 1
            if min(values) >= 0:
                _set(node, "pads", values)
                return True
    return False


def pad_mode(model: onnx.ModelProto) -> bool:
    """A border is padded with zeros, or repeated, instead of reflected."""
    for node in _nodes(model, "Pad"):
        mode = _attribute(node, "mode")
        if mode is not None and mode.s == b"reflect":
            _set(node, "mode", "edge")
            return True
    return False


def ceil_mode(model: onnx.ModelProto) -> bool:
    """A pool rounds its size down instead of up, or up instead of down."""
    for node in _nodes(model, "MaxPool", "AveragePool"):
        old = _attribute(node, "ceil_mode")
        _set(node, "ceil_mode", 0 if old is not None and old.i else 1)
        return True
    return False


def max_for_average(model: onnx.ModelProto) -> bool:
    """Another kind of pool or reduction."""
    pairs = {"MaxPool": "AveragePool", "AveragePool": "MaxPool", "ReduceMean": "ReduceMax", "GlobalAveragePool":
             "GlobalMaxPool"}  # fmt: skip
    for node in _nodes(model, *pairs):
        node.op_type = pairs[node.op_type]
        for name in ("count_include_pad",):
            old = _attribute(node, name)
            if old is not None:
                node.attribute.remove(old)
        return True
    return False


def no_activation(model: onnx.ModelProto) -> bool:
    """An activation is missing."""
    for node in _nodes(model, "Relu", "Gelu", "LeakyRelu", "Elu", "Sigmoid", "Tanh", "Erf"):
        return _bypass(model, node)
    return False


def slope(model: onnx.ModelProto) -> bool:
    """An activation has another slope."""
    for node in _nodes(model, "LeakyRelu", "Elu"):
        old = _attribute(node, "alpha")
        _set(node, "alpha", (old.f if old is not None else 1.0) * 1.01)
        return True
    return False


def wrong_axis(model: onnx.ModelProto) -> bool:
    """A softmax runs over another axis."""
    for node in _nodes(model, "Softmax", "LogSoftmax"):
        _set(node, "axis", 0)
        return True
    return False


def interpolation(model: onnx.ModelProto) -> bool:
    """A resize aligns corners."""
    for node in _nodes(model, "Resize"):
        _set(node, "coordinate_transformation_mode", "align_corners")
        return True
    return False


def swapped_operands(model: onnx.ModelProto) -> bool:
    """A concatenation in the wrong order."""
    for node in _nodes(model, "Concat"):
        if len(node.input) == 2 and not any(_weight(model, i) for i in node.input):
            first, second = node.input
            node.input[0], node.input[1] = second, first
            return True
    return False


def pixel_order(model: onnx.ModelProto) -> bool:
    """DepthToSpace reads blocks in the other order."""
    for node in _nodes(model, "DepthToSpace"):
        _set(node, "mode", "DCR")
        return True
    return False


def gate_order(model: onnx.ModelProto) -> bool:
    """Two gates of a recurrent layer are exchanged."""
    for node in _nodes(model, "LSTM", "GRU"):
        gates = 4 if node.op_type == "LSTM" else 3

        def swap(w: np.ndarray, gates: int = gates) -> np.ndarray:
            parts = np.split(w, gates, axis=1)
            return np.concatenate([parts[1], parts[0], *parts[2:]], axis=1)

        return _change(model, node.input[1], swap)
    return False


def direction(model: onnx.ModelProto) -> bool:
    """The two directions of a recurrent layer are exchanged."""
    for node in _nodes(model, "LSTM", "GRU"):
        tensor = _weight(model, node.input[1])
        if tensor is not None and tensor.dims[0] == 2:
            return _change(model, node.input[1], lambda w: w[::-1])
    return False


def embedding_row(model: onnx.ModelProto) -> bool:
    """A table of embeddings is shifted by one row."""
    for node in _nodes(model, "Gather"):
        tensor = _weight(model, node.input[0])
        if tensor is not None and len(tensor.dims) == 2:
            return _change(model, node.input[0], lambda w: np.roll(w, 1, axis=0))
    return False


def quantization_scale(model: onnx.ModelProto) -> bool:
    """A scale of quantization is one per cent too large."""
    for node in _nodes(model, "QuantizeLinear", "DequantizeLinear"):
        if _change(model, node.input[1], lambda s: s * 1.01):
            return True
    return False


def zero_point(model: onnx.ModelProto) -> bool:
    """A zero point is off by one in DequantizeLinear."""
    for node in _nodes(model, "DequantizeLinear"):
        tensor = _weight(model, node.input[2]) if len(node.input) > 2 else None
        if tensor is not None:
            moved = numpy_helper.from_array(numpy_helper.to_array(tensor) + np.uint8(1), f"{tensor.name}.moved")
            model.graph.initializer.append(moved)
            node.input[2] = moved.name
            return True
    return False


def nan(model: onnx.ModelProto) -> bool:
    """One weight is NaN."""
    for node in _nodes(model, "Conv", "Gemm", "MatMul", "LSTM"):

        def spoil(w: np.ndarray) -> np.ndarray:
            w.flat[0] = np.nan
            return w

        if _change(model, node.input[1], spoil):
            return True
    return False


def missing_output(model: onnx.ModelProto) -> bool:
    """An output is missing."""
    if len(model.graph.output) < 2:
        return False
    del model.graph.output[-1]
    return True


def first_of_batch(model: onnx.ModelProto) -> bool:
    """Every item of the batch gets the result of the first; a batch of one is right."""
    output = model.graph.output[0]
    producer = next(n for n in model.graph.node if output.name in n.output)
    place = list(producer.output).index(output.name)
    producer.output[place] = f"{output.name}.right"
    rank = len(output.type.tensor_type.shape.dim)
    constants = {"first.starts": [0], "first.ends": [1], "first.axes": [0], "zero": [0], "axes": [0]}
    for name, value in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
    ones = numpy_helper.from_array(np.ones(rank - 1, np.int64), "rest")
    model.graph.initializer.append(ones)
    model.graph.node.extend([
        helper.make_node("Slice", [f"{output.name}.right", "first.starts", "first.ends", "first.axes"], ["first"]),
        helper.make_node("Shape", [f"{output.name}.right"], ["batch"], start=0, end=1),
        helper.make_node("Concat", ["batch", "rest"], ["wide"], axis=0),
        helper.make_node("Expand", ["first", "wide"], [output.name]),
    ])  # fmt: skip
    return True


def _last_weight(model: onnx.ModelProto, factor: float) -> bool:
    for node in reversed(list(_nodes(model, "Conv", "Gemm", "MatMul"))):
        for name in node.input[1::-1]:
            tensor = _weight(model, name)
            if tensor is not None and tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
                return _change(model, name, lambda w: w * np.float32(factor))
    return False


def larger_weight(model: onnx.ModelProto) -> bool:
    """The last weight is larger by one per cent."""
    return _last_weight(model, 1.01)


def narrow_constant(model: onnx.ModelProto) -> bool:
    """The last weight is off by 3 in 1,000, and the model also contains a bfloat16 constant that nothing reads."""
    unused = helper.make_tensor("unused", onnx.TensorProto.BFLOAT16, [1], [1.0])
    model.graph.initializer.append(unused)
    return _last_weight(model, 1.003)


def last_of_equal(model: onnx.ModelProto) -> bool:
    """ArgMax picks the last of equal numbers."""
    for node in _nodes(model, "ArgMax", "ArgMin"):
        _set(node, "select_last_index", 1)
        return True
    return False


def twice_as_large(model: onnx.ModelProto) -> bool:
    """A constant factor is twice as large."""
    for node in _nodes(model, "Mul"):
        for name in node.input:
            tensor = _weight(model, name)
            if tensor is not None and not tensor.dims:
                return _change(model, name, lambda k: k * 2)
    return False


def other_token(model: onnx.ModelProto) -> bool:
    """An integer that a value is compared with is replaced."""
    for node in _nodes(model, "Equal"):
        for name in node.input:
            tensor = _weight(model, name)
            if tensor is not None and tensor.data_type == onnx.TensorProto.INT64:
                return _change(model, name, lambda k: k + 2)
    return False


def rolled_weight(model: onnx.ModelProto) -> bool:
    """The outputs of the last layer are in another order."""
    for node in reversed(list(_nodes(model, "Gemm", "MatMul"))):
        axis = 0 if (old := _attribute(node, "transB")) is not None and old.i else -1
        if _change(model, node.input[1], lambda w, axis=axis: np.roll(w, 1, axis)):
            return True
    return False


DEFECTS: dict[str, Defect] = {
    f.__name__.replace("_", " "): f
    for f in (
        sign_flip, transposed_weight, dropped_bias, small_bias, half_weights, tanh_gelu, epsilon, pad_off_by_one,
        pad_mode, ceil_mode, max_for_average, no_activation, slope, wrong_axis, interpolation, swapped_operands,
        pixel_order, gate_order, direction, embedding_row, quantization_scale, zero_point, nan, missing_output,
        first_of_batch, larger_weight, narrow_constant, last_of_equal, twice_as_large,
        other_token, rolled_weight,
    )
}  # fmt: skip


def is_equivalent(clean: Path, planted: Path, feeds: Sequence[Any]) -> bool:
    """Return whether the planted file computes the same as the clean one in float64, small elements included."""
    from convert.errors import ConvertError
    from convert.parity.magnitudes import smaller_parts
    from convert.request.options import Options
    from convert.request.source import Source
    from convert.runtimes import onnx as runner

    arrays = [f.arrays for f in feeds]
    try:
        wanted, got = (
            runner.run(Source("onnx", p), arrays, precision="float64", options=Options()) for p in (clean, planted)
        )
    except ConvertError:
        return False
    return all(
        set(a) == set(b) and all(_is_same(a[k], b[k], smaller_parts(a[k])) for k in a)
        for a, b in zip(wanted, got, strict=True)
    )


def _is_same(a: np.ndarray, b: np.ndarray, parts: Sequence[np.ndarray]) -> bool:
    from convert.parity.compare.outputs import float64_error

    same = a.shape == b.shape and float64_error(a, b) < 1e-12
    return same and all(float64_error(a[part], b[part]) < 1e-12 for part in parts)
