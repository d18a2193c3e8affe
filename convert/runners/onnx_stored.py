"""How an ONNX file stores its numbers, told from its nodes and the dtypes of its weights, which are passed over."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import onnx

from convert.files.protobuf_wire import LENGTH, VARINT, fields
from convert.stored import BRAIN, FOUR_BITS, HALF, HALF_VALUES, STEPS, WHOLE_TENSORS

_GRAPH, _NODE, _INITIALIZER = 7, 1, 5
_DTYPE, _NAME = 2, 8
_BY_TENSOR = frozenset({"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"})
# A node of these is small; others may hold weights or whole graphs.
_LARGEST_NODE = 1 << 16


def storage_of(path: Path) -> str:
    """One of `convert.stored.STORED`, or nothing for a file in the dtypes of an ordinary model."""
    with (
        open(path, "rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        nodes, halves = _scan(view)
    for node in nodes:
        if node.op_type == "MatMulNBits" and node.domain == "com.microsoft":
            numbers = {a.name: a.i for a in node.attribute}
            return f"{FOUR_BITS} {numbers['block_size']}" if numbers.get("bits", 4) == 4 else ""
    operators = {node.op_type for node in nodes}
    if operators & _BY_TENSOR:
        return WHOLE_TENSORS
    if "QuantizeLinear" in operators:
        return STEPS
    if onnx.TensorProto.BFLOAT16 in halves.values():
        return BRAIN
    narrow = {name for name, dtype in halves.items() if dtype == onnx.TensorProto.FLOAT16}
    if narrow:
        computing = any(node.op_type != "Cast" and narrow.intersection(node.input) for node in nodes)
        return HALF_VALUES if computing else HALF
    return ""


def _scan(data: memoryview) -> tuple[list[onnx.NodeProto], dict[str, int]]:
    """The nodes of the outermost graph, and the 16-bit floating weights with their dtypes."""
    nodes, halves = [], {}
    for part in _parts(data, 0, len(data), _GRAPH):
        for field in fields(data, *part):
            if field.wire == LENGTH and field.number == _NODE and field.end - field.start <= _LARGEST_NODE:
                nodes.append(onnx.NodeProto.FromString(bytes(data[field.start : field.end])))
            elif field.wire == LENGTH and field.number == _INITIALIZER:
                name, dtype = _name_and_dtype(data, field.start, field.end)
                if dtype in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16):
                    halves[name] = dtype
    return nodes, halves


def _parts(data: memoryview, start: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    for field in fields(data, start, end):
        if field.number == number and field.wire == LENGTH:
            yield field.start, field.end


def _name_and_dtype(data: memoryview, start: int, end: int) -> tuple[str, int]:
    name, dtype = "", 0
    for field in fields(data, start, end):
        if field.number == _NAME and field.wire == LENGTH:
            name = bytes(data[field.start : field.end]).decode(errors="replace")
        elif field.number == _DTYPE and field.wire == VARINT:
            dtype = field.value
    return name, dtype
