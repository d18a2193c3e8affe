"""Loops of a TorchScript program: unrolled if their steps are known, else an ONNX Loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from convert.errors import Location, Unsupported
from convert.graph import Graph

from .context import Env, ProgramError, Walk
from .control import Run, as_node_outputs, discard_graph, explore_block, writes_since
from .merge import (
    as_input,
    as_output,
    as_value,
    build_value,
    common_slot,
    forget_state,
    leaf_at,
    match_structure,
    merge_snapshots,
    restore_state,
    snapshot,
)
from .numbers import as_number
from .snapshots import Path, Slot, Tree
from .values import UNINITIALIZED, UNKNOWN, Mutable, Number, Tensor, has_unknown, mark_listed, mark_stale

MAX_UNROLLED = 512
"""A loop with a known number of steps is unrolled up to this number; a longer one becomes a Loop if it can."""

FOREVER = 2**63 - 1
"""The number of steps that TorchScript gives a `while` loop."""

_MOST_TRIES = 64


@dataclass
class Loop:
    """One loop during its conversion. `varying` holds the values that change from step to step, by their path in
    `initial`.

    The first `count` items of `initial` are the variables that the loop carries; the others are the states of the
    objects in `written`, to which its steps write. `invalidated` holds tensors of uncertain content after a step,
    `results` the results of the last tried step, `listed` the paths of tensors that a step may have put into a list.
    """

    block: Any
    at: Location
    count: int
    initial: list[Tree] = field(default_factory=list)
    written: list[Mutable] = field(default_factory=list)
    invalidated: list[Mutable] = field(default_factory=list)
    varying: dict[Path, Slot] = field(default_factory=dict)
    results: list[Tree] = field(default_factory=list)
    listed: set[Path] = field(default_factory=set)


@dataclass
class Step:
    """A loop's body: its condition, and the last value of each varying slot, by path."""

    body: Graph
    condition: Any
    final: dict[Path, Slot]


def run_loop(walk: Walk, env: Env, node: Any, run: Run) -> Any:
    """Return the outputs of a prim::Loop."""
    steps, condition, *carried = (env[v.unique()] for v in node.inputs())
    block = next(iter(node.blocks()))
    if has_unknown([steps, condition, *carried]):
        explore_block(walk, env, block, [UNKNOWN] * (1 + len(carried)), run)
        return as_node_outputs(node, [UNKNOWN] * len(carried))
    known = isinstance(steps, int) and isinstance(condition, bool) and (steps <= MAX_UNROLLED or steps == FOREVER)
    if known and _is_decided(walk, env, block, steps, condition, carried, run):
        for step in range(steps):
            if condition is not True:
                break
            condition, *carried = run(walk, env, block, [step, *carried])
        return as_node_outputs(node, carried)
    loop = Loop(block, walk.location(node, "loop"), len(carried))
    return as_node_outputs(node, _run_dynamic(walk, env, loop, steps, condition, carried, run))


def _is_decided(walk: Walk, env: Env, block: Any, steps: int, condition: Any, carried: list[Any], run: Run) -> bool:
    """Return whether the condition is known at every step; tried on a graph that is discarded."""
    goes_on = next(iter(block.outputs())).node()
    if steps != FOREVER and goes_on.kind() == "prim::Constant":
        return True
    outer, body = walk.g, walk.g.body("trial")
    with walk.memory.trial():
        walk.g = body
        try:
            for step in range(min(steps, MAX_UNROLLED)):
                if condition is not True:
                    break
                condition, *carried = run(walk, env, block, [step, *carried])
        except ProgramError:
            return True
        finally:
            walk.g = outer
            discard_graph(body)
    return condition is False or has_unknown(condition) or (condition is True and steps <= MAX_UNROLLED)


def _run_dynamic(
    walk: Walk, env: Env, loop: Loop, steps: Any, condition: Any, carried: list[Any], run: Run
) -> list[Any]:
    """Make a Loop node and return the loop's outputs.

    Trials find out what varies from step to step: the first trial assumes that nothing does. Raises `Unsupported` if
    they do not converge.
    """
    for _ in range(_MOST_TRIES):
        initial = [snapshot(walk, v) for v in [*carried, *loop.written]]
        loop.initial = [
            match_structure(t, loop.results[i]) if i < len(loop.results) else t for i, t in enumerate(initial)
        ]
        step = _try_step(walk, env, loop, run)
        if step is UNKNOWN:
            for obj in loop.written:
                forget_state(walk, obj)
            return [UNKNOWN] * loop.count
        if step is not None:
            return _finish_loop(walk, loop, step, steps, condition)
    raise Unsupported("what this loop carries from step to step does not settle on one type").with_location(loop.at)


def _try_step(walk: Walk, env: Env, loop: Loop, run: Run) -> Any:
    """Interpret one step. Return None if more varies than was assumed, and UNKNOWN after a missing rule."""
    outer, body = walk.g, walk.g.body("body")
    index = body.input("step", ir.DataType.INT64, [])
    body.input("go_on", ir.DataType.BOOL, [])
    places = {path: as_input(slot, body) for path, slot in sorted(loop.varying.items())}
    kept = False
    with walk.memory.trial() as start:
        walk.g = body
        try:
            given = {path: _value_at(walk, loop, path, value) for path, value in places.items()}
            for path in loop.listed & given.keys():
                mark_listed(given[path])
            versions = {path: v.state.version for path, v in given.items() if isinstance(v, Tensor)}
            _begin_step(walk, loop, given)
            values = [_build_initial(walk, loop, i, given) for i in range(loop.count)]
            try:
                condition, *results = run(walk, env, loop.block, [Number(index, int, 0), *values])
            except ProgramError as error:
                raise Unsupported(f"every step of this loop raises an exception: {error}").with_location(
                    loop.at
                ) from None
            more, invalidated = writes_since(walk, start)
            if has_unknown([condition, *results, *more]):
                loop.written += [t for t in more if t not in loop.written]
                return UNKNOWN
            missing = [t for t in more if t not in loop.written]
            worse = [t for t in invalidated if t not in loop.invalidated]
            loop.results = [snapshot(walk, v) for v in results]
            final = _compare_steps(walk, loop, loop.results, invalidated)
            listed = {p for p, slot in (final or {}).items() if isinstance(slot.obj, Tensor) and slot.obj.listed}
            if not listed <= loop.listed:
                loop.listed |= listed
                final = None
            changed = any(v.state.version != versions[path] for path, v in given.items() if path in versions)
            if final is not None and changed:
                _refuse_aliases(loop, final)
            # paths contain positions in this list, so nothing is removed from it
            loop.written += [t for t in missing if t not in invalidated]
            loop.invalidated += worse
            if final is None or missing or worse:
                return None
            kept = True
            return Step(body, condition, final)
        finally:
            walk.g = outer
            if not kept:
                discard_graph(body)


def _value_at(walk: Walk, loop: Loop, path: Path, value: ir.Value, *last: Any) -> Any:
    """Return the program's value for what is carried at a path; `last` is the value that the step left there."""
    first = leaf_at(loop.initial[path[0]], path[1:]).obj
    return as_value(walk, loop.varying[path], value, first, *last, own=path[0] >= loop.count)


def _begin_step(walk: Walk, loop: Loop, given: dict[Path, Any]) -> None:
    """Set the objects that the steps write to into their state at the beginning of a step."""
    for tensor in loop.invalidated:
        mark_stale(walk.memory, tensor, str(loop.at))
    for i, obj in enumerate(loop.written, loop.count):
        if obj not in loop.invalidated:
            restore_state(walk, obj, _build_initial(walk, loop, i, given), effect=False)


def _build_initial(walk: Walk, loop: Loop, i: int, given: dict[Path, Any]) -> Any:
    return build_value(walk, loop.initial[i], given, (i,), own=i >= loop.count)


def _compare_steps(walk: Walk, loop: Loop, results: list[Tree], invalidated: list[Mutable]) -> dict[Path, Slot] | None:
    """Return the last value of each varying slot; None if `loop.varying` had to be widened."""
    final: dict[Path, Slot] = {}
    fits = True

    def compare(path: Path, first: Slot, last: Slot) -> Any:
        nonlocal fits
        before = loop.varying.get(path)
        now = common_slot(first if before is None else before, last)
        if now.kind is None or (now.kind is not None and now.content is UNINITIALIZED):
            raise Unsupported("a variable that only some steps of a loop set")
        if now is not before:
            loop.varying[path], fits = now, False
        final[path] = last

    try:
        for i, tree in enumerate(loop.initial):
            if i < loop.count:
                merge_snapshots(walk, tree, results[i], compare, (i,))
            elif loop.written[i - loop.count] not in invalidated:
                merge_snapshots(walk, tree, snapshot(walk, loop.written[i - loop.count]), compare, (i,), own=True)
    except Unsupported as error:
        raise error.with_location(loop.at) from None
    for path in loop.varying:
        final.setdefault(path, leaf_at(loop.initial[path[0]], path[1:]))
    return final if fits else None


def _refuse_aliases(loop: Loop, final: dict[Path, Slot]) -> None:
    """Raise `Unsupported` if two carried names share a tensor: in the next step they would be two tensors.

    The caller asks only if the step writes to a carried tensor, since otherwise the difference does not show.
    """
    objs = [slot.obj for slot in final.values() if isinstance(slot.obj, Tensor)]
    if len(set(objs)) != len(objs):
        raise Unsupported("a tensor that this loop carries under two names is written to in place").with_location(
            loop.at
        )


def _finish_loop(walk: Walk, loop: Loop, step: Step, steps: Any, condition: Any) -> list[Any]:
    """Make the Loop node, apply the writes, and return the outputs of the loop."""
    order = sorted(loop.varying)
    made: Any = []
    if order:
        step.body.output(as_number(step.body, step.condition))
        for path in order:
            step.body.output(as_output(walk, step.final[path], step.body, loop.varying[path]))
        with walk.g.at(loop.at):
            trips = None if isinstance(steps, int) and steps == FOREVER else as_number(walk.g, steps)
            goes_on = None if condition is True else as_number(walk.g, condition)
            firsts = [as_output(walk, leaf_at(loop.initial[p[0]], p[1:]), walk.g, loop.varying[p]) for p in order]
            made = walk.g.node("Loop", [trips, goes_on, *firsts], {"body": step.body}, outputs=len(order))
    else:
        discard_graph(step.body)
    for tensor in loop.invalidated:
        mark_stale(walk.memory, tensor, str(loop.at))
    outputs = dict(zip(order, [made] if len(order) == 1 else made, strict=True))
    given = {path: _value_at(walk, loop, path, value, step.final[path].obj) for path, value in outputs.items()}
    values = [_build_initial(walk, loop, i, given) for i in range(len(loop.initial))]
    for obj, value in zip(loop.written, values[loop.count :], strict=True):
        if obj not in loop.invalidated:
            restore_state(walk, obj, value)
    return values[: loop.count]
