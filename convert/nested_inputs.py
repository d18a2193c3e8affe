"""Inputs that hold others: dicts, tuples, lists, named tuples and dataclasses, taken apart by names joined with "_"."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from convert.fixed_values import is_fixed_value
from convert.options import InputSpec


@dataclass(frozen=True)
class Leaf:
    """The place of one array in an input that holds others, by its name among the inputs of the graph."""

    name: str


@dataclass(frozen=True)
class Structure:
    """An input that holds others as it was given, with a `Leaf` for each array in it."""

    template: Any

    def names(self) -> list[str]:
        """What its arrays are called, in order."""
        return [leaf.name for leaf in _leaves(self.template)]

    def constants(self) -> dict[str, Any]:
        """Numbers, flags and texts in it, by the names that inputs in their places would have."""
        return dict(_constants("", self.template))

    def build(self, values: Mapping[str, Any]) -> Any:
        """The same of its classes with `values` in it, by the names of its arrays; None for one that is not there."""
        return _filled(self.template, values)


def _leaves(template: Any) -> list[Leaf]:
    if isinstance(template, Leaf):
        return [template]
    return [leaf for member in (members_of(template) or {}).values() for leaf in _leaves(member)]


def _constants(name: str, template: Any) -> list[tuple[str, Any]]:
    members = None if is_fixed_value(template) or isinstance(template, Leaf) else members_of(template)
    if members is None:
        return [] if template is None or isinstance(template, Leaf) else [(name, template)]
    return [row for k, m in members.items() for row in _constants(f"{name}_{k}" if name else str(k), m)]


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, Leaf):
        return values.get(template.name)
    members = None if is_fixed_value(template) else members_of(template)
    if members is None:
        return template
    return _like(template, {key: _filled(member, values) for key, member in members.items()})


def _like(given: Any, members: Mapping[Any, Any]) -> Any:
    """`members` in the class of `given`; a dict for any other mapping."""
    if isinstance(given, Mapping):
        return dict(members)
    if is_dataclass(given) or hasattr(given, "_fields"):
        return type(given)(**members)
    return list(members.values()) if isinstance(given, list) else tuple(members.values())


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
    """Arrays and specs in one input by names joined with "_"; a fixed value is whole.

    `structures` gets what is neither one tuple nor one dict of arrays, which their names alone would say.
    """
    if fixing and is_fixed_value(given):
        return [(name, given)]
    if _members_of_input(given) is None:
        return [(name, given)]
    found: list[tuple[Any, Any]] = []
    template = _template(name, given, found)
    if not _is_said_by_names(given):
        structures[str(name)] = Structure(template)
    return found


def _members_of_input(given: Any) -> dict[Any, Any] | None:
    return None if hasattr(given, "shape") else members_of(given)


def _template(name: Any, given: Any, found: list[tuple[Any, Any]]) -> Any:
    """What stands for `given` in a structure; `found` gets the arrays and specs in it."""
    if is_fixed_value(given) and not isinstance(given, str):
        return given
    members = _members_of_input(given)
    if members is None:
        found.append((name, given))
        return Leaf(str(name))
    return _like(given, {key: _template(f"{name}_{key}", member, found) for key, member in members.items()})


def _is_said_by_names(given: Any) -> bool:
    """Whether names such as `batch_mask` and `pair_1_0` tell what holds the arrays."""
    members = list((_members_of_input(given) or {}).items())
    if type(given) is tuple:
        return all(_is_array(m) or (type(m) is tuple and _is_said_by_names(m)) for _, m in members)
    return isinstance(given, Mapping) and all(isinstance(k, str) and _is_array(m) for k, m in members)


def _is_array(given: Any) -> bool:
    return _members_of_input(given) is None and (isinstance(given, str) or not is_fixed_value(given))


def parameter_names(model: Any) -> list[str]:
    """The names by place of what an object's forward takes; empty for one without."""
    try:
        taken = inspect.signature(model.forward).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return []
    return [p.name for p in taken if p.kind is p.POSITIONAL_OR_KEYWORD]
