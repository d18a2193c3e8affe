"""Small quantized ONNX models for tests, with operators between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DTYPES = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16}


@dataclass
class Quantizing:
    """A writer of quantized models: `steps` quantizes real numbers, `weight` adds constants.

    dtype: of activations. weights: dtype of constants. per_channel: whether constants have a scale for each channel.
    """

    dtype: str = "int8"
    weights: str = "int8"
    per_channel: bool = True
    opset: int = 21
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def input(self, name: str, shape: Sequence[int | str], dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(self, name: str, rank: int, dtype: int = TensorProto.FLOAT) -> None:
        self.nodes.append(helper.make_node("Identity", [name], [f"out_{name}"], name=f"out_{name}"))
        self.outputs.append(helper.make_tensor_value_info(f"out_{name}", dtype, [None] * rank))

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def op(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"{operator}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def steps(self, x: str, scale: float = 0.02, zero: int = 3, *, real: bool = True) -> str:
        """Quantize x, and return real numbers, or integers if `real` is false."""
        number = 0 if self.dtype == "int16" else zero + (128 if self.dtype == "uint8" else 0)
        scale = scale / 256 if self.dtype == "int16" else scale
        given = [self.constant(np.array(scale, np.float32)), self.constant(np.array(number, DTYPES[self.dtype]))]
        stored = self.op("QuantizeLinear", x, *given)
        return self.op("DequantizeLinear", stored, *given) if real else stored

    def weight(self, *shape: int, axis: int = 0) -> str:
        """Return dequantized random integers."""
        count = shape[axis] if self.per_channel else 1
        info = np.iinfo(self.weights)
        raw = self.rng.integers(info.min, info.max + 1, shape).astype(self.weights)
        scale = self.rng.uniform(0.002, 0.01, count).astype(np.float32)
        zero = np.full(count, 0 if self.weights == "int8" else 121, DTYPES[self.weights])
        if not self.per_channel:
            scale, zero = scale.reshape(()), zero.reshape(())
        attributes = {"axis": axis} if self.per_channel else {}
        given = [self.constant(scale), self.constant(zero)]
        return self.op("DequantizeLinear", self.constant(raw), *given, **attributes)

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "quantized", self.inputs, self.outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
