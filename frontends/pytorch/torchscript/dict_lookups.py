"""Lookups of a run-time key in a dict whose keys are numbers: vocabularies, tables of classes."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported

from ..common.values import cast, mark_scalar
from .context import Walk
from .number_lists import first_place, row_of
from .numbers import as_number, type_of_number
from .values import NUMBERS, Dict, Number


def is_asked_at_run_time(args: list[Any]) -> bool:
    """Return whether the arguments are a dict whose keys are numbers, and a run-time number as the key."""
    if len(args) < 2 or not isinstance(args[0], Dict) or not isinstance(args[1], Number):
        return False
    keys = args[0].state
    return isinstance(keys, dict) and bool(keys) and all(isinstance(key, (bool, int, float)) for key in keys)


def _found(walk: Walk, args: list[Any]) -> ir.Value:
    """Return one flag for each key of the dict: whether it equals the key that is asked for."""
    g = walk.g
    row, kind = row_of(walk, tuple(args[0].state))
    common = float if float in (kind, type_of_number(args[1])) else int
    return g.Equal(cast(g, row, NUMBERS[common]), cast(g, as_number(g, args[1]), NUMBERS[common]))


def _items(walk: Walk, args: list[Any], more: tuple[Any, ...] = ()) -> tuple[ir.Value, type]:
    """Return the values of the dict, followed by `more`, as a tensor of one dim, and their Python type.

    Raises `Unsupported` for values that are not numbers of one type.
    """
    items = (*args[0].state.values(), *more)
    kinds = {type_of_number(i) if isinstance(i, (Number, bool, int, float)) else None for i in items}
    if len(kinds) != 1 or None in kinds:
        raise Unsupported("a key that is known at run time only, of a dict of something else than numbers")
    return row_of(walk, items)


def contains_key(walk: Walk, node: Any, args: list[Any]) -> Any:
    """`key in dict`."""
    if not is_asked_at_run_time(args):
        return NotImplemented
    g = walk.g
    with g.at(walk.location(node)):
        count = g.ReduceSum(cast(g, _found(walk, args), NUMBERS[int]), keepdims=0)
        return Number(mark_scalar(g.Greater(count, 0)), bool)


def look_up(walk: Walk, node: Any, args: list[Any]) -> Any:
    """`dict[key]`; a missing key raises an exception in PyTorch, and makes the graph fail when it runs."""
    if not is_asked_at_run_time(args):
        return NotImplemented
    g = walk.g
    with g.at(walk.location(node)):
        values, kind = _items(walk, args)
        return Number(mark_scalar(g.Gather(values, first_place(g, _found(walk, args)), axis=0)), kind)


def look_up_or(walk: Walk, node: Any, args: list[Any]) -> Any:
    """`dict.get(key, default)`."""
    if not is_asked_at_run_time(args) or len(args) < 3:
        return NotImplemented
    g = walk.g
    with g.at(walk.location(node)):
        values, kind = _items(walk, args, (args[2],))
        # The default comes after the values, and its flag is always True.
        flags = g.Concat(_found(walk, args), g.const([True]), axis=0)
        return Number(mark_scalar(g.Gather(values, first_place(g, flags), axis=0)), kind)


LOOKUPS = {
    "aten::__contains__": contains_key,
    "aten::__getitem__": look_up,
    "aten::get": look_up_or,
}
