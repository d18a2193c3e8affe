"""Arranges inputs by name as arguments of a module's forward, nested ones as tuples and dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from .guess import parameters_of


def arrange_arguments(module: nn.Module, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments of forward from values by name.

    `args_0`, `args_1` … fill `*args`; `pair_0` and `pair_1` are a tuple for `pair`, `batch_a` is in a dict for `batch`.
    """
    parameters = parameters_of(module)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    leading = True
    for parameter in parameters:
        found = argument_of(parameter.name, {p.name for p in parameters}, values)
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += list(found or ())
            leading = False
        elif found is None:
            leading = False
        elif leading and parameter.kind is not parameter.KEYWORD_ONLY:
            args.append(found)
        else:
            kwargs[parameter.name] = found
    return tuple(args), kwargs


def arranged_shapes(module: nn.Module, shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `shapes` by the names that torch.export requires: those of the parameters, nested as the values are."""
    names = {p.name for p in parameters_of(module)}
    wrapped = {name: _Shape(shape) for name, shape in shapes.items()}
    found = {name: argument_of(name, names, wrapped) for name in (p.name for p in parameters_of(module))}
    return {name: _unwrap_shapes(value) for name, value in found.items() if value is not None}


def argument_of(name: str, names: set[str], values: Mapping[str, Any]) -> Any:
    """Return the value of a parameter: its own, or one built from values whose names begin with its name; None if
    missing.
    """
    if name in values:
        return values[name]
    return _nested_value(
        {n[len(name) + 1 :]: v for n, v in values.items() if n.startswith(f"{name}_") and n not in names}
    )


def as_declared_type(value: Any, kind: Any) -> Any:
    """Return an input of a TorchScript function as its type requires: numbers as Python's, lists as lists."""
    if kind.kind() == "OptionalType":
        return as_declared_type(value, kind.containedTypes()[0])
    if kind.kind() in ("IntType", "FloatType", "BoolType"):
        return value.item()
    if kind.kind() == "ListType":
        return [as_declared_type(v, kind.containedTypes()[0]) for v in value]
    if kind.kind() == "TupleType":
        return tuple(as_declared_type(v, k) for v, k in zip(value, kind.containedTypes(), strict=True))
    if kind.kind() == "DictType":
        inner = kind.containedTypes()[1]
        return {k: as_declared_type(v, inner) for k, v in _by_key(value, nesting(inner)).items()}
    return value


def nesting(kind: Any) -> int:
    """Return how many lists and tuples a TorchScript type has around its tensors: that many numbers end their names."""
    return 1 + nesting(kind.containedTypes()[0]) if kind.kind() in ("ListType", "TupleType") else 0


def _by_key(values: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Group items by the last `depth` numbers of their names into tuples: "left_0" and "left_1" become "left"."""
    if not depth:
        return dict(values)
    groups: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        key = name.rsplit("_", depth)[0]
        groups.setdefault(key, {})[name[len(key) + 1 :]] = value
    return {key: _nested_value(parts) for key, parts in groups.items()}


def _nested_value(parts: Mapping[str, Any]) -> Any:
    """Return a tuple if the keys begin with numbers ("0", "1_0"), else a dict."""
    if not parts:
        return None
    groups: dict[str, dict[str, Any]] = {}
    for key, value in parts.items():
        first, _, rest = key.partition("_")
        groups.setdefault(first, {})[rest] = value
    if not all(first.isdecimal() for first in groups):
        return dict(parts)
    ordered = sorted(groups, key=int)
    return tuple(groups[first][""] if "" in groups[first] else _nested_value(groups[first]) for first in ordered)


@dataclass(frozen=True)
class _Shape:
    """The dims of one input, a dict or None, while they are arranged like the inputs."""

    dims: Any


def _unwrap_shapes(value: Any) -> Any:
    if isinstance(value, _Shape):
        return value.dims
    if isinstance(value, dict):
        return {key: _unwrap_shapes(v) for key, v in value.items()}
    return tuple(map(_unwrap_shapes, value))
