"""Cut the same part out of a graph and out of a target that was made or changed elsewhere.

Values are paired by content. If replacing a value of the target by one of the graph makes the target's outputs right,
the whole defect lies before that value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.parity.inputs.feeds import Feed
from convert.parity.locate.pairing import departing_steps, read_back, steps_of
from convert.parity.locate.subgraph import Cutter, set_shapes
from convert.parity.pairing.counterparts import Counterparts
from convert.passes.tidy.clean import lift_constants
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import Trace, summarize

_EQUAL = 1e-6
"""Largest distance, relative to the rms, of values that are equal in float64."""

_MOST_TRIED = 24
"""Most values of the target that are replaced, each of which costs a run of the target."""


@dataclass(frozen=True)
class BothParts:
    """The parts of graph and target, with the same inputs and outputs, and the arrays for their inputs."""

    ours: ir.Model
    theirs: ir.Model
    arrays: Mapping[str, np.ndarray]


class _Side:
    """A graph, its values in float64 by name, and its `Cutter`."""

    def __init__(self, model: ir.Model, feed: Mapping[str, np.ndarray]) -> None:
        self.cutter = Cutter(model)
        found = {**run(widen_model(model), feed, every=True), **feed}
        self.arrays = {n: a for n, a in found.items() if isinstance(a, np.ndarray)}
        self.trace = Trace(steps_of(model.graph), {n: summarize(a) for n, a in self.arrays.items()})
        made = {str(v.name): v for node in model.graph for v in node.outputs}
        self.values = {**{str(v.name): v for v in model.graph.inputs}, **made}

    def departing_values(self, agreed: set[str]) -> Iterator[str]:
        """Yield, in order, the floating values without a counterpart that no value with a counterpart depends on."""
        for step in departing_steps(self.trace, agreed):
            yield from (n for n in step.outputs if n in self.arrays and self.trace.values[n].floating)


def parts_that_differ(
    graph: ir.Model, target: Source, feed: Feed, options: Options, ends: Counterparts | Names
) -> BothParts | str:
    """Return the parts of both sides between the last values that agree and the first that does not, or why not."""
    try:
        other = read_back(target, options, ends)
        lift_constants(other)
        ours, theirs = _Side(graph, feed.arrays), _Side(other, feed.arrays)
    except ConvertError as error:
        return f"the target cannot be read back: {error.sentence}"
    pairs = _equal_pairs(ours, theirs)
    names = [str(v.name) for v in graph.graph.outputs]
    wrong = [name for name in names if not _are_equal(ours.arrays.get(name), theirs.arrays.get(name))]
    if not wrong:
        return "in float64 the target, read back, computes what the graph does"
    output = _first_replaced(ours, theirs, pairs, names) or (wrong[0], wrong[0])
    if output[1] not in theirs.values:
        return "the outputs of the target cannot be paired with those of the graph"
    return _cut(ours, theirs, pairs, output)


def _equal_pairs(ours: _Side, theirs: _Side) -> dict[str, str]:
    """Return the values of the graph that the target has too: name in the graph to name in the target."""
    by_shape: dict[tuple[int, ...], list[str]] = {}
    for name, array in theirs.arrays.items():
        if name in theirs.values and array.dtype.kind == "f":
            by_shape.setdefault(array.shape, []).append(name)
    found = {}
    for name, array in ours.arrays.items():
        if name in ours.values and array.dtype.kind == "f" and array.size:
            same = (n for n in by_shape.get(array.shape, ()) if _are_equal(array, theirs.arrays[n]))
            # Prefer a value of the same name: others may be equal by chance, such as a Relu of positive numbers.
            candidates = sorted(same, key=lambda n: n != name)
            found.update({name: candidates[0]} if candidates else {})
    for value in ours.cutter.model.graph.inputs:
        found[str(value.name)] = str(value.name)
    return found


def _are_equal(a: Any, b: Any) -> bool:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    scale = max(float(np.sqrt(np.nanmean(np.square(a)))) if a.size else 0.0, np.finfo(np.float64).tiny)
    return bool(np.allclose(a, b, rtol=0, atol=_EQUAL * scale, equal_nan=True))


def _first_replaced(ours: _Side, theirs: _Side, pairs: Mapping[str, str], names: list[str]) -> tuple[str, str] | None:
    """Return the first value of the graph that repairs the target, with the target's value it replaces; or None."""
    wrong_there = list(theirs.departing_values(set(pairs.values())))
    candidates = (
        (name, their)
        for name in ours.departing_values(set(pairs))
        for their in sorted(wrong_there, key=lambda n: n != name)
        if theirs.arrays[their].shape == ours.arrays[name].shape
    )
    for name, their in islice(candidates, _MOST_TRIED):
        if _mends(ours, theirs, name, their, names):
            return name, their
    return None


def _mends(ours: _Side, theirs: _Side, name: str, their: str, names: list[str]) -> bool:
    cutter, stop = theirs.cutter, theirs.values[their]
    outputs = [theirs.values[n] for n in names if n in theirs.values]
    nodes = cutter.before(outputs, [stop])
    inputs = [stop, *(v for v in cutter.ends(nodes)[0] if v is not stop)]
    made = [v for v in outputs if v is not stop]
    arrays = {str(v.name): theirs.arrays[str(v.name)] for v in inputs} | {their: ours.arrays[name]}
    try:
        part = widen_model(cutter.part(inputs, made, nodes))
        found = {**run(part, arrays), their: ours.arrays[name]}
    except ConvertError:
        return False
    return all(_are_equal(ours.arrays[n], found.get(n)) for n in names)


def _cut(ours: _Side, theirs: _Side, pairs: Mapping[str, str], output: tuple[str, str]) -> BothParts | str:
    """Return the parts of both sides before `output` and after the values that agree, with the names of the graph."""
    name, their = output
    stops = {ours.values[n]: theirs.values[t] for n, t in pairs.items() if n in ours.values and t in theirs.values}
    back = {there: here for here, there in stops.items()}
    our_nodes = ours.cutter.completed(ours.cutter.before([ours.values[name]], stops))
    their_nodes = theirs.cutter.completed(theirs.cutter.before([theirs.values[their]], back))
    our_inputs, their_inputs = ours.cutter.ends(our_nodes)[0], theirs.cutter.ends(their_nodes)[0]
    if any(v not in stops for v in our_inputs) or any(v not in back for v in their_inputs):
        return "the part that departs reads values that only one of the two sides has"
    inputs = list(dict.fromkeys([*our_inputs, *(back[v] for v in their_inputs)]))
    arrays = {str(v.name): _as_declared(ours.arrays[str(v.name)], v) for v in inputs}
    here = ours.cutter.part(inputs, [ours.values[name]], our_nodes)
    there = theirs.cutter.part([stops[v] for v in inputs], [theirs.values[their]], their_nodes)
    taken = {str(v.name) for v in there.graph.initializers.values()} | {
        str(v.name) for node in there.graph for v in node.outputs
    }
    for value, own in zip(there.graph.inputs, inputs, strict=True):
        if value.name != own.name and own.name in taken:
            return f"the target has another value called {own.name}"
    for value, own in zip(there.graph.inputs, inputs, strict=True):
        value.name = own.name
    there.graph.outputs[0].name = name
    for part in (here, there):
        set_shapes(part, arrays)
    return BothParts(here, there, arrays)


def _as_declared(array: np.ndarray, value: ir.Value) -> np.ndarray:
    """Return a value of the float64 run in the dtype that it has in the graph."""
    return array if value.dtype is None or array.dtype.kind != "f" else array.astype(value.dtype.numpy())
