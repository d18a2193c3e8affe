"""Analyses a while loop from its functions alone: which arguments it passes on, counts, and writes to lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.attributes import tensor_of_proto
from ..graph.function_body import FunctionBody, Node, Ref

_LOOPS = ("While", "StatelessWhile")
_PASSING = ("Identity", "StopGradient", "PreventGradient", "Snapshot")


@dataclass(frozen=True)
class CounterLimit:
    """The loop continues while argument `counter` is less than another argument, or a number."""

    counter: int
    argument: int | None
    number: int | None


@dataclass(frozen=True)
class WhileLoop:
    """A while loop's arguments, classified by what an iteration does with them; `limits` is None for other
    conditions.
    """

    invariant: frozenset[int]
    steps: Mapping[int, int]
    """Arguments that grow by a constant."""
    writes: Mapping[int, int]
    """Lists that are only written, once per iteration, at the index in the argument named here."""
    keeps: frozenset[int]
    """Lists that are only written, once per iteration, at index 0; the last iteration's element remains."""
    pushes: frozenset[int]
    """Lists that are only pushed to, once per iteration, or written after their end."""
    grows: frozenset[int]
    """The lists in `writes` that grow if they are written after their end."""
    limits: tuple[CounterLimit, ...] | None


def analyze_loop(
    cond: FunctionBody, body: FunctionBody, functions: Callable[[str], FunctionBody], known: Mapping[int, int]
) -> WhileLoop:
    """Return the analysis of these two functions; `known` are integer arguments with known values."""
    steps, writes, pushes, keeps, grows = {}, {}, set(), set(), set()
    invariant = invariant_results(body, functions)
    fixed = {k: n for k, n in known.items() if k in invariant}
    for k, ref in enumerate(body.results):
        node = _producer_node(body, ref, functions)
        if node is None:
            continue
        if (step := _counter_step(body, node, k, functions, fixed)) is not None:
            steps[k] = step
        elif not node.inputs or _source_argument(body, node.inputs[0], functions) != k:
            continue
        elif _use_count(body, k) != 1:
            if node.op == "TensorListSetItem" and _use_count(body, k) == 2 and _is_own_length(body, node, k, functions):
                pushes.add(k)
        elif node.op == "TensorListSetItem":
            if _may_grow(node):
                grows.add(k)
            at = _source_argument(body, node.inputs[1], functions)
            if at is not None:
                writes[k] = at
            elif _constant_int(body, node.inputs[1]) == 0:
                keeps.add(k)
        elif node.op == "TensorListPushBack":
            pushes.add(k)
    limits = _counter_limits(cond, cond.results[0], functions)
    if limits is not None and any(l.counter not in steps or steps[l.counter] <= 0 for l in limits):  # noqa: E741
        limits = None
    if limits is not None and any(l.argument is not None and l.argument not in invariant for l in limits):  # noqa: E741
        limits = None
    return WhileLoop(invariant, steps, writes, frozenset(keeps), frozenset(pushes), frozenset(grows), limits)


def invariant_results(body: FunctionBody, functions: Callable[[str], FunctionBody]) -> frozenset[int]:
    """Return the results that equal the argument of the same number."""
    return frozenset(k for k, ref in enumerate(body.results) if _source_argument(body, ref, functions) == k)


def _source_argument(body: FunctionBody, ref: Ref, functions: Callable[[str], FunctionBody]) -> int | None:
    """Return the argument that `ref` passes on, directly or through other operators, else None."""
    while ref.node not in body.arguments:
        node = body.nodes.get(ref.node)
        if node is None:
            return None
        if node.op in _PASSING:
            ref = node.inputs[0]
        elif node.op in _LOOPS and ref.index in invariant_results(functions(node.attr["body"].func.name), functions):
            ref = node.inputs[ref.index]
        else:
            return None
    return body.arguments.index(ref.node)


def _is_own_length(body: FunctionBody, node: Node, k: int, functions: Callable[[str], FunctionBody]) -> bool:
    """Return whether a list is written at its own length."""
    index = _producer_node(body, node.inputs[1], functions)
    return (
        index is not None
        and index.op == "TensorListLength"
        and _source_argument(body, index.inputs[0], functions) == k
        and _may_grow(node)
    )


def _may_grow(node: Node) -> bool:
    """Return whether a list grows if it is written after its end; lists of TensorFlow 1 do not say it here."""
    return "resize_if_index_out_of_bounds" in node.attr and bool(node.attr["resize_if_index_out_of_bounds"].b)


def _producer_node(body: FunctionBody, ref: Ref, functions: Callable[[str], FunctionBody]) -> Node | None:
    node = body.nodes.get(ref.node)
    while node is not None and node.op in _PASSING:
        node = body.nodes.get(node.inputs[0].node)
    return node


def _counter_step(
    body: FunctionBody, node: Node, k: int, functions: Callable[[str], FunctionBody], fixed: Mapping[int, int]
) -> int | None:
    """Return the constant that an iteration adds to argument `k`; `tf.range` passes it to its loop as an argument."""
    if node.op not in ("Add", "AddV2"):
        return None
    for a, b in (node.inputs, node.inputs[::-1]):
        if _source_argument(body, a, functions) == k:
            step, source = _constant_int(body, b), _source_argument(body, b, functions)
            return fixed.get(source) if step is None and source is not None else step
    return None


def _constant_int(body: FunctionBody, ref: Ref) -> int | None:
    node = body.nodes.get(ref.node)
    if node is None or node.op != "Const":
        return None
    content = tensor_of_proto(node.attr["value"].tensor, memoryview(b"")).numpy()
    return int(content.item()) if content.size == 1 and content.dtype.kind in "iu" and content.ndim == 0 else None


def _counter_limits(
    cond: FunctionBody, ref: Ref, functions: Callable[[str], FunctionBody]
) -> tuple[CounterLimit, ...] | None:
    node = _producer_node(cond, ref, functions)
    if node is None:
        return None
    if node.op == "LogicalAnd":
        parts = [_counter_limits(cond, r, functions) for r in node.inputs]
        return None if any(p is None for p in parts) else tuple(limit for p in parts for limit in p or ())
    if node.op == "Greater":
        return _less_limit(cond, node.inputs[1], node.inputs[0], functions)
    return _less_limit(cond, node.inputs[0], node.inputs[1], functions) if node.op == "Less" else None


def _less_limit(
    cond: FunctionBody, a: Ref, b: Ref, functions: Callable[[str], FunctionBody]
) -> tuple[CounterLimit, ...] | None:
    counter, argument, number = (
        _source_argument(cond, a, functions),
        _source_argument(cond, b, functions),
        _constant_int(cond, b),
    )
    if counter is None or (argument is None and number is None):
        return None
    return (CounterLimit(counter, argument, number),)


def _use_count(body: FunctionBody, k: int) -> int:
    name = body.arguments[k]
    return sum(r.node == name for r in _live_references(body))


def _live_references(body: FunctionBody) -> Iterator[Ref]:
    for node in body.live:
        yield from node.inputs


def trip_count(start: Any, limit: Any, step: int) -> int | None:
    """Return the number of iterations from `start` to below `limit`, if both are known."""
    if not isinstance(start, (int, np.integer)) or not isinstance(limit, (int, np.integer)):
        return None
    return max(-(-(int(limit) - int(start)) // step), 0)
