"""isinstance in a TorchScript program: of values being converted, of optionals that data decide about, and of lists."""

from __future__ import annotations

from typing import Any

from convert.errors import Unsupported

from ..common.values import mark_scalar
from .context import Walk
from .values import Dict, List, Number, OptionalValue, Sequence, Tensor

_PLAIN = {"NoneType": type(None), "TensorType": Tensor, "IntType": int, "FloatType": float, "BoolType": bool}
_NUMBERS = (int, float, bool)


def is_instance(walk: Walk, node: Any, args: list[Any]) -> Any:
    """prim::isinstance: a bool, or a run-time bool if data decide whether an optional has a value.

    The compiler has already distinguished types that differ by more than None, except those in a Union, which are
    distinguished here.
    """
    types = list(node.tys("types"))
    if not isinstance(args[0], OptionalValue):
        return _is_one_of(args[0], types)
    there, none = _is_one_of(args[0].value, types), _is_one_of(None, types)
    if there == none:
        return there
    present = args[0].present
    if not isinstance(present, Number):
        return bool(present) == there
    with walk.g.at(walk.location(node)):
        return present if there else Number(mark_scalar(walk.g.Not(present.value)), bool)


def _is_one_of(value: Any, types: list[Any]) -> bool:
    # all of them, because a type that cannot be tested is refused at any position
    found = [_is_a(value, kind) for kind in types]
    return any(found)


def _is_a(value: Any, kind: Any) -> bool:
    name = kind.kind()
    inner = kind.containedTypes() if name in ("ListType", "DictType", "TupleType", "OptionalType") else []
    if name in _PLAIN:
        return (value.kind if isinstance(value, Number) else type(value)) is _PLAIN[name]
    if name == "StringType":
        return isinstance(value, str)
    if name == "OptionalType":
        return value is None or _is_a(value, inner[0])
    if name == "TupleType":
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_is_a, value, inner))
    if name == "ListType":
        return isinstance(value, List) and _holds(value.state, inner[0])
    if name == "DictType":
        return isinstance(value, Dict) and _holds(tuple(value.state), inner[0]) and _holds(_items(value), inner[1])
    raise Unsupported("isinstance of a type that is decided at run time")


def _items(value: Dict) -> tuple[Any, ...]:
    return tuple(value.state.values())


def _holds(state: Any, kind: Any) -> bool:
    """Return whether the items of a list have a type. Raises `Unsupported` for an empty list, whose item type is
    unknown.
    """
    if isinstance(state, Sequence):
        number = state.item in _NUMBERS and kind.kind() in _PLAIN
        return _PLAIN[kind.kind()] is state.item if number else kind.kind() == "TensorType" and state.item is Tensor
    if not state:
        raise Unsupported("isinstance of an empty list or dict, of which nothing tells the type of its items")
    return all(_is_a(item, kind) for item in state)
