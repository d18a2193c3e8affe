"""Write the zoo as files and a manifest for `convert batch`, and build the models that the manifest names.

    python tests/suites/zoo.py --save zoo
    convert batch zoo/zoo.toml --to onnx --to tf --to caffe2 -o converted

A model of transformers is saved as a folder. Any other model is saved as its weights; its factory is in this file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from zoo_models import Built, Entry, entries

HERE = Path(__file__).resolve()


def save(chosen: Iterable[Entry], folder: Path) -> Path:
    """Write the zoo and return the path of the manifest. Existing files in `folder` are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [_table(entry.name, entry.build(), folder) for entry in chosen]
    manifest = folder / "zoo.toml"
    manifest.write_text("\n".join(tables), "utf-8")
    return manifest


def _table(name: str, built: Built, folder: Path) -> str:
    from transformers import PreTrainedModel

    here = os.path.relpath(HERE, folder)
    row: dict[str, Any] = {"name": name}
    if isinstance(built.module, PreTrainedModel):
        built.module.save_pretrained(folder / name)
        # It has no rules, but declares what transformers' import of torchvision looks for.
        row |= {"source": name, "rules": [here]}
    else:
        torch.save(built.module.state_dict(), folder / f"{name}.pt")
        row |= {"source": f"{name}.pt", "model": f"{here}:{name}"}
    if built.inputs:
        row["input"] = [built.inputs] if isinstance(built.inputs, str) else list(built.inputs)
    row |= built.options
    # JSON's strings, booleans and lists of strings are valid TOML.
    return "[[models]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items())


def _factory(entry: Entry) -> Callable[[], Any]:
    return lambda: entry.build().module


globals().update({name: _factory(entry) for name, entry in entries().items()})
