"""Which names are one file: on some file systems, macOS's and Windows', the case of letters makes no difference."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path


def counts_case(folder: Path) -> bool:
    """Whether names that differ by the case of letters alone are two files there.

    It is asked of the nearest folder of the path that is there and has letters in its name; nothing is written.
    """
    for place in (folder.absolute(), *folder.absolute().parents):
        other = place.with_name(place.name.swapcase()) if place.name else place
        if other.name != place.name and place.exists():
            try:
                return not os.path.samefile(place, other)
            except OSError:
                return True
    return True


def place_of(path: Path) -> str:
    """The whole path, alike for all names of one place (but for links)."""
    place = os.path.abspath(path)
    return place if counts_case(Path(place).parent) else unicodedata.normalize("NFC", place).casefold()
