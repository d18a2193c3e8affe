"""Detects names of the same file: some file systems (macOS, Windows) ignore the case of letters."""

from __future__ import annotations

import os
import unicodedata
from itertools import islice
from pathlib import Path

_ENTRIES = 100
"""Maximum number of entries of a folder that are examined to find a name with letters."""


def counts_case(folder: Path) -> bool:
    """Return whether names in `folder` that differ only in case are two files.

    Tests the entries of the nearest existing folder of the path, then the names of that folder and of those above it on
    the same disk; nothing is written. The answer is True if none of them has letters.
    """
    above = [place for place in (folder.absolute(), *folder.absolute().parents) if place.exists()]
    if above and (found := _by_entries(above[0])) is not None:
        return found
    for place in above:
        if os.path.ismount(place):  # its name belongs to another disk
            break
        if (other := place.name.swapcase()) != place.name:
            return not _is_same(place, place.with_name(other))
    return True


def _by_entries(folder: Path) -> bool | None:
    """Test with the first entry whose name has letters whether case counts; return None without such an entry."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _ENTRIES) if os.path.exists(entry.path)]
    except OSError:
        return None
    for name in names:
        if (other := name.swapcase()) != name:
            return other in names or not _is_same(folder / name, folder / other)
    return None


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def place_of(path: Path) -> str:
    """Return the absolute path in a form that is equal for all spellings of one place; links are not resolved."""
    place = os.path.abspath(path)
    return place if counts_case(Path(place).parent) else unicodedata.normalize("NFC", place).casefold()
