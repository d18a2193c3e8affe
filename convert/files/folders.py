"""Identifies the kind of model in a folder by the files in it."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from pathlib import Path

from convert import limits
from convert.errors import BadInput, UnsafeInput
from convert.files import foreign, protobuf_wire
from convert.files.counted_json import parse_json

_WEIGHTS = (
    "*.safetensors",
    "*.safetensors.index.json",
    "pytorch_model*.bin",
    "pytorch_model*.bin.index.json",
    "diffusion_pytorch_model*.bin",
    "diffusion_pytorch_model*.bin.index.json",
)
_CONFIGS = ("config.json", "config.*.json", "generation_config.json", "adapter_config.json")
"""Files that transformers reads in addition to weights."""
PIPELINE_INDEX = "model_index.json"
"""The file that lists the models of a diffusers pipeline."""
_CHECKPOINT = re.compile(r"\.(meta|index|data-\d{5}-of-\d{5})$")
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.(safetensors|bin)$")
_OTHER_WEIGHTS = ("tf_model.h5", "flax_model.msgpack", "rust_model.ot", "*.gguf")
_MODELS = (".onnx", ".pt", ".pth", ".pt2", ".ptl", ".pb", ".h5", ".keras", ".tflite", ".safetensors")


def folder_kind(path: Path) -> str:
    """Return the kind of a folder (a key of `sniff.KINDS`).

    Raises `BadInput` with a description of its content if it is no model, and `UnsafeInput` if a link in it leaves it.
    """
    names = _file_names(path)
    if not names:
        raise BadInput(f"the folder {path} is empty", hint="name a model's file or folder")
    for name in ("saved_model.pb", "saved_model.pbtxt"):
        if name in names:
            check_files(path, path, [name, *_variables(path)])
            _check_links(path, path, _assets(path))
            _check_kinds(path, _assets(path))
            if name == "saved_model.pb":
                _check_message(path / name, "SavedModel")
            return "savedmodel"
    databases = sorted(name for name in names if name.endswith(".minidb"))
    if {"init_net.pb", "predict_net.pb"} <= names:
        check_files(path, path, ["init_net.pb", "predict_net.pb", *databases])
        for name in ("init_net.pb", "predict_net.pb"):
            _check_message(path / name, "Caffe2 NetDef")
        return "caffe2"
    if "predictor.minidb" in names:
        check_files(path, path, databases)
        return "caffe2"
    if PIPELINE_INDEX in names:
        return _pipeline(path)
    if "config.json" in names:
        return _hugging_face(path, names, _root(path))
    if {"model.py", "model.safetensors"} <= names:
        check_files(path, path, ["model.py", "model.safetensors"])
        return "torch-code"
    if any(name.endswith(".meta") for name in names) and any(name.endswith(".index") for name in names):
        check_files(path, path, sorted(name for name in names if _CHECKPOINT.search(name)))
        return "tf-meta"
    raise _no_model_error(path, names)


def listed_names(path: Path) -> str:
    """Return the first names in a folder, for messages."""
    names = sorted(_file_names(path))
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return (", ".join(names[:8]) + more) if names else "nothing"


def _variables(path: Path) -> list[str]:
    """Return the files of a SavedModel's checkpoint, relative to its folder, including dangling links."""
    folder = path / "variables"
    found = sorted(_file_names(folder)) if folder.is_dir() else []
    return [f"variables/{name}" for name in found if not (folder / name).is_dir()]


def _assets(path: Path) -> list[str]:
    """Return a SavedModel's assets, and the files that TensorFlow reads beside its graph, relative to its folder."""
    beside = [path / "fingerprint.pb", path / "debug", path / "debug" / "saved_model_debug_info.pb"]
    return sorted(str(found.relative_to(path)) for found in [path / "assets", *paths_in(path / "assets"), *beside])


def paths_in(folder: Path) -> list[Path]:
    """Return every file and folder below a folder, without following links; [] if it is no folder.

    Raises `BadInput` for more entries or levels than a model has: Python's own functions recurse for each level, and
    resolve each name level by level.
    """
    found: list[Path] = []
    pending = [(folder, 0)] if folder.is_dir() else []
    while pending:
        here, depth = pending.pop()
        if depth > limits.FOLDER_DEPTH or len(found) > limits.FOLDER_ENTRIES:
            what = (
                f"{limits.FOLDER_DEPTH} floors" if depth > limits.FOLDER_DEPTH else f"{limits.FOLDER_ENTRIES:,} entries"
            )
            raise BadInput(f"{folder} has more than {what} of folders and files below it, which no model has",
                           hint="name the model's own file or folder in it")  # fmt: skip
        with os.scandir(here) as entries:
            for entry in entries:
                found.append(Path(entry.path))
                if entry.is_dir(follow_symlinks=False):
                    pending.append((found[-1], depth + 1))
    return found


def _check_message(file: Path, expected: str) -> None:
    """Raise `BadInput` if a protobuf file is truncated or holds another known message."""
    try:
        found = protobuf_wire.message_in(file)
    except BadInput as error:
        raise BadInput(f"{file} is truncated: {error.message}", hint="get the whole folder again") from None
    if found not in (expected, None):
        raise BadInput(f"{file} is no {expected}; it holds a {found}", hint="get the whole folder again")


def _file_names(path: Path) -> set[str]:
    names: set[str] = set()
    with os.scandir(path) as entries:
        for entry in entries:
            names.add(entry.name)
            if len(names) > limits.FOLDER_ENTRIES:  # entries that nobody checked might link anywhere
                text = f"{path} has more than {limits.FOLDER_ENTRIES:,} entries, which no model has"
                raise BadInput(text, hint="name the model's own file or folder in it")
    return names


def _root(path: Path) -> Path:
    """Return the folder that links in a model's folder may lead to.

    The hub's cache contains links into its folder of blobs: models--org--name/snapshots/<revision>/config.json
    """
    return path.parent.parent if path.absolute().parent.name == "snapshots" else path


def _pipeline(path: Path) -> str:
    """Return the kind of a folder with models in folders of their own, after a check of each. Raises as
    `folder_kind`.
    """
    root = _root(path)
    check_files(path, root, [PIPELINE_INDEX])
    if (path / PIPELINE_INDEX).stat().st_size > limits.FOLDER_CONFIG_BYTES:
        raise BadInput(f"{path / PIPELINE_INDEX} is too large for a list of models", hint="get the file again")
    models = 0
    for name in sorted(_file_names(path)):
        _check_links(path, root, [name])
        if (path / name).is_dir() and os.path.lexists(path / name / "config.json"):
            _hugging_face(path / name, _file_names(path / name), root)
            models += 1
    if not models:
        raise BadInput(
            f"{path} has a {PIPELINE_INDEX}, but no folder of a model; it holds {listed_names(path)}",
            hint="get the whole pipeline again",
        )
    return "diffusers-folder"


def _hugging_face(path: Path, names: set[str], root: Path) -> str:
    """Return the kind of a folder with a config.json. Raises as `folder_kind`.

    root: the folder that links may lead to.
    """
    if {"metadata.json", "model.weights.h5"} <= names:
        raise BadInput(f"{path} is an unpacked Keras archive", hint="zip its files to a .keras file, or save it again")
    weights = sorted(name for name in names if _matches_any(name, _WEIGHTS))
    if not weights:
        other = sorted(name for name in names if _matches_any(name, _OTHER_WEIGHTS))
        found = f"only {', '.join(other)}" if other else f"found: {listed_names(path)}"
        converted = sorted(
            name for name in names if name.endswith((".onnx", ".savedmodel", ".keras", ".tflite", ".pt2"))
        )
        hint = "get model.safetensors or pytorch_model.bin into the folder"
        if converted:
            hint = f"give one of the models in it: {path / converted[0]} (its source with --part, where it is a part)"
        raise BadInput(f"{path} has a config.json, but no PyTorch weights; {found}", hint=hint)
    check_files(path, root, ["config.json", *weights])
    configs = sorted(name for name in names if _matches_any(name, _CONFIGS))
    _check_links(path, root, configs)
    _check_kinds(path, configs)
    for name in configs:
        if (path / name).is_file() and (path / name).stat().st_size > limits.FOLDER_CONFIG_BYTES:
            raise BadInput(
                f"{path / name} has {(path / name).stat().st_size:,} bytes; configurations have some thousand",
                hint="get the file again",
            )
    for name in weights:
        if name.endswith(".index.json"):
            check_files(path, root, _shards_at_hand(path, name))
    _check_whole(path, weights)
    config = path / "config.json"
    try:
        with config.open("rb") as file:
            parsed = parse_json(file.read(limits.FOLDER_CONFIG_BYTES), str(config))
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise BadInput(f"{config} is not a JSON object", hint="get the file again")
    of_diffusers = "_class_name" in parsed and "model_type" not in parsed
    return "diffusers-folder" if of_diffusers else "hf-folder"


def _shards_at_hand(path: Path, index: str) -> list[str]:
    """Return the files that the index in a folder names. Raises `BadInput` if some are missing."""
    names = shards(path / index)
    missing = [name for name in names if not os.path.lexists(path / name)]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise BadInput(
            f"{path} lacks {len(missing)} of the {len(names)} files of weights that {index} names: "
            f"{', '.join(missing[:3])}{more}",
            hint="get the whole folder again",
        )
    return names


def _check_whole(path: Path, weights: list[str]) -> None:
    """Raise `BadInput` if all weight files are numbered shards, and no index describes them."""
    numbered = [name for name in weights if _SHARD.search(name)]
    if numbered == weights:
        first = numbered[0]
        index = f"{_SHARD.sub('', first)}{Path(first).suffix}.index.json"
        raise BadInput(
            f"{path} lacks {index}, which says what is in {', '.join(numbered[:3])}{' …' if numbered[3:] else ''}",
            hint="get the whole folder again",
        )


def shards(index: Path) -> list[str]:
    """Return the files that an index of a Hugging Face folder names, sorted.

    Raises `BadInput` if it is no index, and `UnsafeInput` if it names a file outside the folder.
    """
    try:
        with index.open("rb") as file:
            text = file.read(limits.FOLDER_INDEX_BYTES + 1)
        table = parse_json(text, str(index))["weight_map"].values() if len(text) <= limits.FOLDER_INDEX_BYTES else None
        found = sorted({name for name in table if isinstance(name, str) and name.isprintable()} if table else ())
        broken = not table or any(name not in found for name in set(table))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        found, broken = [], True
    if broken:
        raise BadInput(f"{index} does not say which file holds which weight", hint="get the whole folder again")
    for name in found:
        if os.path.isabs(name) or ".." in Path(name).parts:
            raise UnsafeInput(
                f"{index} names {name}, outside of the model's folder",
                hint="copy the file into the folder if you trust where it points, and name it so",
            )
    return found


def real_path(path: Path) -> Path:
    """Return a path with links followed. Circular links lead to one of them; `Path.resolve` raises RuntimeError."""
    return Path(os.path.realpath(path))


def _check_links(path: Path, root: Path, names: list[str]) -> None:
    """Raise `UnsafeInput` if a file or folder is a link out of `root`, and `BadInput` for circular links."""
    inside = root.resolve()
    for name in names:
        file = path / name
        try:
            file.resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: before Python 3.13
            raise BadInput(f"{file} is a link in a circle: {error}", hint="get the file itself") from None
        if not file.resolve().is_relative_to(inside):
            raise UnsafeInput(
                f"{file} is a link to {file.resolve()}, outside of the model's folder",
                hint="copy the file into the folder if you trust where it points",
            )


def _check_kinds(path: Path, names: list[str]) -> None:
    """Raise `BadInput` for an existing pipe, socket or device, from which reading may never end."""
    for name in names:
        file = path / name
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise BadInput(f"{file} is not a file", hint="get the whole folder again")


def check_files(path: Path, root: Path, names: list[str]) -> None:
    """Raise `BadInput` for an empty file or a Git-LFS pointer, and `UnsafeInput` for a link out of `root`."""
    for name in names:
        file = path / name
        _check_links(path, root, [name])
        if not file.is_file():
            raise BadInput(f"{file} is not a file", hint="get the whole folder again")
        with file.open("rb") as content:
            head = content.read(1024)
        if not head:
            raise BadInput(f"{file} is empty", hint="get the file again; the download or the save was cut off")
        foreign.check_pointer(str(file), head)


_MARKS = ("saved_model.pb", "config.json", "init_net.pb")
"""Files that show that a folder is a model."""


def _no_model_error(path: Path, names: set[str]) -> BadInput:
    """Return the error for a folder of no known kind."""
    if "adapter_config.json" in names:
        return BadInput(
            f"{path} holds an adapter, which belongs to a model that is not in the folder",
            hint=f"give the folder of that model, and --adapter {path}",
        )
    if any(name.endswith(".index") for name in names):
        hint = "convert the SavedModel or Keras file, or a TensorFlow 1 checkpoint with its .meta file"
        if (path.resolve().parent / "saved_model.pb").is_file():
            hint = f"these are the weights of a SavedModel: name the folder {path.parent}"
        return BadInput(f"{path} holds a TensorFlow checkpoint, which has weights and no graph", hint=hint)
    if "init_net.pb" in names or "predict_net.pb" in names:
        return BadInput(f"{path} has one of a Caffe2 model's nets", hint="init_net.pb and predict_net.pb are needed")
    if "Manifest.json" in names:
        return BadInput(f"{path} is a Core ML package, which is not read", hint="convert what it was made from")
    models = sorted(
        name
        for name in names
        if (name.endswith(_MODELS) and not name.endswith(".weights.h5"))
        or any(os.path.lexists(path / name / file) for file in _MARKS)
    )
    hint = "model folders hold saved_model.pb, or config.json and weights, or init_net.pb and predict_net.pb"
    if not models and any((path / name).is_dir() for name in names):
        hint += f"; models in folders below: `convert batch {shlex.quote(str(path))} --to FORMAT -o converted`"
    if models:
        all_of_them = f"all of them: `convert batch {shlex.quote(str(path))} --to FORMAT -o converted`"
        hint = f"name one of the models in it: {', '.join(models[:8])}; {all_of_them}"
    return BadInput(f"the folder {path} is no model; it holds {listed_names(path)}", hint=hint)


def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
