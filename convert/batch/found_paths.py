"""Lists the entries below a folder and the matches of a pattern in bounded time, although links can multiply names."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from convert import limits
from convert.errors import BadInput
from convert.files.folders import real_path


@dataclass
class SkippedPaths:
    """Paths that a batch leaves out: files that are no models, excluded models, and links to too many files.

    `unreadable` maps folders that cannot be read to the reason; `unmatched` has the patterns that exclude no model.
    """

    files: list[Path] = field(default_factory=list)
    excluded: list[Path] = field(default_factory=list)
    links: list[Path] = field(default_factory=list)
    unreadable: dict[Path, str] = field(default_factory=dict)
    unmatched: list[str] = field(default_factory=list)


def paths_below(
    folder: Path, is_leaf: Callable[[Path], bool], closed: Collection[Path] = (), passed: SkippedPaths | None = None
) -> Iterator[tuple[Path, bool]]:
    """Yield every entry below a folder, sorted, with the result of `is_leaf`; names with a leading dot are skipped.

    After a folder was yielded, its entries follow, unless it is a leaf, one of `closed`, or one of its own parents
    under another name. Links are not followed if they lead to a parent of `folder`, or to more than
    `BATCH_LINKED_ENTRIES` entries outside; they are added to `passed`, and so are unreadable folders. Raises `BadInput`
    if `folder` itself cannot be read, and for more than `BATCH_FOLDERS` folders, each counted under every name.
    """
    passed = SkippedPaths() if passed is None else passed
    real = real_path(folder)
    outside = frozenset(map(_identity, real.parents))
    around = [frozenset(map(_identity, closed))]
    pending = [iter(_entries(folder, around[0]))]
    count = 0
    around.append(around[0] | {_identity(folder)})
    while pending:
        path = next(pending[-1], None)
        if path is None:
            pending.pop()
            around.pop()
            continue
        leaf = is_leaf(path)
        yield path, leaf
        if not leaf and path.is_dir():
            if path.is_symlink() and (_identity(path) in outside or _leads_to_much(path, real)):
                passed.links.append(path)
                continue
            count += 1
            if count > limits.BATCH_FOLDERS:
                raise BadInput(
                    f"{folder} has more than {limits.BATCH_FOLDERS:,} folders, those behind links included",
                    hint="name the folders with models in them",
                )
            try:
                pending.append(iter(_entries(path, around[-1])))
            except BadInput as error:
                passed.unreadable[path] = error.message
                continue
            around.append(around[-1] | {_identity(path)})


def _leads_to_much(link: Path, folder: Path) -> bool:
    """Return whether a link leads out of `folder`, to more entries than the limit for one link."""
    if real_path(link).is_relative_to(folder):
        return False
    count = 0
    for _, folders, files in os.walk(link):
        count += len(folders) + len(files)
        if count > limits.BATCH_LINKED_ENTRIES:
            return True
    return False


def matching_paths(pattern: str) -> list[Path]:
    """Return the sorted matches of a pattern, as `glob.glob` with "**" for any number of folders does.

    `glob.glob` visits each folder once for every way to match the "**". Raises as `paths_below` does.
    """
    path = Path(pattern)
    start = Path(path.anchor) if path.anchor else Path()
    found = [start]
    parts = path.parts[1:] if path.anchor else path.parts
    for number, part in enumerate(parts):
        if part == "**":
            last = number + 1 == len(parts)
            found = [folder for folder in found if folder.is_dir()]
            below = (p for folder in found for p, _ in paths_below(folder, lambda _: False))
            found = [*found, *(p for p in below if last or p.is_dir())]
        elif glob.has_magic(part):
            found = [folder / name for folder in found for name in glob.glob(part, root_dir=folder)]
        else:
            found = [folder / part for folder in found if os.path.lexists(folder / part)]
        found = list(dict.fromkeys(found))
        if len(found) > limits.BATCH_FOLDERS:
            raise BadInput(f"{pattern} matches more than {limits.BATCH_FOLDERS:,} paths", hint="name a narrower one")
    return sorted(found)


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return device and inode of a folder, which are equal for all its names; None if it does not exist.

    Resolving a path instead would follow it link by link.
    """
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _entries(folder: Path, closed: frozenset[tuple[int, int] | None]) -> list[Path]:
    if _identity(folder) in closed - {None}:
        return []
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise BadInput(f"{folder} cannot be read: {error.strerror}", hint="check its permissions") from None
