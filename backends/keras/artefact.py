"""Writes `.keras` files, with inputs and outputs called what the model calls them."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from operator import attrgetter
from pathlib import Path
from typing import Any

import keras
import onnx_ir as ir

from convert.report import Report

from .emit import Emitted, emit
from .names import legal


def write_keras(model: ir.Model, path: Path, report: Report) -> None:
    """Write a functional model with all weights as variables of its layers. Raises as `emit` does."""
    emitted = emit(model)
    with warnings.catch_warnings():
        # Keras would have a key of a dict be the name of its layer, which cannot have a slash.
        warnings.filterwarnings("ignore", message="When providing `inputs` as a dict")
        built = keras.Model(_ends(emitted.inputs), _ends(emitted.outputs), name=legal(model.graph.name or "model"))
    for layer, attribute, content in emitted.weights:
        attrgetter(attribute)(layer).assign(content.array)
    _note_copies(emitted, report)
    for name in [n for n, _ in (*emitted.inputs, *emitted.outputs) if legal(n) != n]:
        report.note(
            f"{name!r} is no legal name of a Keras layer: it is a key of a dict in the model's inputs or outputs"
        )
    # Keras goes by the suffix, which the output that was asked for need not have.
    with tempfile.TemporaryDirectory(prefix=".keras-", dir=path.parent) as folder:
        file = Path(folder) / "model.keras"
        built.save(file)
        file.rename(path)


def _ends(named: list[tuple[str, Any]]) -> Any:
    """A tensor, a list in the order of the graph, or a dict where Keras takes a name only as a key."""
    if any(legal(name) != name for name, _ in named):
        return dict(named)
    return named[0][1] if len(named) == 1 else [tensor for _, tensor in named]


def _note_copies(emitted: Emitted, report: Report) -> None:
    """Say so where layers of different kinds hold the same weight, which they no longer share when they train."""
    whole = [content for _, _, content in emitted.weights if content.size == content.origin[1] > 1]
    names = Counter(content.origin[0] for content in whole)
    for name, count in names.items():
        if count > 1:
            report.note(f"the weight {name!r} is in {count} layers, each with a copy of its own")
