"""Dicts of numbers that are asked for a key that is known at run time only: vocabularies, tables of classes."""

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
    """True for a dict whose keys are numbers and a key that is a run-time number."""
    if len(args) < 2 or not isinstance(args[0], Dict) or not isinstance(args[1], Number):
        return False
    keys = args[0].state
    return isinstance(keys, dict) and bool(keys) and all(isinstance(key, (bool, int, float)) for key in keys)


def _found(walk: Walk, args: list[Any]) -> ir.Value:
    """Which of the keys is meant, as flags."""
    g = walk.g
    row, kind = row_of(walk, tuple(args[0].state))
    common = float if float in (kind, type_of_number(args[1])) else int
    return g.Equal(cast(g, row, NUMBERS[common]), cast(g, as_number(g, args[1]), NUMBERS[common]))


def _items(walk: Walk, args: list[Any], more: tuple[Any, ...] = ()) -> tuple[ir.Value, type]:
    """The values, and `more` behind them, as a tensor of one dim, and their type."""
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
    """`dict[key]`; a key that it does not have is an exception in PyTorch, and in the graph when it runs."""
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
        # The default stands behind the values, where its flag is always up.
        flags = g.Concat(_found(walk, args), g.const([True]), axis=0)
        return Number(mark_scalar(g.Gather(values, first_place(g, flags), axis=0)), kind)


LOOKUPS = {
    "aten::__contains__": contains_key,
    "aten::__getitem__": look_up,
    "aten::get": look_up_or,
}
