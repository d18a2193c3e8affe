"""The files of a Core ML package; the same model gives the same bytes:

- `Manifest.json`
- `Data/com.apple.CoreML/model.mlmodel`
- `Data/com.apple.CoreML/weights/weight.bin`
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from . import DATA, MODEL, WEIGHTS


def write_package(spec: Any, weights: Path, package: Path) -> None:
    """Write a Core ML model (a protobuf message) and the folder with its weights.

    coremltools' own `save` uses random identifiers and adds a file for debugging, which fails for a GRU.
    """
    (package / DATA).mkdir(parents=True)
    spec.description.metadata.userDefined.pop("com.github.apple.coremltools.conversion_date", None)
    (package / MODEL).write_bytes(spec.SerializeToString(deterministic=True))
    items = [("model.mlmodel", "CoreML Model Specification")]
    if any(weights.iterdir()):
        shutil.copytree(weights, (package / WEIGHTS).parent)
        items.append(("weights", "CoreML Model Weights"))
    _write_manifest(package, items)


def _write_manifest(package: Path, items: list[tuple[str, str]]) -> None:
    entries = {
        str(uuid.uuid5(uuid.NAMESPACE_URL, name)): {
            "author": "com.apple.CoreML",
            "description": what,
            "name": name,
            "path": f"com.apple.CoreML/{name}",
        }
        for name, what in items
    }
    facts = {"fileFormatVersion": "1.0.0", "itemInfoEntries": entries, "rootModelIdentifier": next(iter(entries))}
    (package / "Manifest.json").write_text(json.dumps(facts, indent=4) + "\n")
