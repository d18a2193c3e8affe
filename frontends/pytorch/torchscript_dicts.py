"""Dicts of a TorchScript program: kept as Python's, for their keys are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .torchscript_values import Dict, List
from .torchscript_walk import Walk


def _from_dict(read_out: Callable[[dict[Any, Any]], Any]) -> Callable[[Walk, Any, list[Any]], Any]:
    def read_dict(walk: Walk, node: Any, args: list[Any]) -> Any:
        return List(tuple(read_out(args[0].state)), walk.memory.scope) if isinstance(args[0], Dict) else NotImplemented

    return read_dict


def _get(walk: Walk, node: Any, args: list[Any]) -> Any:
    return args[0].state.get(*args[1:3])


def _updated(walk: Walk, node: Any, args: list[Any]) -> Any:
    walk.memory.write(args[0], {**args[0].state, **args[1].state})
    return ()


def _set_default(walk: Walk, node: Any, args: list[Any]) -> Any:
    thing, key, value = args
    if key not in thing.state:
        walk.memory.write(thing, {**thing.state, key: value})
    return thing.state[key]


DICTS: dict[str, Callable[[Walk, Any, list[Any]], Any]] = {
    "aten::keys": _from_dict(dict.keys),
    "aten::values": _from_dict(dict.values),
    "aten::items": _from_dict(dict.items),
    "aten::get": _get,
    "aten::update": _updated,
    "aten::setdefault": _set_default,
}
"""The operators on dicts alone."""
