"""The key of a task: what it reads, how, and by which versions. The same key means the same result."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from convert import plugin
from convert.batch.contents import Stamp, are_settled, content_digest, stamps_of
from convert.batch.local_modules import local_modules
from convert.batch.plan import Seen, Task, path_options
from convert.errors import BadInput, ConvertError
from convert.files.folders import paths_in
from convert.files.pickle_scan import pickled_globals, torch_pickle_bytes
from convert.files.sniff import sniff
from convert.files.weight_files import weight_files

PACKAGES = (
    "convert-models", "torch", "tensorflow", "keras", "onnx", "onnx-ir", "onnxruntime", "ai-edge-litert", "numpy",
    "transformers",
)  # fmt: skip
"""Whose versions may change the result."""


def compute_key(task: Task, by: Mapping[str, str] | None = None) -> str:
    """Return the SHA-256 of the model's files, the options with the files they name, and versions.

    Files are those of `dependency_files`. by: what `versions` gives, where there are many keys to take. The output's
    place and the limits are no part of it. Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256()
    for name, path in _named_files(task):
        digest.update(os.fsencode(name) + f"\0{path.stat().st_size}\0".encode())
        digest.update(content_digest(path))
    settings = {
        "format": task.format,
        "options": dict(task.options),
        "versions": dict(versions() if by is None else by),
    }
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def look_at(task: Task, by: Mapping[str, str]) -> Seen:
    """Return the key of what a task would read now. Raises OSError if a file cannot be read."""
    task = replace(task, seen=Seen(modules=tuple(_modules(task))))
    assert task.seen is not None
    before = stamps_of(dependency_files(task))
    settled = are_settled(before)
    key = compute_key(task, by)
    unchanged = settled and stamps_of(dependency_files(task)) == before
    return replace(task.seen, key=key, stamps=before if unchanged else ())


def stamps_before(task: Task) -> tuple[Stamp, ...] | None:
    """Return the stamps of what a task is about to read, None where that cannot be told."""
    try:
        return stamps_of(dependency_files(task))
    except OSError:
        return None


def key_read(task: Task, before: tuple[Stamp, ...] | None) -> str:
    """Return the key of what a task has read since `before`, or nothing where it has changed meanwhile.

    Content whose stamps are those that the plan has seen is not read once more for its key.
    """
    if before is None or stamps_before(task) != before:
        return ""
    if task.seen is not None and task.seen.stamps == before:
        return task.seen.key
    try:
        key = compute_key(task)
    except OSError:
        return ""
    return key if stamps_before(task) == before else ""


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
    """Return the files that the result depends on, in a fixed order; ones that are named but not there are left out.

    They are the source, its weights beside it, files that options name, and modules of the user's that are imported.
    """
    return [path for _, path in _named_files(task)]


def _named_files(task: Task) -> list[tuple[str, Path]]:
    """The same files with what they are called: in a folder, by their place in it."""
    found = [task.source]
    for option in path_options():
        value = task.options.get(option, [])
        found += [Path(v) for v in ([value] if isinstance(value, str) else value)]
    every: dict[Path, str] = {}
    for path in found:
        if path.is_dir():
            with suppress(BadInput):  # as the task itself will say
                inside = sorted(p for p in paths_in(path) if p.is_file())
                every |= {p: p.relative_to(path).as_posix() for p in inside}
        elif path.is_file():
            every[path] = path.name
            every |= {p: p.name for p in weight_files(path) if p.is_file()}
    for path in _modules(task):
        every.setdefault(path, path.name)
    return [(name, path) for path, name in every.items()]


def _modules(task: Task) -> Sequence[Path]:
    """The user's own modules that a task imports; those that the plan has found, where they are on this machine."""
    if task.seen is not None and all(map(Path.is_file, task.seen.modules)):
        return task.seen.modules
    own = [Path(file) for option in ("rules", "code") for file in task.options.get(option, [])]
    names, files = [], [file for file in own if file.is_file()]
    place = str(task.options.get("model", "")).rpartition(":")[0]
    if place.endswith(".py"):
        files += [Path(place)] if os.path.isfile(place) else []
    elif place:
        names.append(place)
    if task.options.get("trust"):
        names += _pickled_modules(task.source)
    found = local_modules(names, files) if names or files else []
    return list(dict.fromkeys([*files, *found]))


def _pickled_modules(path: Path) -> list[str]:
    """The modules that loading a pickled module imports."""
    with suppress(ConvertError, OSError):
        if path.is_file() and sniff(path) == "torch-module":
            names = pickled_globals(torch_pickle_bytes(path))
            return sorted({name.rpartition(".")[0] for name in names})
    return []
