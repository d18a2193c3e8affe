"""Identifies the protobuf message in a file from its wire format, without a schema and without copies."""

from __future__ import annotations

import codecs
import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from convert import limits
from convert.errors import BadInput

Bytes = bytes | memoryview

SAMPLE = 64
"""Largest number of an inner message's fields to examine."""

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

_TEXT = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_PATTERNS = {"identifier": re.compile(r"[A-Za-z_>][\w>.|/:-]*"), "name": re.compile(r".*", re.DOTALL)}


class Field(NamedTuple):
    """A field of a message: its number, wire type, value (0 if it has a payload), and the range of its payload.

    `cut` is the number of missing payload bytes if the message is truncated.
    """

    number: int
    wire: int
    value: int
    start: int
    end: int
    cut: int = 0


class TruncatedMessage(Exception):
    """The message ends inside a field."""

    def __init__(self, why: str, part: Field | None = None) -> None:
        super().__init__(why)
        self.part = part


@dataclass(frozen=True)
class Message:
    """The form of a message: the type of each field, and the required fields.

    A type is "int", "text", "name", "identifier", "bytes", "floats", "doubles", "ints" (packed or not), or a `Message`.
    A name is text that may hold control characters, which ONNX and Caffe2 allow. One field must have a number of at
    least `reaches`.
    """

    fields: Mapping[int, str | Message]
    required: tuple[int, ...] = ()
    reaches: int = 0


_NODE_DEF = Message({1: "text", 2: "identifier", 3: "text", 4: "text", 5: "bytes", 6: "bytes", 7: "bytes"}, (1, 2))
_VERSIONS = Message({1: "int", 2: "int", 3: "ints"})
_LIBRARY = Message({1: "bytes", 2: "bytes", 3: "bytes"})
_GRAPH_DEF = Message({1: _NODE_DEF, 2: _LIBRARY, 3: "int", 4: _VERSIONS, 5: "bytes"}, (1,))
_META_INFO = Message({1: "text", 2: "bytes", 3: "bytes", 4: "text", 5: "text", 6: "text", 7: "int", 8: "bytes"})
_META_GRAPH = Message({1: _META_INFO, 2: _GRAPH_DEF, 3: "bytes", 4: "bytes", 5: "bytes", 6: "bytes", 7: "bytes"}, (2,))
_SAVED_MODEL = Message({1: "int", 2: _META_GRAPH}, (2,))
_NODE = Message({
    1: "name", 2: "name", 3: "name", 4: "identifier", 5: "bytes", 6: "bytes", 7: "text", 8: "name", 9: "bytes",
    10: "bytes",
}, (4,))  # fmt: skip
_VALUE_INFO = Message({1: "name", 2: "bytes", 3: "bytes", 4: "bytes"}, (1,))
_GRAPH = Message({
    1: _NODE, 2: "name", 5: "bytes", 10: "bytes", 11: _VALUE_INFO, 12: _VALUE_INFO, 13: _VALUE_INFO, 14: "bytes",
    15: "bytes", 16: "bytes",
})  # fmt: skip
_MODEL = Message({
    1: "int", 2: "name", 3: "name", 4: "text", 5: "int", 6: "bytes", 7: _GRAPH, 8: Message({1: "text", 2: "int"}),
    14: "bytes", 20: "bytes", 25: "bytes", 26: "bytes",
}, (7,))  # fmt: skip
_TENSOR = Message({
    1: "ints", 2: "int", 3: "bytes", 4: "floats", 5: "ints", 6: "bytes", 7: "ints", 8: "text", 9: "bytes",
    10: "doubles", 11: "ints", 12: "bytes", 13: "bytes", 14: "int", 16: "bytes",
}, (2,))  # fmt: skip
_OPERATOR = Message({
    1: "name", 2: "name", 3: "name", 4: "identifier", 5: "bytes", 6: "bytes", 7: "text", 8: "text", 9: "int",
    10: "bytes", 11: "text", 12: "int",
}, (4,))  # fmt: skip
_NET_DEF = Message({
    1: "name", 2: _OPERATOR, 3: "text", 4: "int", 5: "bytes", 6: "bytes", 7: "name", 8: "name", 9: "bytes",
}, (2,))  # fmt: skip
_CAFFE = Message({1: "text", 2: "bytes", 100: Message({1: "text", 2: "identifier"}, (2,))}, (100,))
_PADDLE = Message({1: Message({1: "int", 2: "int", 3: "bytes", 4: "bytes", 5: "int"}, (1, 2, 4)), 4: "bytes"}, (1,))

# The order matters where a message also matches a later, less strict one.
MESSAGES: Mapping[str, Message] = {
    "ONNX ModelProto": _MODEL,
    "SavedModel": _SAVED_MODEL,
    "TensorFlow MetaGraphDef": _META_GRAPH,
    "ONNX GraphProto": Message(_GRAPH.fields, (1, 12)),
    "TensorFlow GraphDef": _GRAPH_DEF,
    "Caffe2 NetDef": _NET_DEF,
    "Caffe NetParameter": _CAFFE,
    "PaddlePaddle ProgramDesc": _PADDLE,
    "Core ML model": Message({1: "int", 2: "bytes"}, (1, 2), reaches=200),
    "ONNX TensorProto": _TENSOR,
}


def message_in(path: Path) -> str | None:
    """Return the `message_name` of a non-empty file, which is mapped instead of read."""
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        memoryview(content) as view,
    ):
        return message_name(view)


def message_name(data: Bytes) -> str | None:
    """Return the key of `MESSAGES` that `data` matches, or None. Raises `BadInput` for a truncated match."""
    broken: TruncatedMessage | None = None
    spans: dict[int, list[Field]] = {}
    most = limits.PROTOBUF_FIELDS
    try:
        for count, item in enumerate(fields(data, 0, len(data))):
            if count >= most:
                raise BadInput(f"a message of more than {most:,} fields is no model")
            seen = spans.setdefault(item.number, [])
            if len(seen) < SAMPLE:
                seen.append(item)
    except TruncatedMessage as error:
        if error.part is None or not spans:
            return None
        broken = error
        spans.setdefault(error.part.number, []).append(error.part)
    except ValueError:
        return None
    found = [item for seen in spans.values() for item in seen]
    name = next((name for name, message in MESSAGES.items() if _fields_fit(data, found, message, broken is None)), None)
    if broken and name:
        raise BadInput(f"it begins like {name} and breaks off: {broken}")
    return name


def fields(data: Bytes, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in `data[start:end]`, without descending into them.

    Raises `TruncatedMessage` if a field exceeds the end, and ValueError for an invalid field (an unused wire type).
    """
    position = start
    while position < end:
        tag, after = read_varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        if number == 0 or number > 0x1FFFFFFF:
            raise ValueError(f"no field has number {number}")
        value, length = 0, 0
        if wire == VARINT:
            value, after = read_varint(data, after, end)
        elif wire == LENGTH:
            length, after = read_varint(data, after, end)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire} is not in use")
        if length > end - after:
            why = f"field {number} at byte {position:,} should have {length:,} bytes, {end - after:,} are left"
            raise TruncatedMessage(why, Field(number, wire, 0, after, end, after + length - end))
        yield Field(number, wire, value, after, after + length)
        position = after + length


def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return the integer at `position`, and the position after it.

    Raises `TruncatedMessage`, or ValueError for more than ten bytes.
    """
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("an integer has more than ten bytes")
    raise TruncatedMessage(f"the integer at byte {position:,} has no end")


def length_delimited_header(number: int, length: int) -> bytes:
    """Return the bytes before the content of field `number`: its key and the length of the content in bytes."""
    return encode_varint(number << 3 | LENGTH) + encode_varint(length)


def encode_varint(value: int) -> bytes:
    """Return a non-negative integer as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message_fits(data: Bytes, start: int, end: int, message: Message) -> bool:
    """Return whether the first fields of an inner message match, as deep as the literals in `MESSAGES` describe it."""
    found = []
    try:
        for item in fields(data, start, end):
            found.append(item)
            if len(found) == SAMPLE:
                return _fields_fit(data, found, message, False)
    except (TruncatedMessage, ValueError):
        return False
    return _fields_fit(data, found, message, True)


def _fields_fit(data: Bytes, found: list[Field], message: Message, whole: bool) -> bool:
    """Return whether fields match. Unknown numbers do, for newer schemas; required fields are checked if `whole`."""
    numbers = {item.number for item in found}
    if found and numbers.isdisjoint(message.fields):
        return False
    if whole and not (numbers.issuperset(message.required) and max(numbers, default=0) >= message.reaches):
        return False
    return all(_has_type(data, item, message.fields[item.number]) for item in found if item.number in message.fields)


def _has_type(data: Bytes, item: Field, kind: str | Message) -> bool:
    """Return whether a field has the type in the schema."""
    length = item.end - item.start + item.cut
    if kind == "int":
        return item.wire == VARINT
    if kind == "ints":
        return item.wire in (VARINT, LENGTH)
    if kind == "floats":
        return item.wire == FIXED32 or (item.wire == LENGTH and length % 4 == 0)
    if kind == "doubles":
        return item.wire == FIXED64 or (item.wire == LENGTH and length % 8 == 0)
    if item.wire != LENGTH:
        return False
    if isinstance(kind, Message):
        return item.cut > 0 or _message_fits(data, item.start, item.end, kind)
    pattern = _PATTERNS.get(kind, _TEXT)
    return kind == "bytes" or _is_text(data[item.start : min(item.end, item.start + 1024)], pattern)


def _is_text(data: Bytes, pattern: re.Pattern[str]) -> bool:
    """Return whether bytes are UTF-8 that matches; the last character may be incomplete."""
    try:
        return pattern.fullmatch(codecs.utf_8_decode(data)[0]) is not None
    except UnicodeDecodeError:
        return False
