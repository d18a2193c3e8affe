"""Builds one graph for independent decisions on data: an If for each, over the values that it alone decides.

A loop over experts with `if mask.any():` has 2ⁿ paths. For n decisions, n + 2 captures are compared: one with all
answers yes, one per decision with only that answer changed, and one with all answers changed. If a capture differs from
the first only in what one value is computed from, an If replaces that value. The last capture must equal all Ifs
together, so that state that Python carries from one decision to the next (a count, a flag) is detected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported

from .joined_paths import (
    DECISION_KEY,
    MAX_PATHS,
    attributes_of,
    branch_of,
    content_key,
    decisions_of,
    equal_values,
    free_names,
    io_types_of,
    is_comparable,
    join_equal_nodes,
    joined,
    read_each_path,
    take_over,
)


@dataclass
class Seam:
    """The effect of one decision: values of the base capture, each with its replacement under the other answer.

    same: maps values of the other capture to equal ones of the base. `kept` and `moved` are the nodes of the base and
    of the other capture that compute what differs.
    """

    other: ir.Model
    same: dict[ir.Value, ir.Value]
    theirs: dict[ir.Value, ir.Value] = field(default_factory=dict)
    kept: list[ir.Node] = field(default_factory=list)
    moved: list[ir.Node] = field(default_factory=list)


def read_all_paths(read: Callable[[list[bool]], ir.Model]) -> ir.Model:
    """Return the graph with every path of decisions on data; `read` returns the graph of one path.

    Raises `Unsupported` for too many paths, or if their outputs differ.
    """
    first = read([])
    asked = len(decisions_of(first))
    if 2**asked <= MAX_PATHS:
        model = read_each_path(read, first)
    else:
        try:
            model = _read_separately(read, first, asked)
        except Unsupported:  # one decision may lead to the next, as in a loop, which gives fewer paths
            model = read_each_path(read, first)
    for node in decisions_of(model).values():
        if not node.outputs[0].uses():
            model.graph.remove(node, safe=True)
    return model


def _read_separately(read: Callable[[list[bool]], ir.Model], first: ir.Model, count: int) -> ir.Model:
    """Return the graph of `count` decisions; `read` returns that of one path, and `first` is that with all answers yes.

    Raises `Unsupported` if they are not independent.
    """
    bases = {True: first, False: read([False] * count)}
    error: Unsupported | None = None
    for answer, base in bases.items():
        try:
            return _merged(read, base.clone(), bases[not answer].clone(), answer, count)
        except Unsupported as refused:
            error = error or refused
    assert error is not None
    raise error


def _merged(
    read: Callable[[list[bool]], ir.Model], model: ir.Model, opposite: ir.Model, answer: bool, count: int
) -> ir.Model:
    _check_ends(model, opposite, count)
    join_equal_nodes(model)
    seams = []
    for place in range(count):
        other = read([answer != (place == p) for p in range(count)])
        _check_ends(model, other, count)
        seams.append(_seam(model, other))
    _check_apart(seams)
    _check_opposite(model, opposite, seams)
    for place, seam in enumerate(seams):
        _write(model, place, seam, answer, seams[place + 1 :])
    model.graph.sort()
    return model


def _check_ends(model: ir.Model, other: ir.Model, count: int) -> None:
    if io_types_of(model) != io_types_of(other) or model.metadata_props != other.metadata_props:
        raise Unsupported("the ways have other inputs or outputs, or hold for other sizes")
    if len(decisions_of(other)) != count or len(decisions_of(model)) != count:
        raise Unsupported("one decision leads to others")


# -- comparison -------------------------------------------------------------------------------------------------------


def _seam(model: ir.Model, other: ir.Model) -> Seam:
    """Walk both graphs back from their outputs to where they differ."""
    join_equal_nodes(other)
    same = equal_values(model, other)
    seam, common = Seam(other, dict(same)), set(same.values())
    waiting: list[tuple[ir.Value, ir.Value]] = list(zip(_ends(model), _ends(other), strict=True))
    while waiting:
        a, b = waiting.pop()
        if seam.same.get(b) is a:
            continue
        pa, pb = a.producer(), b.producer()
        if a in common or b in seam.same or pa is None or pb is None or not _alike(pa, pb, a, b):
            if seam.theirs.setdefault(a, b) is not b:
                raise Unsupported("the two ways of a decision join in more than one place")
            continue
        seam.same.update(zip(pb.outputs, pa.outputs, strict=True))
        pairs = zip(pa.inputs, pb.inputs, strict=True)
        waiting += [(x, y) for x, y in pairs if x is not None and y is not None]
    known = set(seam.same.values())
    seam.kept = [n for n in model.graph if not all(o in known for o in n.outputs)]
    seam.moved = [n for n in other.graph if not all(o in seam.same for o in n.outputs)]
    made = {o for n in seam.kept for o in n.outputs}
    if not seam.theirs or not all(a in made for a in seam.theirs):
        raise Unsupported("a decision has no effect on the outputs, or changes values that it depends on")
    if any(DECISION_KEY in n.metadata_props for n in (*seam.kept, *seam.moved)):
        raise Unsupported("a decision depends on another decision")
    return seam


def _alike(pa: ir.Node, pb: ir.Node, a: ir.Value, b: ir.Value) -> bool:
    """Return whether two nodes compute the same from their inputs, and return `a` and `b` at the same position."""
    if not is_comparable(pa) or not is_comparable(pb) or attributes_of(pa) != attributes_of(pb):
        return False
    absent = [[v is None for v in n.inputs] for n in (pa, pb)]
    return absent[0] == absent[1] and len(pa.outputs) == len(pb.outputs) and a.index() == b.index()


def _check_apart(seams: Sequence[Seam]) -> None:
    """Raise `Unsupported` if two decisions change one value, because the result of changing both is unknown.

    For example, Python may count whether their number is even.
    """
    changed: set[ir.Value] = set()
    for seam in seams:
        if not changed.isdisjoint(seam.theirs):
            raise Unsupported("several decisions on data decide one value")
        changed.update(seam.theirs)


def _check_opposite(model: ir.Model, opposite: ir.Model, seams: Sequence[Seam]) -> None:
    """Raise `Unsupported` if the capture with all answers changed differs from the graph with all Ifs."""
    theirs = {a: b for seam in seams for a, b in seam.theirs.items()}
    same = {b: a for seam in seams for b, a in seam.same.items()}
    places = {v: i for m in (model, opposite) for i, v in enumerate(m.graph.inputs)}
    numbers: dict[tuple[Any, ...], int] = {}
    known: dict[ir.Value, int] = {}

    def number(value: ir.Value) -> int:
        """Return the same number for values that are computed alike."""
        value = same.get(value, value)
        value = theirs.get(value, value)
        value = same.get(value, value)
        if value in theirs:  # an earlier decision replaces these in turn
            return number(theirs[value])
        if value not in known:
            node = value.producer()
            if node is None:
                key: tuple[Any, ...] = ("input", places[value]) if value in places else ("weight", content_key(value))
            elif not is_comparable(node):
                key = ("own", id(value))
            else:
                inputs = tuple(-1 if v is None else number(v) for v in node.inputs)
                key = (attributes_of(node), inputs, value.index())
            known[value] = numbers.setdefault(key, len(numbers))
        return known[value]

    try:
        ends = [_ends(m) for m in (model, opposite)]
        if [number(v) for v in ends[0]] != [number(v) for v in ends[1]]:
            raise Unsupported("decisions on data depend on each other")
    except RecursionError as error:
        raise Unsupported("a graph too deep to compare its ways") from error


def _ends(model: ir.Model) -> list[ir.Value]:
    decided = decisions_of(model)
    return [*model.graph.outputs, *(decided[place].outputs[0] for place in sorted(decided))]


# -- the graph --------------------------------------------------------------------------------------------------------


def _write(model: ir.Model, place: int, seam: Seam, answer: bool, later: Iterable[Seam]) -> None:
    """Insert an If for the decision `place` into the model, and its results into what later decisions read."""
    decided = decisions_of(model)[place]
    seam.other.graph.outputs.clear()
    for node in seam.moved:
        for i, value in enumerate(node.inputs):
            if value is not None and value in seam.same:
                node.replace_input_with(i, seam.same[value])
    seam.other.graph.remove(seam.moved, safe=False)
    take_over(model, seam.other, seam.moved)
    own = list(seam.theirs)
    others = [seam.same.get(b, b) for b in seam.theirs.values()]
    results = [joined(a, b) for a, b in zip(own, others, strict=True)]
    made = dict(zip(own, results, strict=True))
    inside = {*seam.kept}
    for a, result in made.items():
        for use in list(a.uses()):
            if use.node not in inside:
                use.node.replace_input_with(use.idx, result)
        for i, value in enumerate(model.graph.outputs):
            if value is a:
                model.graph.outputs[i] = result
    for other in later:
        other.theirs = {a: made.get(other.same.get(b, b), b) for a, b in other.theirs.items()}
        other.same = {b: made.get(a, a) for b, a in other.same.items()}
    model.graph.remove(seam.kept, safe=False)
    names = free_names(model, [*seam.kept, *seam.moved])
    for a, result in made.items():
        result.name, a.name = a.name, next(names)
    ways = {answer: (seam.kept, own), not answer: (seam.moved, others)}
    branches = [
        ir.AttrGraph(name, branch_of(name, *ways[holds], names))
        for name, holds in (("then_branch", True), ("else_branch", False))
    ]
    node = ir.Node("", "If", [decided.outputs[0]], branches, outputs=results)
    node.metadata_props.update({k: v for k, v in decided.metadata_props.items() if k != DECISION_KEY})
    model.graph.append(node)
