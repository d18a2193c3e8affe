"""The content of a TensorFlow Lite file, read from the flatbuffer with checks: subgraphs of operators over tensors."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from convert import limits
from convert.errors import BadInput

from ..graph.attributes import DTYPES
from .custom_options import custom_options
from .layout import check_layout
from .packed_bytes import unpack_integers, unpack_strings
from .sparse import to_dense

# TensorFlow's number (types.proto) for TensorFlow Lite's (schema.fbs, enum TensorType).
NUMBERS = {
    0: 1, 1: 19, 2: 3, 3: 4, 4: 9, 5: 7, 6: 10, 7: 5, 8: 8, 9: 6, 10: 2, 11: 18, 12: 23, 13: 20, 14: 21, 15: 22,
    16: 17, 17: 6, 18: 14, 19: 6, 20: 4, 21: 25, 22: 24,
}  # fmt: skip
_BITS = {17: (4, True), 19: (2, True), 20: (4, False)}
"""Dtypes with less than a byte, by number: bits and sign. Their elements are read as whole bytes."""


@dataclass(frozen=True)
class Quantization:
    """real = scale · (stored − zero point), for the whole tensor or along `axis`.

    `ends` are the least and the largest integer of a dtype of less than a byte, which is stored in bytes here.
    """

    scale: np.ndarray
    zero: np.ndarray
    axis: int
    ends: tuple[int, int] | None = None

    @property
    def per_axis(self) -> bool:
        return self.scale.size > 1


@dataclass(frozen=True)
class Tensor:
    """One tensor of a subgraph; `content` returns a constant's array, `number` is TensorFlow's number of the dtype."""

    name: str
    number: int
    shape: tuple[int | None, ...]
    quantization: Quantization | None
    content: ir.TensorProtocol | None
    variable: bool

    @property
    def dtype(self) -> ir.DataType | None:
        """The ONNX dtype; None for handles of variables and tables."""
        return DTYPES.get(self.number)

    @property
    def is_complex(self) -> bool:
        """Return whether the tensor is complex; the shared graph has pairs of real numbers instead."""
        return self.number in (8, 18)


@dataclass(frozen=True)
class Operator:
    """An operator: tensors by number (-1: left out), options by name, and their defaults."""

    name: str
    inputs: list[int]
    outputs: list[int]
    options: dict[str, Any]
    defaults: dict[str, Any]


@dataclass(frozen=True)
class Subgraph:
    """A function of the model."""

    name: str
    tensors: list[Tensor]
    inputs: list[int]
    outputs: list[int]
    operators: list[Operator]


@dataclass(frozen=True)
class Signature:
    """A signature: its key, its subgraph, and its named tensors."""

    key: str
    subgraph: int
    inputs: dict[str, int]
    outputs: dict[str, int]


@dataclass(frozen=True)
class LiteModel:
    """A whole file."""

    subgraphs: list[Subgraph]
    signatures: list[Signature] = field(default_factory=list)


def schema() -> Any:
    """Return the accessors for the flatbuffer, from whichever of the two packages is installed."""
    try:
        from ai_edge_litert import schema_py_generated as module
    except ImportError:
        from tensorflow.lite.python import schema_py_generated as module
    return module


def parse_lite_model(data: memoryview, label: str) -> LiteModel:
    """Return the model in `data`. Raises `BadInput` for a truncated file, or one with offsets outside it."""
    if bytes(data[4:8]) != b"TFL3":
        raise BadInput(f"{label} is no TensorFlow Lite model")
    try:
        check_layout(data, schema())
        return _Reader(schema(), data).model()
    except (struct.error, IndexError, ValueError, TypeError, OverflowError, KeyError, AttributeError, MemoryError) as e:
        raise BadInput(
            f"{label} is damaged: its tables point outside of the file, or at what is no table",
            hint="get the file again, or convert it again",
        ) from e


class _Reader:
    """Reads one file with the generated accessors, which do not check offsets."""

    def __init__(self, module: Any, data: memoryview) -> None:
        self.schema, self.data = module, data
        self.root = module.Model.GetRootAs(data, 0)
        self.names = {v: k for k, v in vars(module.BuiltinOperator).items() if isinstance(v, int)}
        self.options = {v: k for k, v in vars(module.BuiltinOptions).items() if isinstance(v, int)}
        self.count = 0

    def model(self) -> LiteModel:
        graphs = [
            self._subgraph(self.root.Subgraphs(i)) for i in range(self._checked_count(self.root.SubgraphsLength()))
        ]
        if not graphs:
            raise ValueError("no subgraphs")
        count = self._checked_count(self.root.SignatureDefsLength())
        signatures = [self._signature(self.root.SignatureDefs(i), graphs) for i in range(count)]
        return LiteModel(graphs, signatures)

    def _checked_count(self, count: int) -> int:
        """Return a number of entries; raise for more than the file can hold or a model can need."""
        self.count += count
        if 4 * count > len(self.data) or self.count > limits.TFLITE_ENTRIES:
            raise ValueError("more entries than bytes")
        return count

    def _subgraph(self, graph: Any) -> Subgraph:
        tensors = [self._tensor(graph.Tensors(i)) for i in range(self._checked_count(graph.TensorsLength()))]

        def known(numbers: Sequence[int], least: int) -> list[int]:
            if any(not least <= n < len(tensors) for n in numbers):
                raise ValueError("a tensor that is not there")
            return list(numbers)

        operators = []
        for i in range(self._checked_count(graph.OperatorsLength())):
            operator = graph.Operators(i)
            name, options, defaults = self._name_and_options(operator)
            inputs = known([operator.Inputs(k) for k in range(self._checked_count(operator.InputsLength()))], -1)
            outputs = known([operator.Outputs(k) for k in range(self._checked_count(operator.OutputsLength()))], 0)
            operators.append(Operator(name, inputs, outputs, options, defaults))
        starts, ends = (
            known([get(k) for k in range(self._checked_count(count))], 0)
            for get, count in ((graph.Inputs, graph.InputsLength()), (graph.Outputs, graph.OutputsLength()))
        )
        return Subgraph(_decode_text(graph.Name()), tensors, starts, ends, operators)

    def _name_and_options(self, operator: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Return an operator's name, options and default options; custom operators have the name in the file."""
        code = self.root.OperatorCodes(operator.OpcodeIndex())
        if operator.OpcodeIndex() >= self.root.OperatorCodesLength():
            raise ValueError("an operator code that is not there")
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if number == self.schema.BuiltinOperator.CUSTOM:
            name = _decode_text(code.CustomCode())
            raw = operator.CustomOptionsAsNumpy() if operator.CustomOptionsLength() else np.zeros(0, np.uint8)
            return f"custom {name}", custom_options(name, raw.tobytes()), {}
        name = self.names.get(number, f"operator {number}")
        kind = self.options.get(operator.BuiltinOptionsType(), "NONE")
        table = operator.BuiltinOptions()
        if kind == "NONE" or table is None:
            return name, {}, {}
        accessor = getattr(self.schema, kind)()
        accessor.Init(table.Bytes, table.Pos)
        made = getattr(self.schema, f"{kind}T")
        return name, _options_dict(made.InitFromObj(accessor)), _options_dict(made())

    def _tensor(self, tensor: Any) -> Tensor:
        kind = tensor.Type()
        number = NUMBERS[kind]
        # The signature's -1 marks dynamic dims, for which the shape has 1.
        vector = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() > 0 else tensor.ShapeAsNumpy()
        sizes = [] if isinstance(vector, int) else vector.tolist()
        content = self._content(tensor, kind, number, tensor.ShapeAsNumpy())
        shape = tuple(None if d < 0 else int(d) for d in sizes)
        return Tensor(
            _decode_text(tensor.Name()), number, shape, self._quantization(tensor, shape), content, tensor.IsVariable()
        )

    def _content(self, tensor: Any, kind: int, number: int, vector: Any) -> ir.TensorProtocol | None:
        if not 0 <= tensor.Buffer() < self.root.BuffersLength():
            raise ValueError("a buffer that is not there")
        raw = self._bytes(self.root.Buffers(tensor.Buffer()))
        dtype = DTYPES.get(number)
        if raw is None or dtype is None or tensor.IsVariable():
            return None
        shape = [] if isinstance(vector, int) else [int(d) for d in vector]
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if any(d < 0 for d in shape):
            raise ValueError("a constant of unknown size")
        if dtype == ir.DataType.STRING:
            return ir.StringTensor(unpack_strings(raw, count), shape=ir.Shape(shape))
        sparsity = tensor.Sparsity()
        if sparsity is not None:
            made = to_dense(self.schema.SparsityParametersT.InitFromObj(sparsity), raw, shape, np.dtype(dtype.numpy()))
            return ir.Tensor(made, dtype=dtype)
        if kind in _BITS:
            return ir.Tensor(unpack_integers(raw, count, *_BITS[kind]).reshape(shape), dtype=dtype)
        size = np.dtype(dtype.numpy()).itemsize
        if len(raw) != count * size:
            raise ValueError("a constant of another size")
        return ir.Tensor(np.frombuffer(raw, np.dtype(dtype.numpy())).reshape(shape), dtype=dtype)

    def _bytes(self, buffer: Any) -> memoryview | None:
        """Return a buffer's bytes: in the table, or after it in files of more than 2 GB."""
        if buffer.Offset() > 1:
            start, size = buffer.Offset(), buffer.Size()
            if start + size > len(self.data):
                raise ValueError("a buffer outside of the file")
            return self.data[start : start + size]
        if not buffer.DataLength():
            return None
        return memoryview(buffer.DataAsNumpy())

    def _quantization(self, tensor: Any, shape: Sequence[int | None]) -> Quantization | None:
        found = tensor.Quantization()
        if found is None or not found.ScaleLength():
            return None
        scale = np.array(found.ScaleAsNumpy(), np.float32)
        zero = np.array(found.ZeroPointAsNumpy(), np.int64) if found.ZeroPointLength() else np.zeros(1, np.int64)
        axis = found.QuantizedDimension()
        if scale.size > 1 and (not 0 <= axis < len(shape) or shape[axis] != scale.size):
            raise ValueError("scales for an axis that is not there")
        if zero.size not in (1, scale.size) or not np.isfinite(scale).all():
            raise ValueError("scales without zero points")
        bits, signed = _BITS.get(tensor.Type(), (0, False))
        least = -(1 << bits - 1) if signed else 0
        ends = (least, least + (1 << bits) - 1) if bits else None
        return Quantization(scale, np.broadcast_to(zero, scale.shape), axis, ends)

    def _signature(self, signature: Any, graphs: Sequence[Subgraph]) -> Signature:
        key = _decode_text(signature.SignatureKey())
        number = _subgraph_of(key, signature.SubgraphIndex(), graphs)

        def named(get: Callable[[int], Any], length: int, ends: Sequence[int]) -> dict[str, int]:
            maps = [get(i) for i in range(self._checked_count(length))]
            found = {_decode_text(m.Name()): m.TensorIndex() for m in maps}
            if len(found) < len(maps) or not set(found.values()) <= set(ends):
                raise ValueError("a signature of tensors that are no ends of its subgraph, or two of one name")
            return found

        inputs = named(signature.Inputs, signature.InputsLength(), graphs[number].inputs)
        outputs = named(signature.Outputs, signature.OutputsLength(), graphs[number].outputs)
        return Signature(key, number, inputs, outputs)


def _subgraph_of(key: str, number: int, graphs: Sequence[Subgraph]) -> int:
    """Return the number of a signature's subgraph.

    The converter of TensorFlow 2.6 writes 0 for every signature, and names the subgraphs by the signatures.
    """
    named = [i for i, graph in enumerate(graphs) if graph.name == key]
    return named[0] if number == 0 and len(named) == 1 else number


def _decode_text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _options_dict(options: Any) -> dict[str, Any]:
    """Return an options object with the schema's names: `fusedActivationFunction` becomes
    `fused_activation_function`.
    """
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", k).lower(): _option_value(v) for k, v in vars(options).items()}


def _option_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return float(str(np.float32(value))) if isinstance(value, float) else value
