"""Finds the modules of a rule table by scanning their folder: a new file in `ops/` needs no entry in a list."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules


def import_modules(package: str, path: Iterable[str]) -> None:
    """Import every module in the folders of `path`, the `__path__` of `package`, by name in alphabetical order."""
    for found in sorted(iter_modules(path), key=lambda module: module.name):
        import_module(f"{package}.{found.name}")
