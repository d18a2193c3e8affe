"""The models of a diffusers pipeline, as its model_index.json lists them, and the parts that they are converted to.

ORTDiffusionPipeline of optimum looks for `unet/model.onnx`, `text_encoder/model.onnx` and so on, beside the scheduler
and the tokenizer of the pipeline. An autoencoder is two parts, `vae_encoder` and `vae_decoder`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container
from pathlib import Path
from typing import Any

from convert import limits
from convert.errors import BadInput
from convert.files.counted_json import parse_json
from convert.files.folders import PIPELINE_INDEX

ENCODER, DECODER = "vae_encoder", "vae_decoder"
AUTOENCODERS = frozenset({"AutoencoderKL", "AutoencoderTiny"})
"""The classes of diffusers that become an encoder and a decoder."""
_AUTOENCODER = "vae"
_CONVERTED = re.compile(r"(text_encoder|unet|transformer)(_\d+)?")
_WEIGHTS = ("*.safetensors", "*.bin")


def read_index(path: Path) -> dict[str, Any]:
    """Return the content of model_index.json. Raises `BadInput` if it is no JSON object."""
    file = path / PIPELINE_INDEX
    try:
        with file.open("rb") as content:
            found = parse_json(content.read(limits.FOLDER_CONFIG_BYTES), str(file))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{file} is not JSON: {error}", hint="get the file again") from None
    if not isinstance(found, dict):
        raise BadInput(f"{file} is not a JSON object", hint="get the file again")
    return found


def components(path: Path) -> dict[str, str]:
    """Return the models of a pipeline that are in the folder, each with its class."""
    rows = {name: row for name, row in read_index(path).items() if isinstance(row, list) and len(row) == 2 and row[1]}
    return {
        name: str(row[1])
        for name, row in rows.items()
        if name.isidentifier() and (path / name / "config.json").is_file() and _weights(path / name)
    }


def _weights(folder: Path) -> bool:
    return any(True for pattern in _WEIGHTS for _ in folder.glob(pattern))


def parts_of_folder(path: Path) -> dict[str, str]:
    """Return the parts of a pipeline, or of a folder with a single model, each with the folder that it is loaded from,
    relative to `path`; empty for a model that is one part.
    """
    if not (path / PIPELINE_INDEX).is_file():
        name = json.loads((path / "config.json").read_bytes()).get("_class_name")
        return {ENCODER: "", DECODER: ""} if name in AUTOENCODERS else {}
    found = components(path)
    parts = {name: name for name in sorted(found) if _CONVERTED.fullmatch(name)}
    return parts | ({ENCODER: _AUTOENCODER, DECODER: _AUTOENCODER} if _AUTOENCODER in found else {})


def left_out(path: Path) -> list[str]:
    """Return the models of a pipeline that become no part, such as a safety checker."""
    return sorted(set(components(path)) - set(parts_of_folder(path).values()))


def unknown_parts(path: Path, known: Container[str]) -> dict[str, str]:
    """Return the models that would become parts, but are of classes of diffusers that are not in `known`, each with
    its class; of a pipeline only.
    """
    if not (path / PIPELINE_INDEX).is_file():
        return {}
    index, classes = read_index(path), components(path)
    models = sorted(set(parts_of_folder(path).values()))
    return {name: classes[name] for name in models if index[name][0] == "diffusers" and classes[name] not in known}


def shared_files(path: Path) -> dict[str, Path]:
    """Return the files of a pipeline besides its models, by relative path: the index, the scheduler, tokenizers.

    Links that lead outside of the folder are left out.
    """
    if not (path / PIPELINE_INDEX).is_file():
        return {}
    rows = read_index(path)
    folders = [path / name for name, row in rows.items() if isinstance(row, list) and name.isidentifier()]
    others = [folder for folder in folders if folder.is_dir() and not (folder / "config.json").is_file()]
    root = path.resolve()
    return {
        file.relative_to(path).as_posix(): file.resolve()
        for file in [path / PIPELINE_INDEX, *(file for folder in others for file in sorted(folder.iterdir()))]
        if file.is_file() and file.resolve().is_relative_to(root)
    }
