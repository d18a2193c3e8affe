"""Writes TensorFlow Lite files by hand, for operators and tensors that TensorFlow's converter does not write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

flatbuffers = pytest.importorskip("flatbuffers", reason="it comes with ai-edge-litert")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="ai-edge-litert has the schema")

_TYPES = {
    np.dtype(n): getattr(schema.TensorType, n.upper())
    for n in ("float32", "float16", "int32", "uint8", "int64", "bool", "int16", "int8", "float64")
}


@dataclass(frozen=True)
class Result:
    """The description of a computed tensor, or of an input or constant that has more properties than its array."""

    shape: Sequence[int]
    dtype: str = "float32"
    scale: Sequence[float] = ()
    zero: Sequence[int] = ()
    axis: int = 0
    variable: bool = False
    content: np.ndarray | None = None


Part = np.ndarray | Result | None


def handmade(
    operator: str,
    inputs: Sequence[Part],
    results: Sequence[Result],
    options: tuple[str, dict[str, Any]] | None = None,
) -> Callable[[], bytes]:
    """Return a file of one operator. inputs: arrays are inputs of the model, `Result`s with content are constants, None
    is left out.

    options: the table's name without `Options`, and its fields as in the object API.
    """

    def make() -> bytes:
        model, graph = schema.ModelT(), schema.SubGraphT()
        model.version, model.buffers = 3, [schema.BufferT()]
        graph.tensors, graph.inputs, graph.outputs, numbers = [], [], [], []
        for part in inputs:
            if part is None:
                numbers.append(-1)
                continue
            is_input = isinstance(part, np.ndarray)
            told = Result(part.shape, part.dtype.name) if isinstance(part, np.ndarray) else part
            is_input = is_input or (told.content is None and not told.variable)
            name = f"x{len(graph.inputs)}" if is_input else f"c{len(graph.tensors)}"
            numbers.append(_tensor(model, graph, told, name))
            if is_input:
                graph.inputs.append(numbers[-1])
        graph.outputs = [_tensor(model, graph, r, f"y{i}") for i, r in enumerate(results)]
        node = schema.OperatorT()
        node.inputs, node.outputs, node.opcodeIndex = numbers, list(graph.outputs), 0
        if options is not None:
            name, fields = options
            node.builtinOptions = getattr(schema, f"{name}OptionsT")()
            node.builtinOptionsType = getattr(schema.BuiltinOptions, f"{name}Options")
            for key, value in fields.items():
                assert hasattr(node.builtinOptions, key)
                setattr(node.builtinOptions, key, value)
        code = schema.OperatorCodeT()
        code.builtinCode, code.version = getattr(schema.BuiltinOperator, operator), 1
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        graph.operators, model.subgraphs, model.operatorCodes = [node], [graph], [code]
        return packed(model)

    return make


def packed(model: Any) -> bytes:
    """Return a ModelT as a file."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _tensor(model: Any, graph: Any, told: Result, name: str) -> int:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type = name, list(told.shape), _TYPES[np.dtype(told.dtype)]
    tensor.isVariable = told.variable
    if told.content is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(told.content).tobytes(), np.uint8)
        model.buffers.append(buffer)
        tensor.buffer = len(model.buffers) - 1
    if told.scale:
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = list(told.scale)
        tensor.quantization.zeroPoint = list(told.zero or [0] * len(told.scale))
        tensor.quantization.quantizedDimension = told.axis
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def constant(array: np.ndarray, **more: Any) -> Result:
    """Return an input that the file stores."""
    return Result(array.shape, array.dtype.name, content=array, **more)


def densified() -> Callable[[], bytes]:
    """Return x · weightsᵀ with weights [4, 6] stored as compressed rows, which an operator makes dense."""

    def make() -> bytes:
        weights = constant(np.float32([1.5, -2.0, 3.0, 0.5, 4.0]))
        options = ("FullyConnected", {})
        model = opened(
            handmade("FULLY_CONNECTED", [np.zeros((2, 6), np.float32), weights], [Result((2, 4))], options)()
        )
        graph = model.subgraphs[0]
        sparse = graph.tensors[1]
        sparse.shape, sparse.sparsity = [4, 6], schema.SparsityParametersT()
        rows, columns = schema.DimensionMetadataT(), schema.DimensionMetadataT()
        rows.format, rows.denseSize, columns.format = 0, 4, 1
        columns.arraySegmentsType = columns.arrayIndicesType = schema.SparseIndexVector.Uint8Vector
        columns.arraySegments, columns.arrayIndices = schema.Uint8VectorT(), schema.Uint8VectorT()
        columns.arraySegments.values, columns.arrayIndices.values = [0, 2, 2, 3, 5], [0, 4, 5, 1, 3]
        sparse.sparsity.traversalOrder, sparse.sparsity.dimMetadata = [0, 1], [rows, columns]
        dense = schema.TensorT()
        dense.name, dense.shape = "dense", [4, 6]
        graph.tensors.append(dense)
        code, node = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.DENSIFY
        code.version = 1
        model.operatorCodes.append(code)
        node.opcodeIndex, node.inputs, node.outputs = 1, [1], [len(graph.tensors) - 1]
        graph.operators[0].inputs = [0, len(graph.tensors) - 1]
        graph.operators.insert(0, node)
        return packed(model)

    return make


def opened(data: bytes) -> Any:
    """Return a file as a ModelT, which can be changed."""
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytearray(data), 0))
