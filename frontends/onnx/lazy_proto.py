"""Parses an .onnx file without loading its weights: large `raw_data` stays in the file, and its position is recorded.

A protobuf message is a sequence of fields, each a varint `number << 3 | type` and a payload
(https://protobuf.dev/programming-guides/encoding). This module follows only the path to the tensors: ModelProto.graph
(7), GraphProto.initializer (5), TensorProto.raw_data (9). The rest is copied unchanged and parsed by protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from google.protobuf.message import DecodeError

from convert.errors import BadInput
from convert.files.protobuf_wire import length_delimited_header

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class ByteSpan:
    """A range of bytes in the file: start and length."""

    offset: int
    length: int


def parse_model(data: memoryview, threshold: int, label: str) -> tuple[onnx.ModelProto, dict[int, ByteSpan]]:
    """Return the model in `data` without the raw data of initializers over `threshold` bytes.

    The second result maps the index of an initializer in the graph to the position of its raw data. Raises `BadInput`
    if the bytes are not a complete protobuf message.
    """
    kept = bytearray()
    spans: dict[int, ByteSpan] = {}
    try:
        for number, start, begin, end in _fields(data, 0, len(data)):
            if number == _GRAPH:
                graph = _strip_graph(data, begin, end, threshold, spans)
                kept += length_delimited_header(_GRAPH, len(graph)) + graph
            else:
                kept += data[start:end]
        model = onnx.ModelProto()
        model.ParseFromString(bytes(kept))
    except (DecodeError, _BrokenError) as error:
        raise BadInput(
            f"{label} is not a complete ONNX model: its protobuf message is broken ({error})",
            hint="the file may be truncated; fetch it again",
        ) from error
    return model, spans


class _BrokenError(Exception):
    pass


def _strip_graph(data: memoryview, begin: int, end: int, threshold: int, spans: dict[int, ByteSpan]) -> bytes:
    kept = bytearray()
    index = 0
    for number, start, inner, stop in _fields(data, begin, end):
        if number != _INITIALIZER:
            kept += data[start:stop]
            continue
        tensor = bytearray()
        for field, field_start, payload, field_end in _fields(data, inner, stop):
            if field == _RAW_DATA and field_end - payload > threshold:
                spans[index] = ByteSpan(payload, field_end - payload)
            else:
                tensor += data[field_start:field_end]
        kept += length_delimited_header(_INITIALIZER, len(tensor)) + tensor
        index += 1
    return bytes(kept)


def _fields(data: memoryview, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, start of the field, start of its payload, end) of each field in data[position:end]."""
    while position < end:
        start = position
        key, position = _read_varint(data, position, end)
        kind = key & 7
        if kind == _BYTES:
            length, position = _read_varint(data, position, end)
        elif kind == _VARINT:
            payload = position
            _, position = _read_varint(data, position, end)
            yield key >> 3, start, payload, position
            continue
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise _BrokenError(f"wire type {kind} at byte {start}")
        if length > end - position:
            raise _BrokenError(f"a field at byte {start} runs {length - (end - position)} bytes past its end")
        yield key >> 3, start, position, position + length
        position += length


def _read_varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _BrokenError(f"no number at byte {position}")
