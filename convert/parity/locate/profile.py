"""Measure errors along the network: at each node of the shared graph, those of float32 alone and of the target."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph import location_of
from convert.graph.tensors import holds_floats
from convert.outcome.verdict import Place
from convert.parity.compare.outputs import FACTOR, ROUNDINGS
from convert.parity.inputs.feeds import Feed
from convert.parity.locate.pairing import read_back
from convert.parity.pairing.counterparts import Counterparts
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import summarize

_UNIT = ROUNDINGS * 2.0**-24
# Most values of the target that are compared with one node: those with the nearest statistics.
_TRIED = 4
# A value with a larger error is another value, or is behind a defect that changed everything.
_RELATED = 0.5


def profile_errors(
    graph: ir.Model, target: Source, feed: Feed, options: Options, ends: Counterparts | Names
) -> list[Place] | str:
    """Return the error of every node with a floating output, or why it cannot be measured.

    Runtimes do not expose intermediate values. The target is therefore read back by its own frontend, and both graphs
    are evaluated node by node in float32; the graph in float64 is the reference. The target's values are found by
    content, in either layout. A node that was fused away has no error. ends: the target's names of the graph's inputs
    and outputs.
    """
    from convert.passes.to_float64 import widen_model
    from convert.reference.executor import run

    try:
        other = read_back(target, options, ends)
        exact = run(widen_model(graph), feed.arrays, every=True)
        rounded = run(graph, feed.arrays, every=True)
        theirs = run(other, feed.arrays, every=True)
    except ConvertError as error:
        return f"the artefact could not be evaluated node by node: {error.sentence}"
    target_values = TargetValues(theirs)
    outputs = {str(v.name) for v in graph.graph.outputs}
    places: dict[ir.Node, Place] = {}
    for node in graph.graph:
        name = str(node.outputs[0].name)
        reference: Any = exact.get(name)
        own: Any = rounded.get(name)
        if not holds_floats(reference) or not holds_floats(own):
            continue
        at = location_of(node)
        floor = max(_relative_error(reference, own) or 0.0, _UNIT)
        # An output is found by its name, however large its error is.
        known = name in outputs and name in theirs
        off = _relative_error(reference, theirs[name]) if known else target_values.nearest(reference)
        places[node] = Place(at.node, at.operator, at.module, at.source, floor, off)
    return relevant_places(places)


def relevant_places(places: Mapping[ir.Node, Place]) -> list[Place]:
    """Return the places. If a value computed from a node is right, the error of that node is removed.

    The target lacks the value of such a node, because the node was fused with a later one. The value that was found
    only resembles it.
    """
    found = []
    fine: set[ir.Node] = set()
    for node, place in reversed(list(places.items())):
        within = place.error is not None and place.error <= FACTOR * place.floor
        if within or any(user in fine for value in node.outputs for user, _ in value.uses()):
            fine.add(node)
            place = place if within else replace(place, error=None)
        found.append(place)
    return found[::-1]


class TargetValues:
    """The target's floating values by number of elements, with their statistics."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.arrays: dict[int, list[np.ndarray]] = {}
        for array in values.values():
            if holds_floats(array):
                self.arrays.setdefault(array.size, []).append(array)
        self.statistics = {
            size: np.array([summarize(a).statistics for a in arrays]) for size, arrays in self.arrays.items()
        }

    def nearest(self, reference: np.ndarray) -> float | None:
        """Return the error of the value nearest to `reference`; None if none is near."""
        found = self.nearest_array(reference)
        return None if found is None else _relative_error(reference, found)

    def nearest_array(self, reference: np.ndarray) -> np.ndarray | None:
        """Return the value nearest to `reference`, in its order of dims; None if none is near."""
        candidates = self.arrays.get(reference.size)
        if not candidates:
            return None
        wanted = np.array(summarize(reference).statistics)
        order = np.argsort(np.abs(self.statistics[reference.size] - wanted).max(axis=1), kind="stable")[:_TRIED]
        found = [f for f in (_best_arrangement(reference, candidates[i]) for i in order) if f is not None]
        error, array = min(found, key=lambda pair: pair[0], default=(_RELATED, None))
        return array if error < _RELATED else None


def _best_arrangement(reference: np.ndarray, value: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Return the smallest error of `value` as it is, reshaped, or with one dim moved, and the array that has it."""
    arrays = [value.reshape(reference.shape)]
    if value.ndim == reference.ndim and 2 <= value.ndim <= 5:
        moves = [p for p in _axis_moves(value.ndim) if tuple(value.shape[i] for i in p) == reference.shape]
        arrays += [value.transpose(p) for p in moves]
    found = [(error, a) for a in arrays if (error := _relative_error(reference, a)) is not None]
    return min(found, key=lambda pair: pair[0], default=None)


def _axis_moves(rank: int) -> list[tuple[int, ...]]:
    """Return the permutations that layouts use: one dim is moved to another axis."""
    found = set()
    for start, end in itertools.permutations(range(rank), 2):
        order = [i for i in range(rank) if i != start]
        order.insert(end, start)
        found.add(tuple(order))
    return sorted(found)


def _relative_error(reference: np.ndarray, value: np.ndarray) -> float | None:
    """Return the rms of the difference relative to that of the reference, over elements finite on both sides.

    The result is None for other shapes, without finite elements, and if the reference is 0.
    """
    if reference.shape != value.shape:
        return None
    mask = np.isfinite(reference) & np.isfinite(value)
    if not mask.any():
        return None
    exact = reference[mask].astype(np.float64)
    scale = float(np.sqrt(np.mean(exact**2)))
    return float(np.sqrt(np.mean((value[mask].astype(np.float64) - exact) ** 2))) / scale if scale else None
