"""Finds the weight files beside a model file, from the model's content."""

from __future__ import annotations

import glob
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from convert.errors import ConvertError
from convert.files import protobuf_wire
from convert.files.sniff import sniff

_GRAPH, _FUNCTION, _NODE, _BODY, _INITIALIZER, _ATTRIBUTE, _EXTERNAL = 7, 25, 1, 7, 5, 5, 13
"""Fields of onnx.proto: ModelProto.graph and .functions, GraphProto.node, FunctionProto.node,
GraphProto.initializer, NodeProto.attribute, TensorProto.external_data.
"""

_TENSORS, _SUBGRAPHS, _SPARSE = (5, 10), (6, 11), (22, 23)
"""AttributeProto.t and .tensors, .g and .graphs, .sparse_tensor and .sparse_tensors."""

_SPARSE_INITIALIZER, _PARTS = 15, (1, 2)
"""GraphProto.sparse_initializer; SparseTensorProto.values and .indices."""


def weight_files(path: Path) -> list[Path]:
    """Return the paths of a model's separate weight files, whether they exist or not; [] if there are none."""
    try:
        kind = sniff(path)
    except (ConvertError, OSError):
        return []  # the conversion reports what is wrong with it
    if kind == "tf-meta":
        return sorted(p for end in ("index", "data-*") for p in path.parent.glob(f"{glob.escape(path.stem)}.{end}"))
    return _external_files(path) if kind == "onnx" else []


def _external_files(path: Path) -> list[Path]:
    """Return the files beside an ONNX model that contain its tensors."""
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view = memoryview(data)
        try:
            names = set(_model_locations(view))
        except (protobuf_wire.TruncatedMessage, RecursionError):  # protobuf rejects both
            names = set()
        finally:
            view.release()
    return sorted(path.parent / name for name in names if not os.path.isabs(name) and ".." not in Path(name).parts)


def _model_locations(data: memoryview) -> Iterator[str]:
    for place in _field_ranges(data, 0, len(data), _GRAPH):
        yield from _graph_locations(data, *place)
    for place in _field_ranges(data, 0, len(data), _FUNCTION):
        yield from _node_locations(data, *place, _BODY)


def _field_ranges(data: memoryview, start: int, end: int, *numbers: int) -> Iterator[tuple[int, int]]:
    for item in protobuf_wire.fields(data, start, end):
        if item.number in numbers and item.wire == protobuf_wire.LENGTH:
            yield item.start, item.end


def _graph_locations(data: memoryview, start: int, end: int) -> Iterator[str]:
    for place in _field_ranges(data, start, end, _INITIALIZER):
        yield from _tensor_locations(data, *place)
    for sparse in _field_ranges(data, start, end, _SPARSE_INITIALIZER):
        yield from _sparse_locations(data, *sparse)
    yield from _node_locations(data, start, end, _NODE)


def _node_locations(data: memoryview, start: int, end: int, number: int) -> Iterator[str]:
    for node in _field_ranges(data, start, end, number):
        for attribute in _field_ranges(data, *node, _ATTRIBUTE):
            for place in _field_ranges(data, *attribute, *_TENSORS):
                yield from _tensor_locations(data, *place)
            for place in _field_ranges(data, *attribute, *_SPARSE):
                yield from _sparse_locations(data, *place)
            for place in _field_ranges(data, *attribute, *_SUBGRAPHS):
                yield from _graph_locations(data, *place)


def _sparse_locations(data: memoryview, start: int, end: int) -> Iterator[str]:
    for place in _field_ranges(data, start, end, *_PARTS):
        yield from _tensor_locations(data, *place)


def _tensor_locations(data: memoryview, start: int, end: int) -> Iterator[str]:
    for entry in _field_ranges(data, start, end, _EXTERNAL):
        entries = {
            f.number: bytes(data[f.start : f.end]).decode("utf-8", "replace")
            for f in protobuf_wire.fields(data, *entry)
        }
        if entries.get(1) == "location" and entries.get(2):
            yield entries[2]
