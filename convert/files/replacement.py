"""Records a replacement on disk before its first rename, so that a later run can undo it after a kill.

Several files are renamed one after the other, the model last. With it the replacement is complete; before that, `undo`
reverts everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from convert.files.exchange import rename_new

NEW, OLD = "new", "old"
"""`NEW`: files that are renamed to their places when complete.

`OLD`: files moved aside, which return if the new ones never came.
"""

_RECORD = "replacement.json"
_RECORD_BYTES = 1 << 20

Identity = list[int]
"""Inode and modification time of a file, which a rename does not change."""


def write_down(folder: Path, written: Sequence[Path]) -> None:
    """Record, before the first rename, which files in `folder / NEW` go beside `folder`, the model last."""
    record = {"folder": _number(folder), "parts": [[path.name, identity_of(path)] for path in written]}
    descriptor = os.open(folder / _RECORD, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(descriptor)


def is_known(folder: Path) -> bool:
    """Return whether `folder` holds no moved files, or has its own record of them.

    A folder from an archive may have a name like ours, and contain anything, such as links.
    """
    old = folder / OLD
    try:
        if not stat.S_ISDIR(old.lstat().st_mode):
            return False
    except FileNotFoundError:
        return True
    return bool(_read(folder)) or not any(old.iterdir())


def undo(folder: Path) -> None:
    """Revert an incomplete replacement; a complete one is left unchanged.

    New files beside `folder` are removed if they are still those that were put there. Moved files return, the model
    last, unless another one is there by now. The function may be interrupted at any moment and called again.
    """
    parts = _read(folder)
    if not parts or not is_known(folder):
        return
    *_, (last, identity) = parts
    if identity_of(folder / NEW / last) != identity:
        return
    for name, placed in parts:
        if identity_of(folder.parent / name) == placed:
            os.rename(folder.parent / name, folder / NEW / name)
    if os.path.lexists(folder / OLD / last) and os.path.lexists(folder.parent / last):
        return
    for old in sorted((folder / OLD).glob("*"), key=lambda path: path.name == last):
        with contextlib.suppress(FileExistsError):
            rename_new(old, folder.parent / old.name)


def _read(folder: Path) -> list[tuple[str, Identity]]:
    """Return the parts in the record of this very folder; [] for the record of a copied or unpacked folder."""
    try:
        descriptor = os.open(folder / _RECORD, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            record = json.loads(file.read(_RECORD_BYTES))
        parts = [(str(name), list(identity)) for name, identity in record["parts"]]
        is_own = record["folder"] == _number(folder) and all(name == Path(name).name for name, _ in parts)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []
    return parts if is_own else []


def _number(folder: Path) -> Identity:
    found = folder.stat(follow_symlinks=False)
    return [found.st_dev, found.st_ino]


def identity_of(path: Path) -> Identity | None:
    """Return what identifies a file, folder or link and its version; None if it does not exist."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return [found.st_ino, found.st_mtime_ns]
