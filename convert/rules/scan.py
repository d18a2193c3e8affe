"""Imports the modules of a rule table by scanning their folder, so that a new file in `ops/` needs no list entry."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules


def import_modules(package: str, path: Iterable[str]) -> None:
    """Import every module in `path`, the `__path__` of `package`, and in its folders, in alphabetical order."""
    for found in sorted(iter_modules(path), key=lambda module: module.name):
        module = import_module(f"{package}.{found.name}")
        if found.ispkg:
            import_modules(module.__name__, module.__path__)
