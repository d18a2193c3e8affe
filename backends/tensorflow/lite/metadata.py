"""TensorFlow Lite's metadata: names and meanings of inputs and outputs, with label files at the end of a file.

The tables are those of metadata_schema.fbs (identifier M001) of tflite-support; fields are identified by their index.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from .file_objects import LiteFile

_NAME = "TFLITE_METADATA"
_IDENTIFIER, _PARSER = b"M001", "1.0.0"
_NORMALIZATION, _IMAGE = 1, 2
"""The members of the unions ProcessUnitOptions and ContentProperties that are written."""
_RGB, _GRAY = 1, 2
_AXIS_LABELS = 2
_LABELS = "labels.txt"


@dataclass
class Picture:
    """The formula of an input from pixels of 0 to 255: (pixel - mean) / std. color: `rgb`, `gray`, or another
    format.
    """

    name: str
    mean: Sequence[float]
    std: Sequence[float]
    color: str = "rgb"
    size: Sequence[int] | None = None


@dataclass
class FileMetadata:
    """The names of inputs and outputs in order, which input is an image, and which output has labels."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    picture: Picture | None = None
    labelled: str = ""
    labels: Sequence[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which `of` creates an equal object."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> FileMetadata:
        picture = None if data["picture"] is None else Picture(**data["picture"])
        return cls(**{**data, "picture": picture})


def add_metadata(data: bytes, metadata: FileMetadata) -> bytes:
    """Return a file with metadata, and with the labels in an archive after its last table."""
    file = LiteFile(data)
    entry, buffer = schema.MetadataT(), schema.BufferT()
    buffer.data = np.frombuffer(_packed(metadata), np.uint8)
    file.model.buffers.append(buffer)
    entry.name, entry.buffer = _NAME, len(file.model.buffers) - 1
    file.model.metadata = [*(m for m in file.model.metadata or () if m.name != _NAME.encode()), entry]
    packed = file.packed()
    if not metadata.labels:
        return packed
    stream = io.BytesIO()
    stream.write(packed)
    with zipfile.ZipFile(stream, "a") as archive:
        text = "".join(f"{label}\n" for label in metadata.labels)
        archive.writestr(zipfile.ZipInfo(_LABELS, (1980, 1, 1, 0, 0, 0)), text)
    return stream.getvalue()


def _packed(metadata: FileMetadata) -> bytes:
    b = flatbuffers.Builder(1024)
    inputs = [_tensor(b, name, metadata.picture) for name in metadata.inputs]
    outputs = [_tensor(b, name, labelled=name == metadata.labelled) for name in metadata.outputs]
    subgraph = _table(b, 7, {2: _vector(b, inputs), 3: _vector(b, outputs)})
    name, parser, subgraphs = b.CreateString("model"), b.CreateString(_PARSER), _vector(b, [subgraph])
    b.Finish(_table(b, 8, {0: name, 3: subgraphs, 7: parser}), _IDENTIFIER)
    return bytes(b.Output())


def _tensor(b: flatbuffers.Builder, name: str, picture: Picture | None = None, *, labelled: bool = False) -> int:
    """TensorMetadata: name, description, dimension names, content, process units, statistics, files."""
    fields = {0: b.CreateString(name)}
    if picture is not None and picture.name == name:
        color = {"rgb": _RGB, "gray": _GRAY}.get(picture.color, 0)
        size = None
        if picture.size is not None:
            height, width = picture.size
            size = _table(b, 2, {}, uint32={0: width, 1: height})
        image = _table(b, 2, {} if size is None else {1: size}, int8={0: color})
        fields[3] = _table(b, 3, {1: image}, int8={0: _IMAGE})
        normalization = _table(b, 2, {0: _floats(b, picture.mean), 1: _floats(b, picture.std)})
        fields[4] = _vector(b, [_table(b, 2, {1: normalization}, int8={0: _NORMALIZATION})])
    if labelled:
        what = {0: b.CreateString(_LABELS), 1: b.CreateString("Labels of the last dim, one in each line.")}
        fields[6] = _vector(b, [_table(b, 4, what, int8={2: _AXIS_LABELS})])
    return _table(b, 7, fields)


def _table(
    b: flatbuffers.Builder,
    count: int,
    offsets: Mapping[int, int],
    *,
    int8: Mapping[int, int] = {},
    uint32: Mapping[int, int] = {},
) -> int:
    """Write a table of `count` fields: numbers, and offsets of tables written before it."""
    b.StartObject(count)
    for place, offset in offsets.items():
        b.PrependUOffsetTRelativeSlot(place, offset, 0)
    for place, number in int8.items():
        b.PrependInt8Slot(place, number, 0)
    for place, number in uint32.items():
        b.PrependUint32Slot(place, number, 0)
    return int(b.EndObject())


def _vector(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _floats(b: flatbuffers.Builder, numbers: Sequence[float]) -> int:
    b.StartVector(4, len(numbers), 4)
    for number in reversed(numbers):
        b.PrependFloat32(number)
    return int(b.EndVector())
