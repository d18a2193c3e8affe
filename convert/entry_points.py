"""Finds the entry points that installed packages declare, as `importlib.metadata` does, in a tenth of its time.

`importlib.metadata` imports the standard library's `email` and `zipfile`, which takes as long as click does. `--help`
needs only the file `entry_points.txt` of each installed package.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from operator import attrgetter
from typing import Any, NamedTuple

_DESCRIPTIONS = (".dist-info", ".egg-info")
"""Suffixes of the folders on `sys.path` that describe a package."""


class EntryPoint(NamedTuple):
    """A name in a group, and the place of the object that it stands for: `module` or `module:attribute`."""

    group: str
    name: str
    value: str

    def load(self) -> Any:
        """Import the module, and return it or its attribute."""
        module, _, attribute = re.sub(r"\s*\[.*", "", self.value).partition(":")
        found = import_module(module.strip())
        return attrgetter(attribute.strip())(found) if attribute.strip() else found


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group. If packages have the same name, the first on `sys.path` counts."""
    return [point for point in _all_entry_points(tuple(sys.path)) if point.group == group]


@cache
def _all_entry_points(places: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    if not all(map(_is_plain, places)) or any(map(_finds_packages, sys.meta_path)):
        from importlib.metadata import entry_points as standard

        points = standard()
        groups = points.groups
        return tuple(EntryPoint(p.group, p.name, p.value) for group in groups for p in points.select(group=group))
    texts: dict[str, str] = {}
    for place in places:
        for folder in _described(place or "."):
            name = os.path.basename(folder).rpartition(".")[0].partition("-")[0]
            key = re.sub(r"[-_.]+", "_", name).lower()
            if key not in texts:
                texts[key] = _text(os.path.join(folder, "entry_points.txt"))
    return tuple(point for text in texts.values() for point in _points_in(text))


def _is_plain(place: str) -> bool:
    """Return whether a place on `sys.path` is a folder or absent; an archive is neither."""
    return not os.path.isfile(place)


def _finds_packages(finder: Any) -> bool:
    """Return whether packages may be installed elsewhere than in folders on `sys.path`."""
    return finder is not PathFinder and hasattr(finder, "find_distributions")


def _described(place: str) -> list[str]:
    """Return the folders in `place` that describe packages."""
    try:
        return [os.path.join(place, name) for name in os.listdir(place) if name.lower().endswith(_DESCRIPTIONS)]
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _points_in(text: str) -> Iterator[EntryPoint]:
    """Yield the entry points in the text of an `entry_points.txt`."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif "=" in line and not line.startswith("#"):
            name, _, value = map(str.strip, line.partition("="))
            yield EntryPoint(group, name, value)
