"""Writes `.keras` files, with inputs and outputs named as in the model."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import keras
import onnx_ir as ir

from convert.outcome.report import Report
from convert.processes.interpreter import raised_recursion_limit

from .emit import EmittedModel, emit
from .lazy_weights import give_content, run_without_content
from .names import legal_name


def write_keras(model: ir.Model, path: Path, report: Report) -> None:
    """Write a functional model with all weights as variables of its layers. Raises what `emit` raises."""
    run_without_content(lambda: _write(model, path, report))


def _write(model: ir.Model, path: Path, report: Report) -> None:
    emitted = emit(model)
    name = legal_name(model.graph.name or "model")
    try:
        built = _functional_model(emitted, name)
    except RecursionError:
        # Keras finds the inputs by recursion from the outputs, one call per operation.
        with raised_recursion_limit(_MOST * len(model.graph)):
            built = _functional_model(emitted, name)
        report.note(
            f"the model is too deep for Python's limit of {sys.getrecursionlimit()} calls within calls, by which Keras "
            f"goes through it: before it is loaded, call sys.setrecursionlimit({len(built.operations) + 1000})",
            code="recursion-limit",
        )
    give_content(emitted.weights)
    _note_copies(emitted, report)
    with tempfile.TemporaryDirectory(prefix=".keras-", dir=path.parent) as folder:
        # A single file would make Keras load all weights into memory, twice.
        keras.saving.save_model(built, Path(folder) / "model", zipped=False)
        _forget_the_run(Path(folder) / "model")
        _pack(Path(folder) / "model", path)


_MOST = 100
"""A number above the number of operations that any rule creates for one node."""


def _functional_model(emitted: EmittedModel, name: str) -> keras.Model:
    return keras.Model(_model_ends(emitted.inputs), _model_ends(emitted.outputs), name=name)


_NO_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a zip archive can hold; the same model gives the same bytes at any time."""


def _forget_the_run(folder: Path) -> None:
    """Remove from the saved files what belongs to this run and not to the model: the date, and addresses of objects.

    Keras identifies an object that several layers share by its memory address; any number serves.
    """
    metadata = json.loads((folder / "metadata.json").read_text())
    metadata["date_saved"] = "{:04}-{:02}-{:02}@{:02}:{:02}:{:02}".format(*_NO_DATE)
    (folder / "metadata.json").write_text(json.dumps(metadata))
    config = json.loads((folder / "config.json").read_text())
    _number_shared_objects(config)
    (folder / "config.json").write_text(json.dumps(config))


def _number_shared_objects(config: Any) -> None:
    """Number shared objects in order of appearance."""
    numbers: dict[int, int] = {}
    waiting = [config]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            old = part.get("shared_object_id")
            if isinstance(old, int):
                part["shared_object_id"] = numbers.setdefault(old, len(numbers) + 1)
            waiting += reversed(part.values())
        elif isinstance(part, list):
            waiting += reversed(part)


def _pack(folder: Path, path: Path) -> None:
    """Pack what Keras saved into one archive; each file is deleted once it is packed."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(f for f in folder.rglob("*") if f.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _NO_DATE)
            entry.external_attr, entry.file_size = 0o644 << 16, file.stat().st_size
            with file.open("rb") as saved, archive.open(entry, "w") as member:
                shutil.copyfileobj(saved, member, 1 << 20)
            file.unlink()


def _model_ends(named: list[tuple[str, Any]]) -> Any:
    """Return a single tensor, or a list in the order of the graph's inputs or outputs."""
    return named[0][1] if len(named) == 1 else [tensor for _, tensor in named]


def _note_copies(emitted: EmittedModel, report: Report) -> None:
    """Add a note if layers of different kinds hold the same weight, because training will not keep the copies equal."""
    whole = [content for _, _, content in emitted.weights if content.size == content.origin[1] > 1]
    names = Counter(content.origin[0] for content in whole)
    for name, count in names.items():
        if count > 1:
            report.note(f"the weight {name!r} is in {count} layers, each with a copy of its own", code="copied-weights")
