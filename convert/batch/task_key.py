"""The key of a task: a hash of what it reads, its options, and the versions in use. Equal keys mean equal results."""

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
"""Packages whose versions may change the result."""


def compute_key(task: Task, by: Mapping[str, str] | None = None) -> str:
    """Return the SHA-256 of the model's files, the options with the files they name, and versions.

    The files are those of `dependency_files`. Pass the result of `versions` as `by` to compute many keys. The output's
    place and the limits are not part of the key. Raises OSError if a file cannot be read.
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
    """Return the key of what a task would read if it began now. Raises OSError if a file cannot be read."""
    task = replace(task, seen=Seen(modules=tuple(_modules(task))))
    assert task.seen is not None
    before = stamps_of(dependency_files(task))
    settled = are_settled(before)
    key = compute_key(task, by)
    unchanged = settled and stamps_of(dependency_files(task)) == before
    return replace(task.seen, key=key, stamps=before if unchanged else ())


def stamps_before(task: Task) -> tuple[Stamp, ...] | None:
    """Return the stamps of what a task is about to read; None if a file cannot be read."""
    try:
        return stamps_of(dependency_files(task))
    except OSError:
        return None


def key_read(task: Task, before: tuple[Stamp, ...] | None) -> str:
    """Return the key of what a task has read since `before`, or "" if a file changed meanwhile.

    Content with the same stamps as in the plan is not hashed again.
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
    """Return the installed version of each of `PACKAGES`, and of each plugin package."""
    found = {}
    for package in (*PACKAGES, *plugin.packages()):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def dependency_files(task: Task) -> list[Path]:
    """Return the existing files that the result depends on, in a fixed order.

    They are the source, weight files beside it, files that options name, and the user's own imported modules.
    """
    return [path for _, path in _named_files(task)]


def _named_files(task: Task) -> list[tuple[str, Path]]:
    """Return the dependency files with their names; in a folder, the relative path."""
    found = [task.source]
    for option in path_options():
        value = task.options.get(option, [])
        found += [Path(v) for v in ([value] if isinstance(value, str) else value)]
    every: dict[Path, str] = {}
    for path in found:
        if path.is_dir():
            with suppress(BadInput):  # the task itself reports the problem
                inside = sorted(p for p in paths_in(path) if p.is_file())
                every |= {p: p.relative_to(path).as_posix() for p in inside}
        elif path.is_file():
            every[path] = path.name
            every |= {p: p.name for p in weight_files(path) if p.is_file()}
    for path in _modules(task):
        every.setdefault(path, path.name)
    return [(name, path) for path, name in every.items()]


def _modules(task: Task) -> Sequence[Path]:
    """Return the user's own modules that a task imports, as the plan found them if all of them exist here."""
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
    """Return the modules that loading a pickled module imports."""
    with suppress(ConvertError, OSError):
        if path.is_file() and sniff(path) == "torch-module":
            names = pickled_globals(torch_pickle_bytes(path))
            return sorted({name.rpartition(".")[0] for name in names})
    return []
