"""Inputs that hold others: dicts, tuples, lists, named tuples and dataclasses, taken apart by names joined with "_"."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from convert.fixed_values import is_fixed_value
from convert.options import InputSpec


@dataclass(frozen=True)
class Structure:
    """The class of an input that holds others by name, and what it holds beside arrays."""

    kind: type
    rest: Mapping[str, Any]

    def build(self, values: Mapping[str, Any]) -> Any:
        """One of its class with `values` in it, and None for what neither they nor `rest` have."""
        names = [f.name for f in fields(self.kind)] if is_dataclass(self.kind) else self.kind._fields  # type: ignore[attr-defined]
        return self.kind(**{n: values.get(n, self.rest.get(n)) for n in names})


def members_of(given: Any) -> dict[Any, Any] | None:
    """What an input holds by name or place; None for one that holds nothing."""
    if isinstance(given, Mapping):
        return dict(given)
    if is_dataclass(given) and not isinstance(given, (type, InputSpec)):
        return {f.name: getattr(given, f.name) for f in fields(given)}
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        return dict(zip(given._fields, given, strict=True))
    return dict(enumerate(given)) if isinstance(given, (list, tuple)) else None


def holds_arrays(given: Any) -> bool:
    """Whether an input is no array itself, and holds some: a list of numbers is an array."""
    members = None if hasattr(given, "shape") else members_of(given)
    return members is not None and any(hasattr(m, "shape") or holds_arrays(m) for m in members.values())


def leaves_of(name: Any, given: Any, fixing: bool, structures: dict[str, Structure]) -> list[tuple[Any, Any]]:
    """Arrays and specs in one input by names joined with "_"; a fixed value is whole. `structures` gets its class."""
    if fixing and is_fixed_value(given):
        return [(name, given)]
    members = None if hasattr(given, "shape") else members_of(given)
    if members is None:
        return [(name, given)]
    if not isinstance(given, (Mapping, list)) and type(given) is not tuple:
        rest = {n: m for n, m in members.items() if is_fixed_value(m)}
        structures[str(name)] = Structure(type(given), rest)
        members = {n: m for n, m in members.items() if n not in rest}
    return [row for key, value in members.items() for row in leaves_of(f"{name}_{key}", value, False, structures)]


def parameter_names(model: Any) -> list[str]:
    """The names by place of what an object's forward takes; empty for one without."""
    try:
        taken = inspect.signature(model.forward).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return []
    return [p.name for p in taken if p.kind is p.POSITIONAL_OR_KEYWORD]
