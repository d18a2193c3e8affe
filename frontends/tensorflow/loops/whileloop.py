"""Converts while loops to ONNX's Loop: invariants stay outside, counters follow from the iteration, lists are
scanned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.patterns.recurrent.emit import emit_recurrent

from ..common import shape_values
from ..common.dims import sizes_tensor
from ..common.lazy_reshape import cast, int64
from ..common.tensor_lists import TensorList, merge_dims, pad_to_size, stack_elements, tensor_list_from_stacked
from ..common.unequal_lists import is_unequal, joined_elements, length_of, unequal_list
from .loop_analysis import WhileLoop, analyze_loop, trip_count


@dataclass
class LoopIteration:
    """One iteration of a loop as a subgraph: `results` are the loop's arguments after it, by number."""

    graph: Graph
    inner: list[Any]
    results: list[Any]
    iteration: ir.Value


@dataclass(frozen=True)
class TripCount:
    """The trip count: `value` (int64 scalar), and its content as far as it is known.

    `bounds` are upper bounds: values, or their known content.
    """

    value: ir.Value
    content: Any
    bounds: tuple[Any, ...] = ()

    def is_at_most(self, size: ir.Value) -> bool:
        """Return whether the count is known to be at most a size."""
        content = shape_values.content(size)
        return any(b is size or (content is not None and not isinstance(b, ir.Value) and b == content.item())
                   for b in self.bounds)  # fmt: skip


def while_loop(g: Graph, arguments: list[Any], cond: Any, body: Any) -> list[Any]:
    """Return the arguments after the loop. Raises `Unsupported` for resources that change in it."""
    known = {k: shape_values.content(a) for k, a in enumerate(arguments) if isinstance(a, ir.Value)}
    numbers = {k: n.item() for k, n in known.items() if n is not None and n.ndim == 0 and isinstance(n.item(), int)}
    loop = analyze_loop(cond.body, body.body, body.other, numbers)
    count = _trip_count(g, loop, arguments)
    scanned = _scanned_lists(loop, arguments, count)
    carried = [
        k
        for k in range(len(arguments))
        if k not in loop.invariant and k not in scanned and not (count is not None and k in loop.steps)
    ]
    for k in carried:
        if not isinstance(arguments[k], (ir.Value, TensorList)):
            raise Unsupported("a loop that changes a resource")
    shapes, elements = _invariant_dims(g, loop, arguments, body, carried, scanned, count)
    for k in carried:
        if isinstance(arguments[k], TensorList):
            arguments[k] = stack_elements(g, replace(arguments[k], element=elements.get(k, arguments[k].element)))
    lists = {k for k in carried if k in elements}
    turn = _emit_body(g, loop, arguments, body, carried, scanned, count, shapes, lists)
    return _emit_loop(g, loop, arguments, cond, turn, carried, scanned, count, shapes, lists, body.joins_lists)


def _trip_count(g: Graph, loop: WhileLoop, arguments: Sequence[Any]) -> TripCount | None:
    """Return the number of iterations if the condition is that counters stay below limits, else None."""
    if loop.limits is None:
        return None
    counts: list[TripCount] = []
    bounds: list[Any] = []
    for limit in loop.limits:
        start, step = arguments[limit.counter], loop.steps[limit.counter]
        if start.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
            return None
        end = arguments[limit.argument] if limit.argument is not None else g.const(limit.number, start.dtype)
        first, last = shape_values.content(start), shape_values.content(end)
        first, last = None if first is None else first.item(), None if last is None else last.item()
        number = trip_count(first, last, step)
        if number is not None:
            counts.append(TripCount(g.const(np.array(number, np.int64)), number))
            bounds += [number]
        elif first == 0 and step == 1:  # a size is never negative, but another number may be
            rounds = int64(g, end) if last is not None else g.Max(int64(g, end), g.const(0, ir.DataType.INT64))
            counts.append(TripCount(rounds, last))
            bounds += [end] if last is None else [end, last]
        else:
            span = g.Sub(int64(g, end), int64(g, start))
            rounds = g.Div(g.Add(span, g.const(step - 1, ir.DataType.INT64)), g.const(step, ir.DataType.INT64))
            counts.append(TripCount(g.Max(rounds, g.const(0, ir.DataType.INT64)), None))
    least = counts[0]
    for other in counts[1:]:
        if other.value is least.value or (other.content is not None and other.content == least.content):
            continue
        if isinstance(other.content, int) and isinstance(least.content, int):
            least = min(least, other, key=lambda c: c.content)
        else:
            least = TripCount(g.Min(least.value, other.value), None)
    return replace(least, bounds=tuple(bounds))


def _scanned_lists(loop: WhileLoop, arguments: Sequence[Any], count: TripCount | None) -> set[int]:
    """Return the lists that are written once per iteration, in order from their start: they are scan outputs."""
    found = set()
    for k, at in loop.writes.items():
        items, start = arguments[k], arguments[at]
        if k in loop.grows and loop.steps.get(at) == 1 and _is_empty(items) and _is_zero(start):
            found.add(k)
            continue
        if count is None or loop.steps.get(at) != 1 or not isinstance(items, TensorList) or not items.unwritten:
            continue
        first = shape_values.content(start)
        if first is not None and first.item() == 0 and count.is_at_most(items.count):
            found.add(k)
    for k in loop.keeps:
        items = arguments[k]
        length = shape_values.content(items.count) if isinstance(items, TensorList) and items.unwritten else None
        if length is not None and length.item() == 1:
            found.add(k)
    found |= {k for k in loop.pushes if _is_empty(arguments[k])}
    return found


def _is_empty(items: Any) -> bool:
    return isinstance(items, TensorList) and _is_zero(items.count)


def _is_zero(number: ir.Value) -> bool:
    content = shape_values.content(number)
    return content is not None and content.item() == 0


def _emit_body(
    g: Graph,
    loop: WhileLoop,
    arguments: Sequence[Any],
    body: Any,
    carried: Sequence[int],
    scanned: set[int],
    count: TripCount | None,
    shapes: Mapping[int, Sequence[Dim] | None],
    lists: set[int],
) -> LoopIteration:
    """Return the body as a subgraph whose inputs are the loop-carried values."""
    inside = g.body("loop")
    iteration = inside.input("iteration", ir.DataType.INT64, [])
    inside.input("condition", ir.DataType.BOOL, [])
    inner = list(arguments)
    for k in carried:
        value = arguments[k]
        if isinstance(value, TensorList):  # a trial, in which the elements are still unknown
            inner[k] = value
            continue
        inner[k] = inside.input("state", g.dtype(value), shapes.get(k))
        if k in lists:
            inner[k] = tensor_list_from_stacked(inside, inner[k])
    for k in scanned:
        longer = _is_empty(arguments[k])  # starts empty and grows by one element per iteration
        length = iteration if longer else arguments[k].count
        inner[k] = replace(arguments[k], blank=True, longer=longer, count=length)
    if count is not None:
        for k, step in loop.steps.items():
            inner[k] = _counter_value(inside, iteration, arguments[k], step)
    return LoopIteration(inside, inner, body(inside, *inner), iteration)


def _counter_value(g: Graph, iteration: ir.Value, start: ir.Value, step: int) -> ir.Value:
    first = shape_values.content(start)
    moved = iteration if step == 1 else g.Mul(iteration, g.const(step, ir.DataType.INT64))
    value = cast(g, moved, g.dtype(start))
    # A vector may be a counter too, if all of its elements change by the same number.
    return value if first is not None and first.ndim == 0 and first.item() == 0 else g.Add(value, start)


def _invariant_dims(
    g: Graph,
    loop: WhileLoop,
    arguments: Sequence[Any],
    body: Any,
    carried: Sequence[int],
    scanned: set[int],
    count: TripCount | None,
) -> tuple[dict[int, Sequence[Dim] | None], dict[int, tuple[Dim, ...] | None]]:
    """Return the dims that every iteration keeps, and those of list elements, by emitting the body as a trial."""
    shapes: dict[int, Sequence[Dim] | None] = {
        k: None if arguments[k].shape is None else g.shape(arguments[k])
        for k in carried
        if isinstance(arguments[k], ir.Value)
    }
    elements: dict[int, tuple[Dim, ...] | None] = {
        k: arguments[k].element for k in carried if isinstance(arguments[k], TensorList)
    }
    for _ in range(4):
        trial = [
            replace(a, element=elements[k]) if k in elements and isinstance(a, TensorList) else a
            for k, a in enumerate(arguments)
        ]
        turn = _emit_body(g, loop, trial, body, carried, scanned, count, shapes, set())
        before = (dict(shapes), dict(elements))
        for k in carried:
            result = turn.results[k]
            if k in elements:
                elements[k] = merge_dims(elements[k], result.element)
            else:
                shapes[k] = _common_dims(shapes[k], None if result.shape is None else g.shape(result))
        if (shapes, elements) == before:
            break
    for k in elements:
        whole = arguments[k].stacked
        length = None if whole is None else g.shape(whole)[0]
        known_count = shape_values.content(arguments[k].count)
        length = known_count.item() if length is None and known_count is not None else length
        after = turn.results[k]
        grown = isinstance(after, TensorList) and after.stacked is not None and g.shape(after.stacked)[0] != length
        shapes[k] = [None if grown else length, *(elements[k] or ())] if elements[k] is not None else None
    return shapes, elements


def _common_dims(a: Sequence[Dim] | None, b: Sequence[Dim] | None) -> tuple[Dim, ...] | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def _emit_loop(
    g: Graph,
    loop: WhileLoop,
    arguments: Sequence[Any],
    cond: Any,
    turn: LoopIteration,
    carried: Sequence[int],
    scanned: set[int],
    count: TripCount | None,
    shapes: Mapping[int, Sequence[Dim] | None],
    lists: set[int],
    joins: bool,
) -> list[Any]:
    inside, scans = turn.graph, sorted(scanned)
    items = {k: turn.results[k].item for k in scans}
    final = {k: v for k, v in enumerate(arguments) if k not in carried and k not in scanned}
    if count is not None:
        for k, step in loop.steps.items():
            total = count.value if step == 1 else g.Mul(count.value, g.const(step, ir.DataType.INT64))
            final[k] = g.Add(arguments[k], cast(g, total, g.dtype(arguments[k])))
        layer = _emit_layer(g, loop, arguments, turn, carried, scans, count)
        if layer is not None:
            final |= layer
            return [final[k] for k in range(len(arguments))]
    again = inside.const(np.array(True)) if count is not None else _loop_condition(inside, cond, turn.results)
    inside.output(again, inside.unique("again"))
    for k in carried:
        result = turn.results[k]
        inside.output(
            stack_elements(inside, result) if isinstance(result, TensorList) else result, inside.unique("state")
        )
    dims = {k: turn.results[k].element for k in scans}
    unequal = {k: joined_elements(g, inside, items[k], dims[k] or ()) for k in scans if joins and is_unequal(dims[k])}
    for k in scans:
        inside.output(length_of(inside, items[k]) if k in unequal else items[k], inside.unique("element"))
    if count is None:
        stacked = [tensor_list_from_stacked(g, a) if k in lists else a for k, a in enumerate(arguments)]
        first: Any = _loop_condition(g, cond, stacked)
    else:  # the schema of Loop requires a condition if nothing is carried
        first = None if carried or unequal else True
    outputs = g.Loop(
        None if count is None else count.value,
        first,
        *(arguments[k] for k in carried),
        *unequal.values(),
        body=inside,
        outputs=len(carried) + len(unequal) + len(scans),
    )
    left = iter(outputs if isinstance(outputs, list) else [outputs])
    for k in carried:
        value = g.facts(next(left), g.dtype(arguments[k]), shapes.get(k))
        final[k] = tensor_list_from_stacked(g, value) if k in lists else value
    ends = {k: next(left) for k in unequal}
    for k in scans:
        scan, old = next(left), arguments[k]
        if k in unequal:
            final[k] = unequal_list(g, ends[k], scan, old.dtype, dims[k])
        else:
            final[k] = _list_from_sequence(g, loop, k, _scan_facts(g, scan, old, items[k], count), old.count, count)
    return [final[k] for k in range(len(arguments))]


def _scan_facts(g: Graph, scan: ir.Value, old: TensorList, item: ir.Value, count: TripCount | None) -> ir.Value:
    """Return the scan output with the dtype of the list that it replaces, and the shape of `count` items."""
    number = None if count is None else count.content
    return g.facts(scan, old.dtype, None if item.shape is None else [number, *g.shape(item)])


def _emit_layer(
    g: Graph,
    loop: WhileLoop,
    arguments: Sequence[Any],
    turn: LoopIteration,
    carried: Sequence[int],
    scans: Sequence[int],
    count: TripCount,
) -> dict[int, Any] | None:
    """Emit the loop as a recurrent layer; return the final value of each argument that it computes, or None."""
    inner, initial, results = ([side[k] for k in carried] for side in (turn.inner, arguments, turn.results))
    rounds, sizes = (count.value, count.content), _list_sizes(loop, arguments, scans)
    added = [turn.results[k].item for k in scans]
    found = emit_recurrent(g, turn.graph.graph, turn.iteration, inner, initial, results, added, rounds, sizes)
    if found is None:
        return None
    final: dict[int, Any] = dict(zip(carried, found.states, strict=True))
    for k, outputs, last in zip(scans, found.outputs, found.last, strict=True):
        final[k] = tensor_list_from_stacked(g, g.Unsqueeze(last, [0]) if k in loop.keeps else outputs)
    return final


def _list_sizes(loop: WhileLoop, arguments: Sequence[Any], scans: Sequence[int]) -> list[Any]:
    """Return the size of each list if it is known, else ""; None for lists that the loop does not fill."""
    found = [shape_values.content(arguments[k].count) for k in scans]
    unfilled = loop.keeps | loop.pushes | {k for k in scans if _is_empty(arguments[k])}
    return [None if k in unfilled else "" if n is None else n.item() for k, n in zip(scans, found, strict=True)]


def _list_from_sequence(
    g: Graph, loop: WhileLoop, k: int, sequence: ir.Value, size: ir.Value, count: TripCount | None
) -> TensorList:
    """Return the list that a loop wrote, from its elements in order; those after the last iteration are zeros."""
    if k in loop.keeps:
        if count is None or not isinstance(count.content, int) or not count.content:
            sequence = _after_zeros(g, sequence)
        last = g.facts(g.Slice(sequence, [-1], [np.iinfo(np.int64).max], [0]), shape=[1, *g.shape(sequence)[1:]])
        return tensor_list_from_stacked(g, last)
    content = shape_values.content(size)
    whole = (
        count is None or k in loop.pushes or _is_zero(size) or (content is not None and content.item() == count.content)
    )
    return tensor_list_from_stacked(g, sequence if whole else pad_to_size(g, sequence, size))


def _after_zeros(g: Graph, sequence: ir.Value) -> ir.Value:
    """Return `sequence` with an element of zeros before it: the content of a list before the first iteration."""
    dims = g.shape(sequence)[1:]
    sizes = sizes_tensor(g, [1, *dims])
    if sizes is None:
        return sequence
    whole = g.Concat(g.Expand(g.const(0, g.dtype(sequence)), sizes), sequence, axis=0)
    return g.facts(whole, g.dtype(sequence), [None, *dims])


def _loop_condition(g: Graph, cond: Any, arguments: Sequence[Any]) -> ir.Value:
    (value,) = cond(g, *arguments)
    if value.dtype == ir.DataType.STRING or value.shape is None or len(value.shape):
        raise Unsupported("a loop whose condition is not a number or truth value")
    return cast(g, value, ir.DataType.BOOL)
