"""Caffe2's nets: parsing, arguments of operators, element types, and the inputs of a folder's nets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from google.protobuf.message import DecodeError

from convert import limits
from convert.errors import BadInput, UsageError
from convert.files.caffe2 import caffe2_pb2
from convert.request.options import InputSpec, parse_input

NUMBERS = {
    ir.DataType.FLOAT: 1,
    ir.DataType.INT32: 2,
    ir.DataType.BOOL: 5,
    ir.DataType.UINT8: 6,
    ir.DataType.INT8: 7,
    ir.DataType.UINT16: 8,
    ir.DataType.INT16: 9,
    ir.DataType.INT64: 10,
    ir.DataType.FLOAT16: 12,
    ir.DataType.DOUBLE: 13,
}
"""`caffe2.TensorProto.DataType` by ONNX element type; other types do not exist there."""

DTYPES = {number: dtype for dtype, number in NUMBERS.items()}
"""ONNX element type by `caffe2.TensorProto.DataType`."""

INPUTS_ARGUMENT, OUTPUTS_ARGUMENT = "convert_inputs", "convert_outputs"
"""Arguments of predict_net for what a NetDef cannot express, such as `image:float32[batch,1,28,28]`; the
runtime ignores them.
"""

Argument: TypeAlias = "int | float | str | list[int] | list[float] | list[str] | np.ndarray | Net"
"""The value of an argument; the content of a fill (`values`) is an array."""

pb: Any = caffe2_pb2  # created at run time: type checkers do not see its classes


@dataclass(frozen=True)
class Op:
    """One operator of a net; an argument without a value is an empty list, as the runtime reads it."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    args: Mapping[str, Argument] = field(default_factory=dict)
    engine: str = ""
    device: int = 0


@dataclass(frozen=True)
class Net:
    """A parsed NetDef; `inputs` are all of external_input, including weights."""

    name: str
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    args: Mapping[str, Argument] = field(default_factory=dict)

    def written_blobs(self) -> set[str]:
        """Return the names of all blobs that its operators write."""
        return {name for op in self.ops for name in op.outputs}

    def written_first(self) -> set[str]:
        """Return the names of the blobs that an operator writes before any reads them."""
        read: set[str] = set()
        found: set[str] = set()
        for op in self.ops:
            inner = [name for value in op.args.values() if isinstance(value, Net) for name in value.inputs]
            read.update(op.inputs, inner)
            found.update(set(op.outputs) - read)
        return found


@dataclass(frozen=True)
class Model:
    """A Caffe2 model: `init` creates the weights, in addition to the `blobs` of its databases; `predict` computes.

    `outputs_found` says whether the net names no outputs and they were derived.
    """

    init: Net
    predict: Net
    blobs: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs_found: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the data inputs, in the order in which the runtime binds them.

        They are the described inputs. If none are described, they are the inputs that neither `init`, a database nor an
        earlier operator provides; if all are provided, the placeholders.
        """
        weights = self._provided() - set(self.described_inputs())
        found = tuple(name for name in self.predict.inputs if name not in weights)
        return found or tuple(self.placeholders())

    def _provided(self) -> set[str]:
        """Return the blobs that exist before an operator of `predict` reads them."""
        return {*self.init.written_blobs(), *self.blobs, *self.predict.written_first()}

    def placeholders(self) -> dict[str, list[int]]:
        """Return the inputs that `init` fills with one number, by name, with the dims of the fill; [] fits any shape.

        They come first in external_input. Caffe's translator and ONNX's backend fill one, by ConstantFill, and
        mobile_exporter fills each with a single zero. The result is empty if `predict` has another input.
        """
        if self.described_inputs() or set(self.predict.inputs) - self._provided():
            return {}
        fills = {name: op for op in self.init.ops for name in op.outputs if not op.inputs}
        found: dict[str, list[int]] = {}
        for name in self.predict.inputs:
            fill = fills.get(name)
            shape = fill.args.get("shape") if fill is not None else None
            if not isinstance(shape, list) or fill is None:
                break
            if fill.type == "GivenTensorFill" and shape == [1, 1] and fill.args.get("values") == [0.0]:
                found[name] = []
            elif fill.type == "ConstantFill" and not found:
                return {name: [int(size) for size in shape]}
            else:
                break
        return found

    def with_outputs(self) -> Model:
        """Return the model with outputs: if external_output is empty, what `predict` writes and never reads."""
        if self.predict.outputs:
            return self
        later: set[str] = set()
        found: list[str] = []
        for op in reversed(self.predict.ops):
            found[:0] = [name for name in op.outputs if name not in later]
            later.update(op.inputs, op.outputs)
        return replace(self, predict=replace(self.predict, outputs=tuple(found)), outputs_found=True)

    def described_inputs(self) -> dict[str, InputSpec]:
        """Return the described inputs by name; empty unless `convert` wrote the net."""
        found: dict[str, InputSpec] = {}
        for text in self._texts(INPUTS_ARGUMENT):
            match = _DESCRIPTION.fullmatch(text)
            try:
                # A blob may have any name, such as `x[0]`; so it is no part of what is parsed.
                spec = parse_input(text) if match is None else parse_input(f"x:{match['type']}")
            except UsageError as error:
                raise BadInput(f"the net's argument {INPUTS_ARGUMENT} is damaged: {error}") from None
            name = spec.name or "" if match is None else match["name"]
            found[name] = replace(spec, name=name)
        return found

    def results(self) -> dict[str, list[int | str | None]]:
        """Return the dims of its outputs by name, as far as the net states them.

        Returns None for a computed dim (`3*height`).
        """
        matches = [_RESULT.fullmatch(text) for text in self._texts(OUTPUTS_ARGUMENT)]
        return {m["name"]: [_dim(d) for d in m["dims"].split(",") if d] for m in matches if m is not None}

    def _texts(self, argument: str) -> list[str]:
        texts = self.predict.args.get(argument)
        return [str(text) for text in texts] if isinstance(texts, list) else []


_DESCRIPTION = re.compile(r"(?P<name>.+):(?P<type>[a-z0-9]+(?:\[[^\]]*\])?)", re.DOTALL)
_RESULT = re.compile(r"(?P<name>.+):[a-z0-9]+\[(?P<dims>[^\]]*)\]", re.DOTALL)


def _dim(text: str) -> int | str | None:
    if text.isdecimal():
        return int(text) if len(text) < 19 else None
    return text if text.isidentifier() else None


def read_net(path: Path) -> Net:
    """Return the net in a file. Raises `BadInput` if the file is missing, truncated, or no NetDef."""
    try:
        message = pb.NetDef.FromString(path.read_bytes())
    except FileNotFoundError:
        raise BadInput(f"{path.parent} is no Caffe2 model: it holds no {path.name}") from None
    except DecodeError as error:
        raise BadInput(f"{path} is no Caffe2 net: {error}", hint="get the file again") from None
    return net_of(message, str(path))


def net_of(message: Any, label: str = "the net", depth: int = 0) -> Net:
    """Return a parsed NetDef.

    Raises `BadInput` for operators without a type and for nets that are nested too deeply.
    """
    if depth > limits.CAFFE2_NET_DEPTH:
        raise BadInput(f"{label} holds nets more than {limits.CAFFE2_NET_DEPTH} deep")
    ops = []
    for op in message.op:
        if not op.type:
            raise BadInput(f"{label} is no Caffe2 net: it has an operator without a type")
        kind, inputs, outputs = _word(op.type, label), _words(op.input, label), _words(op.output, label)
        args = _arguments(op.arg, f"{label}: {kind}", depth)
        ops.append(Op(kind, inputs, outputs, args, _word(op.engine, label), op.device_option.device_type))
    args = _arguments(message.arg, label, depth)
    # A blob may be listed twice; it is still one blob.
    inputs, outputs = (
        tuple(dict.fromkeys(_words(names, label))) for names in (message.external_input, message.external_output)
    )
    return Net(_word(message.name, label), tuple(ops), inputs, outputs, args)


def _words(texts: Iterable[str | bytes], label: str) -> tuple[str, ...]:
    return tuple(_word(text, label) for text in texts)


def _word(text: str | bytes, label: str) -> str:
    """Return a name unchanged. Raises `BadInput` for invalid UTF-8, which protobuf returns as bytes."""
    if not isinstance(text, str):
        raise BadInput(f"{label} is no Caffe2 net: it has a name that is no text", hint="get the file again")
    return text


def _arguments(messages: Sequence[Any], label: str, depth: int) -> dict[str, Argument]:
    names = _words([argument.name for argument in messages], label)
    return {name: _argument(argument, label, depth) for name, argument in zip(names, messages, strict=True)}


def _argument(message: Any, label: str, depth: int) -> Argument:
    if message.HasField("n"):
        return net_of(message.n, label, depth + 1)
    if message.nets or message.tensors or message.HasField("t"):
        raise BadInput(f"{label} has an argument {message.name!r} of a form that no inference operator has")
    for name in ("f", "i"):
        if message.HasField(name):
            return getattr(message, name)
    if message.HasField("s"):
        return _text(message.s)
    for name, dtype in (("floats", np.float32), ("ints", np.int64)):
        if values := getattr(message, name):
            return np.fromiter(values, dtype, len(values)) if message.name == "values" else list(values)
    return [_text(s) for s in message.strings]


def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def walk(net: Net) -> Iterator[Op]:
    """Yield every operator of the net, including those of nets in arguments."""
    for op in net.ops:
        yield op
        for value in op.args.values():
            if isinstance(value, Net):
                yield from walk(value)
