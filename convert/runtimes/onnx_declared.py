"""Reads the inputs and outputs that an ONNX file declares, without its weights."""

from __future__ import annotations

import mmap
from pathlib import Path

import onnx
from onnx import TensorProto

from convert.files.protobuf_wire import LENGTH, fields
from convert.runtimes.declared_signature import DeclaredSignature, DeclaredTensor

_GRAPH, _INITIALIZER, _INPUT, _OUTPUT = 7, 5, 11, 12
_NAME_OF_TENSOR = 8


def declared_signature_of(path: Path) -> DeclaredSignature:
    """Return the inputs that are no initializers, and the outputs, in the file's order."""
    inputs: list[DeclaredTensor] = []
    outputs: list[DeclaredTensor] = []
    weights: set[str] = set()
    with (
        open(path, "rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        for part in fields(view, 0, len(view)):
            if part.number != _GRAPH or part.wire != LENGTH:
                continue
            for item in fields(view, part.start, part.end):
                if item.wire != LENGTH:
                    continue
                if item.number == _INITIALIZER:
                    names = (f for f in fields(view, item.start, item.end) if f.number == _NAME_OF_TENSOR)
                    weights |= {bytes(view[f.start : f.end]).decode(errors="replace") for f in names}
                elif item.number in (_INPUT, _OUTPUT):
                    value = onnx.ValueInfoProto.FromString(bytes(view[item.start : item.end]))
                    (inputs if item.number == _INPUT else outputs).append(_declared(value))
    return DeclaredSignature([end for end in inputs if end.name not in weights], outputs)


def _declared(value: onnx.ValueInfoProto) -> DeclaredTensor:
    tensor = value.type.tensor_type
    dtype = "" if tensor.elem_type == TensorProto.UNDEFINED else TensorProto.DataType.Name(tensor.elem_type).lower()
    if not tensor.HasField("shape"):
        return DeclaredTensor(value.name, dtype, None)
    dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
    return DeclaredTensor(value.name, dtype, dims)
