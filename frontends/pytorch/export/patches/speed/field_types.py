"""Looks up the types of the fields of a class once while an exported program is read."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any


def types_looked_up_once(typing: ModuleType) -> SimpleNamespace:
    """Return the module `typing` with a `get_type_hints` that keeps its results."""
    found: dict[Any, dict[str, Any]] = {}

    def types_of(kind: Any, **where: Any) -> dict[str, Any]:
        if kind not in found:
            found[kind] = typing.get_type_hints(kind, **where)
        return found[kind]

    return SimpleNamespace(**{**vars(typing), "get_type_hints": types_of})
