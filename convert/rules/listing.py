"""What the rooms say of their operator tables: the rows of `convert ops`, and the decorators for rules of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from convert.plugin import Operator

if TYPE_CHECKING:
    from convert.rules import Rules


_NONE: Mapping[str, str] = {}


def rows(table: Rules, gaps: Mapping[str, str] = _NONE, limits: Mapping[str, str] = _NONE) -> Iterator[Operator]:
    """One row for each operator that `table` has a rule for, or declares a gap, without this project's own domains.

    `gaps` and `limits` are what a format has besides: operators that it lacks, or has for some inputs only.
    """
    reasons = {**dict.fromkeys(table.entries, ""), **table.gaps, **gaps}
    bounds = {**table.limits, **limits}
    for name, why in sorted(reasons.items()):
        if not name.startswith("convert."):
            yield Operator(name, why, "" if why else bounds.get(name, ""))


def lazily(module: str, **places: str) -> Callable[[str], Any]:
    """A module's `__getattr__` (PEP 562) that imports its decorators when they are asked for: they cost a framework.

    `places` names the submodule of each, as in `__getattr__ = lazily(__name__, onnx=".rules")`.
    """

    def attribute(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(places[name], module), name)

    return attribute
