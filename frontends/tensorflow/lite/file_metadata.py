"""Describes the inputs and outputs by the metadata of a TensorFlow Lite file: images, their normalization, labels.

The tables are those of metadata_schema.fbs (identifier M001) of tflite-support; fields are identified by their index.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from flatbuffers import number_types
from flatbuffers.table import Table

from .file import schema

_NAME = b"TFLITE_METADATA"
_NORMALIZATION, _IMAGE = 1, 2
_COLORS = {1: "RGB", 2: "gray"}
_MOST = 64
"""Maximum number of tensors, files or numbers that are read; any others are not shown."""
_LONGEST = 200
_BROKEN = (struct.error, IndexError, ValueError, TypeError, OverflowError)


def described_tensors(data: memoryview) -> list[str]:
    """Return a line for each input and output about which the metadata says more than its name; [] if there are none.

    Metadata with offsets outside itself is ignored, because the model does not depend on it.
    """
    try:
        content = _content(data)
        if content is None or content[4:8] != b"M001":
            return []
        root = Table(content, struct.unpack_from("<I", content, 0)[0])
        found = []
        for subgraph in list(_tables(root, 3))[:1]:
            found += [f"input {line}" for line in map(_described, _tables(subgraph, 2)) if line]
            found += [f"output {line}" for line in map(_described, _tables(subgraph, 3)) if line]
    except _BROKEN:
        return []
    return found


def _content(data: memoryview) -> bytearray | None:
    model = schema().Model.GetRootAs(data, 0)
    for entry in map(model.Metadata, range(model.MetadataLength())):
        if entry.Name() == _NAME:
            content = model.Buffers(entry.Buffer()).DataAsNumpy()
            return None if isinstance(content, int) else bytearray(content.tobytes())
    return None


def _described(tensor: Table) -> str:
    """Return the name of a tensor and its known properties; empty if there are none."""
    known = [text for text in (_picture(tensor), *_normalizations(tensor), *_label_files(tensor)) if text]
    return f"{_text(tensor, 0)}: {', '.join(known)}" if known else ""


def _picture(tensor: Table) -> str:
    content = _table(tensor, 3)
    if content is None or _number(content, 0, number_types.Int8Flags) != _IMAGE:
        return ""
    image = _table(content, 1)
    size = None if image is None else _table(image, 1)
    color = "" if image is None else _COLORS.get(_number(image, 0, number_types.Int8Flags), "")
    words = [color, "picture"] if color else ["picture"]
    if size is not None:
        width, height = (_number(size, place, number_types.Uint32Flags) for place in (0, 1))
        words.append(f"{height}x{width}")
    return " ".join(words)


def _normalizations(tensor: Table) -> Iterator[str]:
    for unit in _tables(tensor, 4):
        options = _table(unit, 1)
        if options is not None and _number(unit, 0, number_types.Int8Flags) == _NORMALIZATION:
            mean, std = _numbers(options, 0), _numbers(options, 1)
            yield f"(pixel - {mean}) / {std}"


def _label_files(tensor: Table) -> Iterator[str]:
    for file in _tables(tensor, 6):
        yield f"{'labels' if _number(file, 2, number_types.Int8Flags) in (2, 3) else 'file'} in {_text(file, 0)}"


def _field(table: Table, place: int) -> int:
    """Return the position of a field; 0 if it is left out."""
    offset = table.Offset(4 + 2 * place)
    return table.Pos + offset if offset else 0


def _table(table: Table, place: int) -> Table | None:
    at = _field(table, place)
    return Table(table.Bytes, table.Indirect(at)) if at else None


def _tables(table: Table, place: int) -> Iterator[Table]:
    offset = table.Offset(4 + 2 * place)
    if offset:
        start = table.Vector(offset)
        for index in range(min(table.VectorLen(offset), _MOST)):
            yield Table(table.Bytes, table.Indirect(start + 4 * index))


def _number(table: Table, place: int, flags: type) -> int:
    at = _field(table, place)
    return int(table.Get(flags, at)) if at else 0


def _numbers(table: Table, place: int) -> str:
    offset = table.Offset(4 + 2 * place)
    if not offset:
        return "?"
    start, count = table.Vector(offset), min(table.VectorLen(offset), _MOST)
    numbers = [table.Get(number_types.Float32Flags, start + 4 * index) for index in range(count)]
    return ":".join(f"{number:.7g}" for number in numbers)


def _text(table: Table, place: int) -> str:
    at = _field(table, place)
    return table.String(at)[:_LONGEST].decode("utf-8", "replace") if at else ""
