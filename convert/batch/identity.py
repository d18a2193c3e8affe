"""The key of a task: what it reads, how, and by which versions. The same key means the same result."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from convert import wire
from convert.batch.plan import Task

PACKAGES = ("convert-models", "torch", "tensorflow", "keras", "onnx", "onnx-ir", "onnxruntime", "numpy", "transformers")
"""Whose versions may change the result."""

_GRAPH, _NODE, _INITIALIZER, _ATTRIBUTE, _TENSOR, _SUBGRAPH, _EXTERNAL = 7, 1, 5, 5, 5, 6, 13
"""Fields of onnx.proto: ModelProto.graph, GraphProto.node and .initializer, NodeProto.attribute, AttributeProto.t and
.g, TensorProto.external_data."""


def key(task: Task) -> str:
    """SHA-256 of the model's files (external data included), the options with the files they name, and versions.

    The output's place and the limits are no part of it. Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in files(task):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with open(path, "rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    told = {"format": task.format, "options": dict(task.options), "versions": versions()}
    digest.update(json.dumps(told, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """The installed version of each of `PACKAGES`."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def files(task: Task) -> list[Path]:
    """The files that the result depends on, in a fixed order; ones that are named but not there are left out."""
    found = [task.source]
    for option in ("calibrate", "inputs", "rules"):
        value = task.options.get(option, [])
        found += [Path(v) for v in ([value] if isinstance(value, str) else value)]
    found += _code(str(task.options.get("model", "")))
    every: list[Path] = []
    for path in found:
        if path.is_dir():
            every += sorted(p for p in path.rglob("*") if p.is_file())
        elif path.is_file():
            every.append(path)
            every += [p for p in _external(path) if p.is_file()]
    return list(dict.fromkeys(every))


def _code(factory: str) -> list[Path]:
    """The file that holds a factory, if it can be found without importing its package."""
    name = factory.rpartition(":")[0]
    if not name:
        return []
    place = Path(name) if name.endswith(".py") else Path(*name.split(".")).with_suffix(".py")
    if place.exists():
        return [place]
    spec = importlib.util.find_spec(name) if "." not in name else None
    return [Path(spec.origin)] if spec is not None and spec.origin and os.path.isfile(spec.origin) else []


# -- external data of ONNX --------------------------------------------------------------------------------------------


def _external(path: Path) -> list[Path]:
    """The files beside an ONNX model that its tensors lie in."""
    if path.suffix != ".onnx" or not path.stat().st_size:
        return []
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view = memoryview(data)
        try:
            names = {name for start, end in _within(view, 0, len(view), _GRAPH) for name in _graph(view, start, end)}
        except wire.Truncated:
            names = set()  # the conversion says what is wrong with the file
        finally:
            view.release()
    return sorted(path.parent / name for name in names if not os.path.isabs(name) and ".." not in Path(name).parts)


def _within(data: memoryview, start: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    for item in wire.fields(data, start, end):
        if item.number == number and item.wire == wire.LENGTH:
            yield item.start, item.end


def _graph(data: memoryview, start: int, end: int) -> Iterator[str]:
    for place in _within(data, start, end, _INITIALIZER):
        yield from _tensor(data, *place)
    for node in _within(data, start, end, _NODE):
        for attribute in _within(data, *node, _ATTRIBUTE):
            for place in _within(data, *attribute, _TENSOR):
                yield from _tensor(data, *place)
            for place in _within(data, *attribute, _SUBGRAPH):
                yield from _graph(data, *place)


def _tensor(data: memoryview, start: int, end: int) -> Iterator[str]:
    for entry in _within(data, start, end, _EXTERNAL):
        told = {f.number: bytes(data[f.start : f.end]).decode("utf-8", "replace") for f in wire.fields(data, *entry)}
        if told.get(1) == "location" and told.get(2):
            yield told[2]
