"""Builds one graph of the paths that forward takes for different sizes: an If for each condition that it decides on.

A capture holds for sizes with the same decisions. The module is captured again for each condition, with sizes that do
not meet it. An If on the sizes of the inputs selects one of the graphs. Decisions of the other capture are treated in
the same way. If there is no other capture, or its graph has other outputs, the condition stays a check: the graph fails
at run time for other sizes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import onnx_ir as ir
import sympy
import torch
from torch import nn

from convert.errors import Location, Unsupported
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, PATHS_KEY
from convert.graph.size_checks import conditions_of, holds
from convert.graph.values import known_dims, names_in_use
from convert.outcome.notes import Note
from convert.outcome.report import Report
from convert.parity.inputs.size_guards import sizes_meeting, value_of

from ...inputs.examples import Call, resized_call
from ..capture.captured import Capture
from ..capture.dims import Dims, choose_dim_names, is_fixed
from ..capture.export_module import capture_sizes
from ..capture.guards import Place
from ..lowering.program import lower
from .branches import ties_inputs
from .joined_paths import MAX_PATHS, equal_values, io_types_of, join_equal_nodes, join_facts, join_paths, joined
from .size_conditions import (
    SIZES,
    SizePath,
    condition_texts,
    decided_conditions,
    dim_fact,
    in_order,
    names_in,
    printed,
    sizes_met,
)

_MOST_TRIES = 2 * MAX_PATHS
"""Maximum number of attempted captures: forward may raise an exception for the sizes of the other path."""

_Bounds = dict[str, list[int | None]]


def read_size_branches(module: nn.Module, done: Capture, wanted: Mapping[Place, str], report: Report) -> ir.Model:
    """Return the graph of a capture, with the paths for other sizes as far as they can be captured.

    wanted: the user's names for dims of inputs, by position.
    """
    try:
        found = _SizeWays(module, done, wanted).read()
    except _TooManyWays:
        found = None
    if found is None:
        return lower(done.program, report, wanted, done.branches)
    lines = (
        Note(f"forward decides on sizes at {line}: both ways are in the graph, behind an If", code="control-flow")
        for line in found.lines
    )
    for note in dict.fromkeys((*found.notes, *lines)):
        if note not in report.notes:
            report.note(note)
    return found.model


class _TooManyWays(Exception):
    """Raised for more paths, or more attempts to capture one, than a graph should have."""


@dataclass
class _Graph:
    """A graph, with what its captures hold for, the lines that its Ifs decide for, and notes for the user."""

    model: ir.Model
    limits: list[tuple[SizePath, _Bounds, list[str]]]
    lines: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


class _SizeWays:
    """The captures of one module; dims are identified by the `names` of their positions, whatever a capture calls
    them.
    """

    def __init__(self, module: nn.Module, base: Capture, wanted: Mapping[Place, str]) -> None:
        self.module, self.base = module, base
        self.names = _names_of_places(base, wanted)
        self.bounds: _Bounds = {}
        self.sizes: dict[str, int] = {}
        for (label, place), name in self.names.items():
            example, dynamic_dim = base.call[label], base.call[label].dynamic_dims[place]
            self.sizes[name] = example.tensor.shape[place]
            self.bounds[name] = [dynamic_dim.low or 1, dynamic_dim.high]
        # Requirements of operators need no branch, because the operators of the converted model have the same
        # requirements.
        self.given = frozenset() if ties_inputs(base.branches) else frozenset(self._facts(base))
        self.ways = self.tries = 1

    def read(self) -> _Graph | None:
        """Return the graph of all paths, None if there is only one. Raises `_TooManyWays`."""
        if not self._conditions(self.base):
            return None
        found = self._graph(self._way(()), self.base, frozenset())
        if found is not None:
            _write_limits(found)
        return found

    # -- one way ------------------------------------------------------------------------------------------------------

    def _way(self, known: Sequence[sympy.Basic]) -> SizePath:
        return SizePath(tuple(known), self.names, self.given)

    def _dims(self, done: Capture) -> Dims:
        return Dims(choose_dim_names(_input_shapes(done), self.names))

    def _facts(self, done: Capture) -> list[sympy.Basic]:
        dims = self._dims(done)
        facts = (
            dim_fact(dim, (label, place), dims, self.names)
            for label, fake in _input_shapes(done)
            for place, dim in enumerate(fake.shape)
        )
        return [fact for fact in facts if fact is not None]

    def _conditions(self, done: Capture) -> dict[sympy.Basic, str]:
        """Return the conditions that a capture holds under, each with the line that asks for it."""
        found = {c: branch.line for c, branch in decided_conditions(done.branches, self._dims(done)).items()}
        tied = ", ".join(dict.fromkeys(b.line for b in done.branches if b.ties))
        return found | {fact: tied for fact in self._facts(done) if fact not in self.given}

    def _lowered(self, done: Capture, way: SizePath) -> _Graph:
        report = Report("one way")
        model = lower(done.program, report, self.names, done.branches, way)
        found: _Bounds = json.loads(model.metadata_props[DIMS_KEY])
        guards: list[str] = json.loads(model.metadata_props.get(GUARDS_KEY, "[]"))
        bounds: _Bounds = {name: [1, None] for name in self.names.values()}
        for label, fake in _input_shapes(done):
            for place, dim in enumerate(fake.shape):
                if is_fixed(dim) and (label, place) in self.names:
                    bounds[self.names[label, place]] = [int(dim), int(dim)]
        return _Graph(model, [(way, bounds | found, guards)], [], report.notes)

    def _graph(self, way: SizePath, done: Capture, kept: frozenset[sympy.Basic]) -> _Graph | None:
        """Return the graph of a capture for the sizes of `way`; None if these are all sizes, and there is no other
        path.

        kept: conditions that stay checks, because there is no graph for sizes that do not meet them.
        """
        asked = {c: line for c, line in self._conditions(done).items() if not way.settles(c)}
        kept |= {
            c for c, b in decided_conditions(done.branches, self._dims(done)).items() if b.number and _is_one_of_many(c)
        }
        whole: _Graph | None = None
        settled: list[sympy.Basic] = []
        others: list[tuple[sympy.Basic, str, _Graph]] = []
        for condition, line in asked.items():
            here = self._way((*way.known, *settled))
            if here.settles(condition):
                continue
            other = None if condition in kept else self._other(here, condition, kept)
            if other is not None:
                whole = whole or self._lowered(done, self._way((*way.known, *asked)))
                other = other if _have_same_outputs(whole.model, other.model) else None
            if other is None:
                kept |= {condition}
            else:
                settled.append(condition)
                others.append((condition, line, other))
        if not others and not way.known:
            return None
        if whole is None or len(settled) < len(asked):
            whole = self._lowered(done, self._way((*way.known, *settled)))
        for condition, line, other in reversed(others):
            self._join(whole, other, condition, line)
        return whole

    def _other(self, here: SizePath, condition: sympy.Basic, kept: frozenset[sympy.Basic]) -> _Graph | None:
        """Return the graph for the sizes of `here` that do not meet a condition; None if it cannot be captured."""
        way = self._way((*here.known, in_order(sympy.Not(condition))))
        call = self._call(way) if self._decide(Graph(), condition, "") is not None else None
        if call is None:
            return None
        self.tries += 1
        if self.tries > _MOST_TRIES:
            raise _TooManyWays
        report = Report("another way")
        try:
            done = capture_sizes(self.module, call, report)
            self.ways += 1
            if self.ways > MAX_PATHS:
                raise _TooManyWays
            found = self._graph(way, done, kept)
        except _TooManyWays:
            raise
        except Exception:  # whatever forward, torch.export or a rule raises for sizes of the other path
            return None
        if found is not None:
            found.notes[:0] = report.notes
        return found

    # -- sizes --------------------------------------------------------------------------------------------------------

    def _call(self, way: SizePath) -> Call | None:
        """Return the base call with sizes of this path; None if none are found within the user's bounds."""
        for least in (2, 1):
            bounds = {n: [_at_least(low, least, high), high] for n, (low, high) in self.bounds.items()}
            sizes = sizes_meeting(self.sizes, way.texts, bounds)
            if sizes is not None:
                fixed = {p for p, n in self.names.items() if sizes[n] < 2 or self._is_only_size(way, n, sizes[n])}
                return resized_call(self.base.call, {p: sizes[n] for p, n in self.names.items()}, fixed)
        return None

    def _is_only_size(self, way: SizePath, name: str, size: int) -> bool:
        """Return whether the path's conditions on this dim alone leave no other size of 2 and more.

        torch.export refuses to make such a dim dynamic.
        """
        low, high = self.bounds[name]
        texts = [t for c in way.all_known for t in condition_texts(c) if names_in(t) == {name}]
        left = frozenset(SIZES).intersection(*map(sizes_met, texts))
        return {n for n in left if max(low or 1, 2) <= n <= (n if high is None else high)} <= {size}

    # -- the graph ----------------------------------------------------------------------------------------------------

    def _join(self, whole: _Graph, other: _Graph, condition: sympy.Basic, line: str) -> None:
        """Change the graph `whole` to do what `other` does for sizes that do not meet the condition."""
        model = whole.model
        whole.limits += other.limits
        whole.notes += [note for note in other.notes if note not in whole.notes]
        for own, theirs in zip(model.graph.inputs, other.model.graph.inputs, strict=True):
            first, second = known_dims(own) or (), known_dims(theirs) or ()
            own.shape = ir.Shape(
                [
                    a if a == b else self.names[str(own.name), i]
                    for i, (a, b) in enumerate(zip(first, second, strict=True))
                ]
            )
        for each in (model, other.model):
            join_equal_nodes(each)
        same = equal_values(model, other.model)
        ends = zip(model.graph.outputs, other.model.graph.outputs, strict=True)
        if all(same.get(theirs) is own for own, theirs in ends):
            join_facts(same)
            return
        g = Graph(opset=model.opset_imports[""])
        g.reserve(names_in_use(model))
        self._decide(g, condition, line, {str(v.name): v for v in model.graph.inputs})
        for constant in list(g.graph.initializers.values()):
            g.graph.initializers.pop(str(constant.name))
            model.graph.register_initializer(constant)
        deciding = list(g.graph)
        g.graph.remove(deciding)
        model.graph.extend(deciding)
        join_paths(model, other.model, same, deciding, deciding[-1].metadata_props)
        whole.lines += [text for text in (line, *other.lines) if text and text not in whole.lines]

    def _decide(
        self, g: Graph, condition: sympy.Basic, line: str, inputs: Mapping[str, ir.Value] | None = None
    ) -> ir.Value | None:
        """Emit whether the sizes of the inputs meet a condition; None if a graph cannot express it."""
        texts, sizes = condition_texts(condition), dict[str, ir.Value]()
        with g.at(Location("decision on sizes", source=line)):
            for (label, place), name in self.names.items():
                if name not in sizes and name.isidentifier() and any(name in names_in(text) for text in texts):
                    x = g.input(label, ir.DataType.FLOAT, None) if inputs is None else inputs[label]
                    sizes[name] = g.Shape(x, start=place, end=place + 1)
            parts = [holds(g, text, sizes) for text in texts]
            found: ir.Value | None = None
            for part in parts:
                if part is None:
                    return None
                found = part if found is None else g.And(found, part)
            return None if found is None else g.Squeeze(found, [0])


def _is_one_of_many(condition: sympy.Basic) -> bool:
    """Return whether a number that Python needed could have more values than there may be paths: only its value is
    known.

    For conditions that state the value of an expression.
    """
    if not isinstance(condition, sympy.Eq):
        return True
    names, text = sorted(map(str, condition.lhs.free_symbols)), printed(condition.lhs)
    found = set()
    for sizes in product(range(2, 2 + 4 * MAX_PATHS), repeat=len(names)):
        try:
            found.add(value_of(text, dict(zip(names, sizes, strict=True))))
        except ValueError:
            return True
        if len(found) > MAX_PATHS:
            return True
    return False


def _at_least(low: int | None, least: int, high: int | None) -> int:
    return max(low or 1, least if high is None or high >= least else 1)


def _input_shapes(done: Capture) -> list[tuple[str, torch.Tensor]]:
    nodes = (n for n in done.program.graph.nodes if n.op == "placeholder" and n.name in done.call)
    return [(n.name, n.meta["val"]) for n in nodes if isinstance(n.meta.get("val"), torch.Tensor)]


def _names_of_places(base: Capture, wanted: Mapping[Place, str]) -> dict[Place, str]:
    """Return a name for each dynamic dim of the inputs, except for those that the user declares as sums of others.

    Dims that the capture found equal share a name if the user gave them one, or if no decision distinguishes them.
    """
    dims, decided = Dims(choose_dim_names(_input_shapes(base), wanted)), ties_inputs(base.branches)
    found: dict[Place, str] = {}
    for label, fake in _input_shapes(base):
        for place, dim in enumerate(fake.shape):
            asked = wanted.get((label, place))
            if is_fixed(dim) or place not in base.call[label].dynamic_dims or (asked and not asked.isidentifier()):
                continue
            name = str(dims.of(dim))
            is_own = name not in found.values() and name.isidentifier()
            if not is_own and name != asked and (decided or asked or not name.isidentifier()):
                name = asked if asked and asked not in found.values() else f"{label}_{place}"
            found[label, place] = name
    return found


def _have_same_outputs(model: ir.Model, other: ir.Model) -> bool:
    try:
        for own, theirs in zip(model.graph.outputs, other.graph.outputs, strict=False):
            joined(own, theirs)
    except Unsupported:
        return False
    return io_types_of(model) == io_types_of(other)


def _write_limits(found: _Graph) -> None:
    """Write the bounds and conditions of all paths, each restricted to the sizes of its path."""
    named = {str(d) for v in found.model.graph.inputs for d in known_dims(v) or () if not isinstance(d, int)}
    hull: _Bounds = {}
    for _, bounds, _ in found.limits:
        for name, (low, high) in bounds.items():
            least, most = hull.get(name, [low, high])
            hull[name] = [min(least or 1, low or 1), None if high is None or most is None else max(most, high)]
    guards: dict[str, None] = {}
    for way, bounds, conditions in found.limits:
        narrower = {
            name: [None if low == hull[name][0] else low, None if high == hull[name][1] else high]
            for name, (low, high) in bounds.items()
            if name in named
        }
        # A capture's facts about a path's sizes may only follow from its assumption of lengths of 2 and more.
        texts = [text for text in conditions_of(narrower, conditions) if not way.seems_to_imply(text, 2)]
        guards |= {way.only_there(text): None for text in texts}
    notes = found.model.metadata_props
    notes[DIMS_KEY] = json.dumps({name: pair for name, pair in hull.items() if name in named})
    notes.pop(GUARDS_KEY, None)
    if guards:
        notes[GUARDS_KEY] = json.dumps(list(guards))
    found.model.meta[PATHS_KEY] = [way.texts for way, _, _ in found.limits]
