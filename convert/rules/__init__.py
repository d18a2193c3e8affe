"""Operator tables: how rules are registered, bound and listed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convert.rules.table import REQUIRED, Argument, Rule, Rules, Schema

__all__ = ["REQUIRED", "Argument", "Rule", "Rules", "Schema"]


def __getattr__(name: str) -> Any:
    """Import a name on first use: every frontend and backend imports this package, also for `convert --help`."""
    if name in __all__:
        return getattr(import_module("convert.rules.table"), name)
    raise AttributeError(f"module 'convert.rules' has no attribute {name!r}")
