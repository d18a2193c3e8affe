"""Lists of run-time numbers: sums, extremes, order and searches, computed on a tensor of their items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.values import cast, mark_scalar
from .context import Walk
from .numbers import as_number, type_of_number
from .sequences import length_of, set_sequence_type
from .values import NUMBERS, List, Number, Sequence, is_known


def _is_numbers(obj: Any) -> bool:
    """Return whether `obj` is a list of numbers some of which are known at run time only."""
    if not isinstance(obj, List):
        return False
    if isinstance(obj.state, Sequence):
        return obj.state.item in NUMBERS
    return not is_known(obj) and all(isinstance(i, (Number, bool, int, float)) for i in obj.state)


def _is_asked_at_run_time(args: list[Any]) -> bool:
    """Return whether a run-time number is looked for in a list of known numbers."""
    if not isinstance(args[0], List) or not any(isinstance(a, Number) for a in args[1:]):
        return False
    state = args[0].state
    return isinstance(state, tuple) and bool(state) and all(isinstance(i, (bool, int, float)) for i in state)


def row_of(walk: Walk, items: tuple[Any, ...]) -> tuple[ir.Value, type]:
    """Return numbers as a tensor of one dim, and their Python type."""
    return _row(walk, items)


def _row(walk: Walk, state: Any) -> tuple[ir.Value, type]:
    """Return the items of a list's state as a tensor of one dim, and their Python type."""
    g = walk.g
    if isinstance(state, Sequence):
        # A Loop over the items, because ConcatFromSequence accepts no empty sequence, and some runtimes do not infer
        # its rank.
        body = g.body("row")
        turn = body.input("step", ir.DataType.INT64, [])
        body.input("go_on", ir.DataType.BOOL, [])
        item = body.facts(body.SequenceAt(state.value, turn), dtype=state.dtype)
        body.output(body.const(True))
        body.output(body.Reshape(item, np.zeros(0, np.int64)))
        row = g.Loop(length_of(walk, state), g.const(True), body=body)
        return g.facts(row, dtype=state.dtype, shape=[None]), state.item
    kinds = {type_of_number(i) for i in state}
    kind = next(k for k in (float, int, bool) if k in kinds)
    return g.Concat(*(g.Unsqueeze(cast(g, as_number(g, i), NUMBERS[kind]), [0]) for i in state), axis=0), kind


def _list_of(walk: Walk, row: ir.Value, kind: type, like: Any) -> Any:
    """Return the numbers of a row as the state of a list: items as many as `like` has, or a sequence like `like`."""
    g = walk.g
    if not isinstance(like, Sequence):
        return tuple(Number(mark_scalar(g.Gather(row, i, axis=0)), kind) for i in range(len(like)))
    return replace(like, value=set_sequence_type(g.SplitToSequence(row, axis=0, keepdims=0), like.dtype))


def _rule(function: Callable[..., Any]) -> Callable[[Walk, Any, list[Any]], Any]:
    """Wrap `function(walk, list, row, kind, *args)`, for lists of run-time numbers."""

    def apply(walk: Walk, node: Any, args: list[Any]) -> Any:
        if not args or not (_is_numbers(args[0]) or _is_asked_at_run_time(args)):
            return NotImplemented
        with walk.g.at(walk.location(node)):
            return function(walk, args[0], *_row(walk, args[0].state), *args[1:])

    return apply


def _sum(walk: Walk, obj: List, row: ir.Value, kind: type) -> Number:
    kind = float if kind is float else int
    return Number(mark_scalar(walk.g.ReduceSum(cast(walk.g, row, NUMBERS[kind]), keepdims=0)), kind)


def _extreme_rule(name: str) -> Callable[..., Any]:
    def reduce(walk: Walk, obj: List, row: ir.Value, kind: type, *others: Any) -> Any:
        if others or kind is bool:
            raise Unsupported("the larger or smaller of two lists, or of flags, that are known at run time only")
        return Number(mark_scalar(walk.g.node(name, [row], {"keepdims": 0})), kind)

    return reduce


def _sorted_row(walk: Walk, row: ir.Value, kind: type, reverse: Any) -> ir.Value:
    if kind is bool or not isinstance(reverse, bool):
        raise Unsupported("sorting flags, or in an order, known at run time only")
    ordered: ir.Value = walk.g.TopK(row, walk.g.Shape(row), axis=0, largest=int(reverse), outputs=2)[0]
    return ordered


def _sorted(walk: Walk, obj: List, row: ir.Value, kind: type, reverse: Any = False) -> List:
    return List(_list_of(walk, _sorted_row(walk, row, kind, reverse), kind, obj.state), walk.memory.scope)


def _sort(walk: Walk, obj: List, row: ir.Value, kind: type, reverse: Any = False) -> Any:
    walk.memory.write(obj, _list_of(walk, _sorted_row(walk, row, kind, reverse), kind, obj.state))
    return ()


def _same(g: Graph, row: ir.Value, kind: type, wanted: Any) -> ir.Value:
    common = float if float in (kind, type_of_number(wanted)) else int
    return g.Equal(cast(g, row, NUMBERS[common]), cast(g, as_number(g, wanted), NUMBERS[common]))


def _count(walk: Walk, obj: List, row: ir.Value, kind: type, wanted: Any) -> Number:
    g = walk.g
    return Number(mark_scalar(g.ReduceSum(cast(g, _same(g, row, kind, wanted), NUMBERS[int]), keepdims=0)), int)


def _contains(walk: Walk, obj: List, row: ir.Value, kind: type, wanted: Any) -> Number:
    return Number(mark_scalar(walk.g.Greater(_count(walk, obj, row, kind, wanted).value, 0)), bool)


def first_place(g: Graph, same: ir.Value) -> ir.Value:
    """Return the index of the first True as a number; without one, the Gather fails when the model runs."""
    return g.Squeeze(g.Gather(g.NonZero(same), g.const([0]), axis=1), [0, 1])


def _index(walk: Walk, obj: List, row: ir.Value, kind: type, wanted: Any) -> Number:
    """Return the index of an item; without one, PyTorch raises an exception, and the graph fails when it runs."""
    return Number(mark_scalar(first_place(walk.g, _same(walk.g, row, kind, wanted))), int)


def replace_number(walk: Walk, node: Any, args: list[Any]) -> Any:
    """items[place] = number, for a run-time place."""
    obj, place, item = args
    if not isinstance(obj, List) or not isinstance(place, Number) or not isinstance(obj.state, tuple):
        return NotImplemented
    kinds = {type_of_number(i) if isinstance(i, (Number, bool, int, float)) else None for i in (*obj.state, item)}
    if len(kinds) != 1 or None in kinds:
        return NotImplemented
    g = walk.g
    with g.at(walk.location(node)):
        row, kind = _row(walk, obj.state)
        value = g.Unsqueeze(cast(g, as_number(g, item), NUMBERS[kind]), [0])
        written = g.ScatterElements(row, g.Unsqueeze(as_number(g, place), [0]), value, axis=0)
        walk.memory.write(obj, _list_of(walk, written, kind, obj.state))
    return obj


def _flags(walk: Walk, row: ir.Value, wanted: bool) -> ir.Value:
    """Return the number of items that are true, or that are false."""
    g = walk.g
    true = cast(g, row, NUMBERS[bool])
    count: ir.Value = g.ReduceSum(cast(g, true if wanted else g.Not(true), NUMBERS[int]), keepdims=0)
    return count


def _any(walk: Walk, obj: List, row: ir.Value, kind: type) -> Number:
    return Number(mark_scalar(walk.g.Greater(_flags(walk, row, True), 0)), bool)


def _all(walk: Walk, obj: List, row: ir.Value, kind: type) -> Number:
    return Number(mark_scalar(walk.g.Equal(_flags(walk, row, False), 0)), bool)


def _equality_rule(same: bool) -> Callable[[Walk, Any, list[Any]], Any]:
    """Wrap the equality of two lists of numbers one of which grew in a loop: their lengths and common items are
    compared.
    """

    def apply(walk: Walk, node: Any, args: list[Any]) -> Any:
        states = [a.state for a in args[:2] if isinstance(a, List)]
        grown = [isinstance(s, Sequence) and s.item in NUMBERS for s in states]
        plain = [isinstance(s, tuple) and all(isinstance(i, (Number, bool, int, float)) for i in s) for s in states]
        if len(states) < 2 or not any(grown) or not all(a or b for a, b in zip(grown, plain, strict=True)):
            return NotImplemented
        g = walk.g
        with g.at(walk.location(node)):
            rows = [_row(walk, s)[0] if s else g.const(np.zeros(0, np.int64)) for s in states]
            common = NUMBERS[float] if any(g.dtype(r).is_floating_point() for r in rows) else NUMBERS[int]
            a, b = (cast(g, row, common) for row in rows)
            lengths = g.Shape(a), g.Shape(b)
            both = g.Min(*lengths)
            pairs = g.Equal(*(g.Slice(row, np.array([0]), both, np.array([0])) for row in (a, b)))
            different = g.ReduceSum(cast(g, g.Not(pairs), NUMBERS[int]), keepdims=0)
            alike = g.And(g.Squeeze(g.Equal(*lengths), [0]), g.Equal(different, 0))
            return Number(mark_scalar(alike if same else g.Not(alike)), bool)

    return apply


def sort_known(walk: Walk, node: Any, args: list[Any]) -> Any:
    """list.sort of known numbers or texts."""
    if not isinstance(args[0], List) or not is_known(args[0]) or not isinstance(args[0].state, tuple):
        return NotImplemented
    walk.memory.write(args[0], tuple(sorted(args[0].state, reverse=len(args) > 1 and bool(args[1]))))
    return ()


NUMBER_LISTS: dict[str, Callable[[Walk, Any, list[Any]], Any]] = {
    "aten::sum": _rule(_sum),
    "prim::min": _rule(_extreme_rule("ReduceMin")),
    "prim::max": _rule(_extreme_rule("ReduceMax")),
    "aten::sorted": _rule(_sorted),
    "aten::sort": _rule(_sort),
    "aten::count": _rule(_count),
    "aten::index": _rule(_index),
    "aten::_set_item": replace_number,
    "aten::__contains__": _rule(_contains),
    "aten::any": _rule(_any),
    "aten::all": _rule(_all),
    "aten::eq": _equality_rule(True),
    "aten::ne": _equality_rule(False),
}
