"""Checks where an output may be written: inside its folder, not over, in or around inputs, and only over models."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from convert import plugin
from convert.errors import ConvertError, UsageError
from convert.files.folders import paths_in, real_path
from convert.files.protobuf_wire import message_in
from convert.files.sniff import KINDS, sniff
from convert.plugin import Format

_ELSEWHERE = "name another place with -o"
_KEEP = f"{_ELSEWHERE}, or remove it yourself"

_HEAD = 4096

_MESSAGES = (("saved_model.pb", "SavedModel"), ("predict_net.pb", "Caffe2 NetDef"))
"""Messages expected in files of folders; `sniff` accepts unknown messages in a folder."""


def check_apart(destination: Path, read: Iterable[Path], hint: str = _ELSEWHERE) -> None:
    """Raise `UsageError` if `destination` is one of the files and folders in `read`, or lies in or around one.

    Links and other names of the same place (mounts, case-insensitive file systems) are resolved.
    """
    for path in read:
        ours, theirs = Path(os.path.realpath(destination)), Path(os.path.realpath(path))
        if _is_same(ours, theirs):
            raise UsageError(f"{destination} is the source itself, which would be overwritten", hint=hint)
        if theirs.is_dir() and any(_is_same(theirs, around) for around in ours.parents):
            raise UsageError(f"{destination} lies inside of the source {path}", hint=hint)
        if any(_is_same(ours, around) for around in theirs.parents):
            raise UsageError(f"{destination} holds the source {path}, which would be replaced with it", hint=hint)


def check_inside(output: Path, folders: Iterable[Path]) -> None:
    """Raise `UsageError` if a link leads one of some folders below the output folder to a place outside of it."""
    root = real_path(output)
    for folder in dict.fromkeys(folders):
        if not real_path(folder).is_relative_to(root):
            raise UsageError(
                f"{folder} leads to {real_path(folder)}, out of the output folder {output}",
                hint="replace the link by a folder, or name that place with -o",
            )


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one == other or os.path.samefile(one, other)
    except OSError:
        return False


def check_replaceable(destination: Path, forms: Sequence[Format]) -> None:
    """Raise `UsageError` if --force would destroy anything but a model in one of `forms`.

    A file may be replaced if it is empty, or if its content is of a kind that a format has. A folder may be replaced if
    its content is of one format's kind, all its files belong to that format, and no required one is missing. For a kind
    that only its writer can recognize, such as a plugin's, the names decide.
    """
    if destination.exists() and not (destination.is_file() or destination.is_dir()):
        raise UsageError(f"{destination} is a device, a pipe or a socket, and no place for a model", hint=_ELSEWHERE)
    if not destination.exists() or (destination.is_symlink() and not destination.is_dir()):
        return
    if destination.is_dir():
        _check_folder(destination, forms)
        return
    untold = {form.kind for form in forms} - {*KINDS, *(kind.name for kind in plugin.kinds())}
    if not destination.stat().st_size or any(f.kind in untold and destination.name.endswith(f.suffix) for f in forms):
        return
    kind, why = _kind_of(destination)
    if not kind:
        raise UsageError(f"{destination} is not a model that is whole, and --force would destroy it: {why}", hint=_KEEP)
    if kind not in {form.kind for form in forms}:
        what = KINDS.get(kind, kind)
        raise UsageError(f"{destination} is in no format that is written here, and --force would destroy it: {what}",
                         hint=_KEEP)  # fmt: skip


def _check_folder(folder: Path, forms: Sequence[Format]) -> None:
    files = [file.relative_to(folder).as_posix() for file in _files_in(folder)]
    whole = [form for form in forms if set(form.required_files) <= set(files)]
    strange = [[file for file in files if not _has_place(folder, file, form)] for form in whole]
    others = min([*strange, files], key=len)
    if others:
        raise UsageError(
            f"{folder} is a folder that holds other things than a model, such as {min(others)}: "
            "it would be replaced with all of them",
            hint="name a place in it, or remove it yourself",
        )
    fitting = [form for form, found in zip(whole, strange, strict=True) if not found]
    if any((folder / file).stat().st_size for file in files) and not any(_is_artefact(folder, f) for f in fitting):
        kinds = " or ".join(dict.fromkeys(KINDS.get(form.kind, form.kind) for form in fitting))
        raise UsageError(f"{folder} has files that are called like those of a {kinds}, and other things in them: "
                         "--force would destroy it", hint=_KEEP)  # fmt: skip


def _has_place(folder: Path, file: str, form: Format) -> bool:
    return any(fnmatchcase(file, entry) for entry in form.folder_files) and (folder / file).is_file()


def _is_artefact(folder: Path, form: Format) -> bool:
    """Return whether a folder, whose files have the names of a format, also has that format's content."""
    for name, mark in form.file_signatures:
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                if mark not in file.read(_HEAD):
                    return False
    if form.kind not in KINDS:
        return True
    messages = [(folder / name, message) for name, message in _MESSAGES if (folder / name).exists()]
    return _kind_of(folder)[0] == form.kind and all(message_in(file) == message for file, message in messages)


def check_belongs(companions: Iterable[Path], models: Sequence[Path]) -> None:
    """Raise `UsageError` for a file that would be replaced beside a model and does not belong to the old model.

    Weights (`x.onnx.data`) that are named after the old model, and that the model names, belong to it. `models` are the
    models that are replaced.
    """
    for path in companions:
        around = [model for model in models if path.name.startswith(f"{model.name}.")]
        if path not in models and not any(_holds_text(model, path.name) for model in around):
            raise UsageError(
                f"{path} is there already, and no model that is replaced has its weights there: it would be destroyed",
                hint=_KEEP,
            )


def _holds_text(path: Path, text: str) -> bool:
    """Return whether a file contains this text as bytes, as a protobuf does."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(os.fsencode(text)) >= 0


def _files_in(folder: Path) -> Iterator[Path]:
    """Return everything in a folder that is not a folder; empty folders are ignored."""
    return (path for path in sorted(paths_in(folder)) if path.is_symlink() or not path.is_dir())


def _kind_of(path: Path) -> tuple[str, str]:
    """Return the kind of a file or folder by its content, or "" and the reason."""
    try:
        return sniff(path), ""
    except ConvertError as error:
        return "", error.message
