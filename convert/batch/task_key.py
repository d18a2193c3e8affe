"""The key of a task: what it reads, how, and by which versions. The same key means the same result."""

from __future__ import annotations

import glob
import hashlib
import importlib.metadata
import importlib.util
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from convert import plugin
from convert.batch.plan import Task, path_options
from convert.errors import BadInput, ConvertError
from convert.files import protobuf_wire
from convert.files.folders import paths_in
from convert.files.holes import written_ranges
from convert.files.sniff import sniff

PACKAGES = (
    "convert-models", "torch", "tensorflow", "keras", "onnx", "onnx-ir", "onnxruntime", "ai-edge-litert", "numpy",
    "transformers",
)  # fmt: skip
"""Whose versions may change the result."""

_CHUNK = 1 << 20

_GRAPH, _FUNCTION, _NODE, _BODY, _INITIALIZER, _ATTRIBUTE, _EXTERNAL = 7, 25, 1, 7, 5, 5, 13
"""Fields of onnx.proto: ModelProto.graph and .functions, GraphProto.node, FunctionProto.node, GraphProto.initializer,
NodeProto.attribute, TensorProto.external_data."""

_TENSORS, _SUBGRAPHS, _SPARSE = (5, 10), (6, 11), (22, 23)
"""AttributeProto.t and .tensors, .g and .graphs, .sparse_tensor and .sparse_tensors."""

_SPARSE_INITIALIZER, _PARTS = 15, (1, 2)
"""GraphProto.sparse_initializer; SparseTensorProto.values and .indices."""


def compute_key(task: Task, by: Mapping[str, str] | None = None) -> str:
    """SHA-256 of the model's files (external data included), the options with the files they name, and versions.

    by: what `versions` gives, where there are many keys to take. The output's place and the limits are no part of it.
    Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in dependency_files(task):
        digest.update(os.fsencode(path.name) + f"\0{path.stat().st_size}\0".encode())
        digest.update(_content_digest(path))
    settings = {
        "format": task.format,
        "options": dict(task.options),
        "versions": dict(versions() if by is None else by),
    }
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def _content_digest(path: Path) -> bytes:
    """SHA-256 of a file; of one with holes, which may be as long as no disk, of what was written of it and where."""
    with open(path, "rb") as stream:
        ranges = written_ranges(stream.fileno())
        if next(ranges, (0, 0)) == (0, os.fstat(stream.fileno()).st_size):
            stream.seek(0)
            return hashlib.file_digest(stream, "sha256").digest()
        digest = hashlib.sha256()
        for start, end in written_ranges(stream.fileno()):
            digest.update(f"{start} {end}\0".encode())
            stream.seek(start)
            for at in range(start, end, _CHUNK):
                digest.update(stream.read(min(_CHUNK, end - at)))
        return digest.digest()


def versions() -> dict[str, str]:
    """The installed version of each of `PACKAGES`, and of each package that plugs in."""
    found = {}
    for package in (*PACKAGES, *plugin.packages()):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def dependency_files(task: Task) -> list[Path]:
    """The files that the result depends on, in a fixed order; ones that are named but not there are left out."""
    found = [task.source]
    for option in path_options():
        value = task.options.get(option, [])
        found += [Path(v) for v in ([value] if isinstance(value, str) else value)]
    found += _factory_files(str(task.options.get("model", "")))
    every: list[Path] = []
    for path in found:
        if path.is_dir():
            with suppress(BadInput):  # as the task itself will say
                every += sorted(p for p in paths_in(path) if p.is_file())
        elif path.is_file():
            every.append(path)
            every += [p for p in _weight_files(path) if p.is_file()]
    return list(dict.fromkeys(every))


def _factory_files(factory: str) -> list[Path]:
    """The file that holds a factory, if it can be found without importing its package."""
    name = factory.rpartition(":")[0]
    if not name:
        return []
    place = Path(name) if name.endswith(".py") else Path(*name.split(".")).with_suffix(".py")
    if place.exists():
        return [place]
    spec = importlib.util.find_spec(name) if "." not in name else None
    return [Path(spec.origin)] if spec is not None and spec.origin and os.path.isfile(spec.origin) else []


# -- files beside the one that is named -------------------------------------------------------------------------------


def _weight_files(path: Path) -> list[Path]:
    """Where the weights of a model lie that is one file of several: what it is, its content tells."""
    try:
        kind = sniff(path)
    except (ConvertError, OSError):
        return []  # the conversion says what is wrong with it
    if kind == "tf-meta":
        return sorted(p for end in ("index", "data-*") for p in path.parent.glob(f"{glob.escape(path.stem)}.{end}"))
    return _external_files(path) if kind == "onnx" else []


def _external_files(path: Path) -> list[Path]:
    """The files beside an ONNX model that its tensors lie in."""
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view = memoryview(data)
        try:
            names = set(_model_locations(view))
        except (protobuf_wire.TruncatedMessage, RecursionError):  # protobuf reads neither
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
