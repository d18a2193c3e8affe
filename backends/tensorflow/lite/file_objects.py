"""A TensorFlow Lite file as objects, which can be changed and packed again."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import flatbuffers
import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

_BUILTINS = {v: k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
_CODES = {k: v for v, k in _BUILTINS.items()}
_DTYPES = {
    schema.TensorType.FLOAT32: np.float32,
    schema.TensorType.INT8: np.int8,
    schema.TensorType.INT32: np.int32,
    schema.TensorType.INT64: np.int64,
}
_TYPES = {np.dtype(dtype): number for number, dtype in _DTYPES.items()}
_TYPES |= {np.dtype(np.int16): schema.TensorType.INT16, np.dtype(np.uint8): schema.TensorType.UINT8}


class LiteFile:
    """A model as objects of the schema; new tensors and operators are added at the end."""

    def __init__(self, data: bytes) -> None:
        self.model = schema.ModelT.InitFromPackedBuf(bytearray(data), 0)

    def name(self, operator: Any) -> str:
        """Return the name of the built-in operator."""
        code = self.model.operatorCodes[operator.opcodeIndex]
        return _BUILTINS[max(code.builtinCode, code.deprecatedBuiltinCode)]

    def activation(self, operator: Any) -> int:
        """Return the function that is fused behind an operator, in the same kernel; 0 if there is none."""
        return getattr(operator.builtinOptions, "fusedActivationFunction", 0) or 0

    def constant(self, subgraph: int, tensor: int) -> np.ndarray | None:
        """Return the content of a constant in one of the dtypes that quantized graphs use."""
        if tensor < 0:
            return None
        found = self.model.subgraphs[subgraph].tensors[tensor]
        data = self.model.buffers[found.buffer].data
        if data is None or not len(data) or found.type not in _DTYPES or found.isVariable:
            return None
        shape = [] if found.shape is None else [int(d) for d in found.shape]
        return np.asarray(data, np.uint8).view(_DTYPES[found.type]).reshape(shape)

    def add_constant(
        self, subgraph: int, name: str, content: np.ndarray, scale: np.ndarray, axis: int = 0, zero: int = 0
    ) -> int:
        """Add a constant tensor of integers with its scale and zero point, and return it."""
        tensor = schema.TensorT()
        tensor.shape = np.array(content.shape, np.int32)
        tensor.type, tensor.name, tensor.hasRank = _TYPES[content.dtype], name.encode(), True
        tensor.quantization = self.parameters(scale, zero, axis)
        tensor.buffer = self._buffer(np.ascontiguousarray(content).view(np.uint8).ravel())
        return self._add(subgraph, tensor)

    def add_tensor(
        self, subgraph: int, name: str, content: np.ndarray | type[np.generic], shape: tuple[int, ...] = ()
    ) -> int:
        """Add a constant without a scale, or a result of a dtype and shape, and return it."""
        tensor = schema.TensorT()
        tensor.name, tensor.hasRank = name.encode(), True
        if isinstance(content, np.ndarray):
            tensor.shape, tensor.type = np.array(content.shape, np.int32), _TYPES[content.dtype]
            tensor.buffer = self._buffer(content.view(np.uint8).ravel())
        else:
            tensor.shape, tensor.type, tensor.buffer = np.array(shape, np.int32), _TYPES[np.dtype(content)], 0
        return self._add(subgraph, tensor)

    @cached_property
    def _buffers(self) -> dict[bytes, int]:
        return {}

    def _buffer(self, content: np.ndarray) -> int:
        """Return a buffer of these bytes; equal bytes share one buffer."""
        key = content.tobytes()
        if key not in self._buffers:
            buffer = schema.BufferT()
            buffer.data = content
            self.model.buffers.append(buffer)
            self._buffers[key] = len(self.model.buffers) - 1
        return self._buffers[key]

    def add_like(self, subgraph: int, name: str, like: int) -> int:
        """A tensor of the shape and dtype of another."""
        old, tensor = self.model.subgraphs[subgraph].tensors[like], schema.TensorT()
        tensor.shape, tensor.shapeSignature, tensor.hasRank = old.shape, old.shapeSignature, old.hasRank
        tensor.type, tensor.name, tensor.buffer = schema.TensorType.FLOAT32, name.encode(), 0
        return self._add(subgraph, tensor)

    def add_copy(self, subgraph: int, constant: int) -> int:
        """Add a copy of a constant that shares no memory with it, and return it."""
        tensor = copy(self.model.subgraphs[subgraph].tensors[constant])
        self.model.buffers.append(copy(self.model.buffers[tensor.buffer]))
        tensor.buffer = len(self.model.buffers) - 1
        return self._add(subgraph, tensor)

    def _add(self, subgraph: int, tensor: Any) -> int:
        tensors = self.model.subgraphs[subgraph].tensors
        tensors.append(tensor)
        return len(tensors) - 1

    @staticmethod
    def parameters(scale: np.ndarray, zero: int = 0, axis: int = 0) -> Any:
        """Return the quantization parameters: one scale or scales along an axis, and one zero point for all."""
        found = schema.QuantizationParametersT()
        found.scale = np.asarray(scale, np.float32).ravel()
        found.zeroPoint = np.full(found.scale.size, zero, np.int64)
        found.quantizedDimension = axis if found.scale.size > 1 else 0
        return found

    def new_operator(self, name: str, inputs: list[int], outputs: list[int], version: int) -> Any:
        """An operator without options."""
        operator = schema.OperatorT()
        operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        operator.opcodeIndex = self._code(_CODES[name], version)
        return operator

    def new_custom(self, name: str, inputs: list[int], outputs: list[int]) -> Any:
        """A custom operator without options."""
        operator = self.new_operator("CUSTOM", inputs, outputs, 1)
        self.model.operatorCodes[operator.opcodeIndex].customCode = name.encode()
        return operator

    def custom_name(self, operator: Any) -> str:
        """Return the name of a custom operator, or an empty string."""
        name = self.model.operatorCodes[operator.opcodeIndex].customCode
        return name.decode() if name else ""

    def set_custom(self, operator: Any, name: str) -> None:
        """Make a custom operator without options of an operator."""
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode, code.version = name.encode(), 1
        self.model.operatorCodes.append(code)
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.builtinOptionsType, operator.builtinOptions = 0, None

    def set_version(self, operator: Any, version: int) -> None:
        """Raise the version of an operator to at least this one."""
        code = self.model.operatorCodes[operator.opcodeIndex]
        if code.version < version:
            operator.opcodeIndex = self._code(max(code.builtinCode, code.deprecatedBuiltinCode), version)

    def code(self, operator: Any) -> tuple[int, int]:
        """Return the number of the built-in operator, and its version."""
        code = self.model.operatorCodes[operator.opcodeIndex]
        return max(code.builtinCode, code.deprecatedBuiltinCode), code.version

    def set_code(self, operator: Any, code: tuple[int, int]) -> None:
        """Make another built-in operator of an operator: its number, and its version."""
        operator.opcodeIndex = self._code(*code)

    def _code(self, builtin: int, version: int) -> int:
        for place, code in enumerate(self.model.operatorCodes):
            if max(code.builtinCode, code.deprecatedBuiltinCode) == builtin and code.version == version:
                return place
        code = schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), version
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1

    def io_names(self, subgraph: int) -> tuple[dict[str, int], dict[str, int]]:
        """Return the tensors of the inputs and outputs by the names in a subgraph's signature, if it has one."""
        for signature in self.model.signatureDefs or ():
            if signature.subgraphIndex == subgraph:
                inputs, outputs = (
                    {m.name.decode(): int(m.tensorIndex) for m in side or ()}
                    for side in (signature.inputs, signature.outputs)
                )
                return inputs, outputs
        return {}, {}

    def replace_outputs(self, subgraph: int, replaced: dict[int, int]) -> None:
        """Replace outputs by other tensors."""
        graph = self.model.subgraphs[subgraph]
        graph.outputs = [replaced.get(int(t), int(t)) for t in graph.outputs]
        for signature in self.model.signatureDefs or ():
            if signature.subgraphIndex == subgraph:
                for entry in signature.outputs or ():
                    entry.tensorIndex = replaced.get(int(entry.tensorIndex), int(entry.tensorIndex))

    def drop_unused(self, subgraph: int) -> None:
        """Remove the operators and tensors of a subgraph that no output depends on."""
        graph = self.model.subgraphs[subgraph]
        needed, kept = set(map(int, graph.outputs)), []
        for operator in reversed(graph.operators):
            has_effect = not len(operator.outputs) or self.name(operator) in _EFFECTS
            if has_effect or needed & set(map(int, operator.outputs)):
                kept.append(operator)
                needed |= set(map(int, operator.inputs)) | set(map(int, operator.outputs))
                needed |= set(map(int, operator.intermediates if operator.intermediates is not None else ()))
        graph.operators = kept[::-1]
        needed |= set(map(int, graph.inputs))
        order = [t for t in range(len(graph.tensors)) if t in needed]
        places = {old: new for new, old in enumerate(order)} | {-1: -1}
        graph.tensors = [graph.tensors[t] for t in order]
        for operator in graph.operators:
            for side in ("inputs", "outputs", "intermediates"):
                if getattr(operator, side) is not None:
                    setattr(operator, side, [places[int(t)] for t in getattr(operator, side)])
        graph.inputs, graph.outputs = ([places[int(t)] for t in side] for side in (graph.inputs, graph.outputs))
        for signature in self.model.signatureDefs or ():
            if signature.subgraphIndex == subgraph:
                for entry in (*(signature.inputs or ()), *(signature.outputs or ())):
                    entry.tensorIndex = places[int(entry.tensorIndex)]

    def packed(self) -> bytes:
        """Return the file as bytes, without unused buffers and operator codes."""
        model = self.model
        used = {0, *(int(m.buffer) for m in model.metadata or ())}
        used |= {t.buffer for graph in model.subgraphs for t in graph.tensors}
        order = [b for b in range(len(model.buffers)) if b in used]
        places = {old: new for new, old in enumerate(order)}
        model.buffers = [model.buffers[b] for b in order]
        for entry in model.metadata or ():
            entry.buffer = places[int(entry.buffer)]
        for graph in model.subgraphs:
            for tensor in graph.tensors:
                tensor.buffer = places[tensor.buffer]
        codes = sorted({operator.opcodeIndex for graph in model.subgraphs for operator in graph.operators})
        model.operatorCodes = [model.operatorCodes[c] for c in codes]
        for graph in model.subgraphs:
            for operator in graph.operators:
                operator.opcodeIndex = codes.index(operator.opcodeIndex)
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


_EFFECTS = ("ASSIGN_VARIABLE", "CALL_ONCE", "VAR_HANDLE", "WHILE", "IF")
