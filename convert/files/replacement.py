"""What is about to replace what, written down before the first rename, so that whoever finds it after a kill undoes it.

Several files take their places one after the other, the model last: with it the replacement is complete, before it
nothing has happened that `undo` does not take back.
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
"""What is to be renamed to its place when complete; what stepped aside for it, and comes back if it never came."""

_RECORD = "replacement.json"
_RECORD_BYTES = 1 << 20

Identity = list[int]
"""Number of a file and the time of its last change, which a rename leaves as they are."""


def write_down(folder: Path, written: Sequence[Path]) -> None:
    """Before the first rename: these paths in `folder / NEW` will go beside `folder`, the last one at the end."""
    record = {"folder": _number(folder), "parts": [[path.name, identity_of(path)] for path in written]}
    descriptor = os.open(folder / _RECORD, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(descriptor)


def is_known(folder: Path) -> bool:
    """Whether nothing has stepped aside in `folder`, or its own record is there to tell of it.

    A folder that came in an archive may be called like one of ours, and hold anything, such as links.
    """
    old = folder / OLD
    try:
        if not stat.S_ISDIR(old.lstat().st_mode):
            return False
    except FileNotFoundError:
        return True
    return bool(_read(folder)) or not any(old.iterdir())


def undo(folder: Path) -> None:
    """Take back the parts of a replacement that did not come to its end; does nothing after a complete one.

    What is new goes from beside `folder` if it still is what was put there; what stepped aside returns, the model last,
    unless there is another one by now. It may be ended at any moment and called again.
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
    """The parts that the record of this very folder tells of; none for one that was copied or unpacked to here."""
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
    """What tells a file, folder or link from another, and from itself once changed; None for what is not there."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return [found.st_ino, found.st_mtime_ns]
