"""Guesses what a missing path was meant to be: an address, a model of a hub, standard input, or a checkpoint."""

from __future__ import annotations

import os
import re
import shlex
from itertools import islice
from pathlib import Path

from convert.errors import BadInput
from convert.files.folders import listed_names
from convert.request.nearest import nearest

_ADDRESS = re.compile(r"([a-z][a-z0-9+]*):/{1,2}(?=[^/])", re.IGNORECASE)
"""The beginning of an address; `Path` merges the two slashes."""

_FETCH = {
    "http": "curl -LO", "https": "curl -LO", "ftp": "curl -LO", "s3": "aws s3 cp --recursive",
    "gs": "gcloud storage cp -r", "hf": "hf download", "git": "git clone",
}  # fmt: skip

_HUB_PART = r"[A-Za-z0-9][\w.-]*"
_ENDS = (
    ".onnx", ".pt", ".pth", ".pt2", ".ptl", ".pb", ".h5", ".keras", ".tflite", ".safetensors", ".bin", ".ckpt", ".py",
)  # fmt: skip
_MOST_NAMES = 10_000
"""Largest number of folder entries to search for a similar name."""

_LIBRARIES = ("torchvision", "timm", "transformers", "torch", "keras", "tensorflow", "diffusers")


def missing_path_error(path: Path, *, hub: bool = True) -> BadInput:
    """Return the error for a missing path, with a hint at what the user may have meant.

    With `hub`, the path may also be the name of a model of the hub or of a library.
    """
    if str(path) == "-":
        return BadInput(
            "a model is read from a file, not from standard input",
            hint="save it first: cat > model.onnx && convert model.onnx …",
        )
    if address := _ADDRESS.match(str(path)):
        return _address_error(address[1].lower(), str(path)[address.end() :])
    if path.is_symlink():
        return BadInput(f"{path} is a link to {os.readlink(path)}, which is not there", hint="get the file itself")
    if path.with_name(path.name + ".index").is_file():
        return BadInput(
            f"{path} is the name of a TensorFlow checkpoint, not of a file",
            hint=f"name {path}.meta, or the SavedModel or Keras file that was saved with it",
        )
    file, colon, name = str(path).rpartition(":")
    if colon and file.endswith(".py") and Path(file).is_file():
        return BadInput(
            f"{path} names code, not a model",
            hint=f"name the file with the weights, and the code with --model {shlex.quote(str(path))}; convert a "
            f"function of JAX in Python: convert.convert({name}, 'onnx', inputs='x:float32[batch,3]')",
        )
    if any(c in "*?[" for c in path.name):
        return BadInput(
            f"there is no file or folder {path}", hint=f"of several models: convert batch {shlex.quote(str(path))} …"
        )
    if str(path).startswith(("~", "$")):
        hint = "write it without quotes: the shell puts the folder in its place"
        return BadInput(f"there is no file or folder {path}", hint=hint)
    folder = "this folder" if str(path.parent) == "." else f"the folder {path.parent}"
    beside = f"has {listed_names(path.parent)}" if path.parent.is_dir() else "does not exist"
    near = near_path(path)
    hint = f"did you mean {shlex.quote(near)}?" if near else (hub and _hub_hint(path)) or f"{folder} {beside}"
    return BadInput(f"there is no file or folder {path}", hint=hint)


def near_path(path: Path) -> str:
    """Return the path in the same folder that `path` was most likely meant to be; "" if none is similar.

    It has nearly the same stem, or the same stem with another suffix.
    """
    try:
        with os.scandir(path.parent) as entries:
            names = sorted(entry.name for entry in islice(entries, _MOST_NAMES) if not entry.name.startswith("."))
    except OSError:
        return ""
    stem, suffix = _parts(path.name)
    by_stem: dict[str, str] = {}
    if suffix:  # a folder matches by its whole name only
        names = [name for name in names if _parts(name)[1] or _parts(name)[0] == stem]
    for name in sorted(names, key=lambda name: _parts(name)[1] != suffix):  # names with the same suffix first
        by_stem.setdefault(_parts(name)[0], name)
    alike = [own for own, name in by_stem.items() if _parts(name)[1] == suffix]
    near = nearest(stem, alike) or nearest(stem, by_stem)
    return str(path.with_name(by_stem[near])) if near else ""


def _parts(name: str) -> tuple[str, str]:
    stem, point, suffix = name.rpartition(".")
    return (stem.lower(), suffix.lower()) if point and stem else (name.lower(), "")


def _address_error(scheme: str, rest: str) -> BadInput:
    if scheme == "file":
        return BadInput(f"file:///{rest} is an address, and nothing is read by one", hint=f"name the file: /{rest}")
    address = f"{scheme}://{rest}"
    end = re.split(r"[?#]", rest)[0].rstrip("/").rpartition("/")[2]
    repository = re.fullmatch(rf"huggingface\.co/({_HUB_PART}/{_HUB_PART})/?", rest)
    if repository or scheme == "hf":
        return _hub_error(address, repository[1] if repository else rest)
    command = _FETCH.get(scheme)
    if command is None:
        return BadInput(f"{address} is an address, and nothing is fetched by it", hint="get the file, and name that")
    place = " ." if scheme in ("s3", "gs") else ""
    recursive = command if not end.endswith(_ENDS) else command.replace(" --recursive", "").replace(" -r", "")
    escaped = address.replace("'", "'\\''")
    quoted_address, end = f"'{escaped}'", shlex.quote(end or "FILE")
    return BadInput(
        f"{address} is an address, and nothing is fetched by it",
        hint=f"get it first, then name the file: {recursive} {quoted_address}{place} && convert {end} …",
    )


def _hub_error(answer: str, repository: str) -> BadInput:
    folder = repository.partition("@")[0].rpartition("/")[2]
    return BadInput(
        f"{answer} is a model of the Hugging Face hub, and nothing is fetched without --download",
        hint=f"convert hf://{repository} --download …, which puts it into the folder {folder}",
    )


def _hub_hint(path: Path) -> str:
    """Return what to do if the name may be a model of a hub or a library; "" if it looks like a file name."""
    text = str(path)
    if text.partition(".")[0] in _LIBRARIES and text.count(".") and "/" not in text:
        return "build the model and save it in Python (torch.save(model, 'model.pt')), or call convert.convert there"
    if text.lower().endswith(_ENDS) or not re.fullmatch(rf"{_HUB_PART}(/{_HUB_PART})?", text):
        return ""
    if "/" in text:
        if path.parent.is_dir():
            return ""
        folder = path.name
        return (
            f"a model of the Hugging Face hub is fetched into the folder {folder} by: convert hf://{text} --download …"
        )
    if "." in text:
        return ""
    return (
        f"a model of timm or torchvision is built and saved first (torch.save(model, '{text}.pt')), one of the Hugging "
        f"Face hub is fetched by its whole name (convert hf://ORG/{text} --download …); in this folder there is "
        f"{listed_names(Path())}"
    )
