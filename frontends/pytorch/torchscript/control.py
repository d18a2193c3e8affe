"""Conditions of a TorchScript program: a known condition selects a branch, any other becomes an ONNX If."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import onnx_ir as ir

from convert.errors import Location
from convert.graph import Graph

from ..common.values import mark_scalar
from .context import Env, ProgramError, Walk
from .merge import (
    Joined,
    as_output,
    as_value,
    common_slot,
    complete_snapshot,
    forget_state,
    is_unknown,
    merge_snapshots,
    restore_state,
    snapshot,
)
from .snapshots import Path, Slot, Tree
from .values import UNKNOWN, Mutable, Number, Tensor, has_unknown, is_lost, mark_stale

Run = Callable[[Walk, Env, Any, list[Any]], list[Any]]
"""Runs a block of a node on arguments and returns its results."""

Way = Callable[[], list[Any]]
"""Runs one branch of the program and returns its results."""


@dataclass
class Branch:
    """One side of a condition, run separately: its results, and the objects that it wrote with their final state."""

    body: Graph
    results: list[Tree]
    writes: dict[Mutable, Tree]
    invalidated: list[Mutable]


def run_if(walk: Walk, env: Env, node: Any, run: Run) -> Any:
    """Return the outputs of a prim::If."""
    condition = env[node.input().unique()]
    blocks = list(node.blocks())
    if has_unknown(condition):
        for block in blocks:
            explore_block(walk, env, block, [], run)
        return as_node_outputs(node, [UNKNOWN] * node.outputsSize())
    if not isinstance(condition, Number):
        return as_node_outputs(node, run(walk, env, blocks[0 if condition else 1], []))
    ways: list[Way] = [partial(run, walk, env, block, []) for block in blocks]
    return as_node_outputs(node, run_either(walk, condition, ways, walk.location(node, "if")))


def run_either(walk: Walk, condition: Number, ways: list[Way], at: Location) -> list[Any]:
    """Return the results of the first way if the condition holds, else those of the second; both go into an If node.

    Raises `ProgramError` if both raise an exception.
    """
    first, second = (_run_branch(walk, way) for way in ways)
    if first is None and second is None:
        raise ProgramError("both branches raise an exception")
    if first is None or second is None:
        # A branch that only raises an exception checks the input: only the other branch is converted.
        walk.report.note(
            f"the check at {at.source or at.node} is not part of the converted model", code="dropped-check"
        )
        kept, side = (1, second) if first is None else (0, first)
        assert side is not None
        discard_graph(side.body)
        return ways[kept]()
    return _join_branches(walk, condition, [first, second], at)


def run_one_of(walk: Walk, place: Number, ways: list[Way], at: Location, first: int = 0) -> list[Any]:
    """Return the results of the way at a run-time index, from `first` on, by nested If nodes."""
    if first == len(ways) - 1:
        return ways[first]()
    here = Number(mark_scalar(walk.g.Equal(place.value, first)), bool)
    return run_either(walk, here, [ways[first], lambda: run_one_of(walk, place, ways, at, first + 1)], at)


def writes_since(walk: Walk, start: int) -> tuple[list[Mutable], list[Mutable]]:
    """Return what was written in the current scope: the objects of known content, and those of uncertain content."""
    written = walk.memory.written(start)
    invalidated = [t for t in written if is_lost(t)]
    return [t for t in written if t not in invalidated], invalidated


def _run_branch(walk: Walk, way: Way) -> Branch | None:
    """Run one way into a graph of its own; return None if it raises an exception for every input."""
    outer, body = walk.g, walk.g.body("branch")
    with walk.memory.trial() as start:
        walk.g = body
        try:
            results = [snapshot(walk, r) for r in way()]
            written, invalidated = writes_since(walk, start)
            return Branch(body, results, {obj: snapshot(walk, obj) for obj in written}, invalidated)
        except ProgramError:
            discard_graph(body)
            return None
        finally:
            walk.g = outer


def _join_branches(walk: Walk, condition: Number, sides: list[Branch], at: Location) -> list[Any]:
    """Make an If node with one output for each value that differs, and apply the branches' writes after it.

    Returns the results.
    """
    written, invalidated = _merge_writes(sides)
    before = {obj: snapshot(walk, obj) for obj in written}
    kept = [{t: side.writes.get(t, before[t]) for t in written} for side in sides]
    ends = [[complete_snapshot(walk, a[t], b[t]) for t in written] for a, b in (kept, kept[::-1])]
    trees = [[*side.results, *end] for side, end in zip(sides, ends, strict=True)]
    count = len(sides[0].results)
    if any(is_unknown(tree) for side in trees for tree in side):
        for side in sides:
            discard_graph(side.body)
        for obj in written:
            forget_state(walk, obj)
        return [UNKNOWN] * count
    pairs: list[tuple[Slot, Slot, Slot]] = []

    def note(path: Path, a: Slot, b: Slot) -> Any:
        pairs.append((a, b, common_slot(a, b)))

    for i, (a, b) in enumerate(zip(*trees, strict=True)):
        merge_snapshots(walk, a, b, note, own=i >= count)
    outputs = iter(_if_node(walk, condition, sides, pairs, at))
    made: dict[tuple[int, int], Any] = {}

    def take(path: Path, a: Slot, b: Slot) -> Any:
        value = as_value(walk, common_slot(a, b), next(outputs), a.obj, b.obj, own=a.obj is b.obj)
        if a.obj is None or b.obj is None:
            return value
        # If both branches return one tensor under two names, the result is one tensor as well.
        return made.setdefault((id(a.obj), id(b.obj)), value)

    for tensor in invalidated:
        mark_stale(walk.memory, tensor, str(at))
    joined: Joined = {}
    values = [
        merge_snapshots(walk, a, b, take, own=i >= count, joined=joined)
        for i, (a, b) in enumerate(zip(*trees, strict=True))
    ]
    for obj, value in zip(written, values[count:], strict=True):
        restore_state(walk, obj, value)
    return values[:count]


def _merge_writes(sides: list[Branch]) -> tuple[list[Mutable], list[Mutable]]:
    """Return what either side wrote, without views of it, and the tensors whose content is uncertain.

    A view that can be recomputed follows from its base: a side that did not write to the view may have changed its
    base.
    """
    invalidated = list(dict.fromkeys([*sides[0].invalidated, *sides[1].invalidated]))
    written = [t for t in dict.fromkeys([*sides[0].writes, *sides[1].writes]) if t not in invalidated]
    kept: list[Mutable] = []
    for obj in written:
        view = obj.view if isinstance(obj, Tensor) else None
        if view is None or not any(base in written or base in invalidated for base in view.bases):
            kept.append(obj)
        elif isinstance(obj, Tensor) and (view.replay is None or view.bases[0] in invalidated):
            invalidated.append(obj)
    return kept, invalidated


def _if_node(
    walk: Walk, condition: Number, sides: list[Branch], pairs: list[tuple[Slot, Slot, Slot]], at: Location
) -> list[Any]:
    if not pairs:
        for side in sides:
            discard_graph(side.body)
        return []
    for a, b, like in pairs:
        sides[0].body.output(as_output(walk, a, sides[0].body, like))
        sides[1].body.output(as_output(walk, b, sides[1].body, like))
    with walk.g.at(at):
        made = walk.g.node(
            "If", [condition.value], {"then_branch": sides[0].body, "else_branch": sides[1].body}, outputs=len(pairs)
        )
    return [made] if len(pairs) == 1 else made


def as_node_outputs(node: Any, results: list[Any]) -> Any:
    """Return the results of a block as the node's outputs: a single value, or a tuple."""
    return results[0] if node.outputsSize() == 1 else tuple(results)


def explore_block(walk: Walk, env: Env, block: Any, args: list[Any], run: Run) -> None:
    """Walk through a block whose inputs are unknown, only to find further operators without a rule."""
    outer, body = walk.g, walk.g.body("trial")
    written: list[Mutable] = []
    with walk.memory.trial() as start:
        walk.g = body
        try:
            run(walk, env, block, args)
            written = walk.memory.written(start)
        except ProgramError:
            pass
        finally:
            walk.g = outer
            discard_graph(body)
    for obj in written:
        forget_state(walk, obj)


def discard_graph(body: Graph) -> None:
    """Remove the nodes of a graph, so that values outside do not list them as users."""
    _detach(body.graph)
    del body.graph.outputs[:]
    body.graph.remove(list(body.graph))


def _detach(graph: ir.Graph) -> None:
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _detach(attribute.as_graph())
        for i in range(len(node.inputs)):
            node.replace_input_with(i, None)
