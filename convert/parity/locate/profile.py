"""Errors along the network: at each node of the shared graph what float32 alone does, and what the target is off."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph import location_of
from convert.graph.names import restore_ends
from convert.model_reading import read_model
from convert.naming import Names
from convert.options import Options
from convert.parity.compare.outputs import FACTOR, ROUNDINGS
from convert.parity.inputs.feeds import Feed
from convert.parity.pairing.counterparts import Counterparts
from convert.report import Report
from convert.runners.trace import summarize
from convert.source import Source
from convert.verdict import Place

_UNIT = ROUNDINGS * 2.0**-24
# Values of the target that are tried out for one node: those whose statistics are nearest.
_TRIED = 4
# Farther away than this a value is another one, or is behind a defect that changed everything.
_RELATED = 0.5


def profile_errors(
    graph: ir.Model, target: Source, feed: Feed, options: Options, pairs: Counterparts | Names | None = None
) -> list[Place] | str:
    """The error of every node with a floating output, or why it cannot be had.

    Runtimes show no values between their ends, so the target is read back by its own frontend, and both graphs are
    evaluated node by node in float32; the graph in float64 is the reference. Values of the target are found by what
    they hold, in either layout: one that was fused away has no error. pairs: what the target calls the graph's ends.
    """
    from convert.passes.to_float64 import widen_model
    from convert.reference.executor import run

    try:
        other = read_model(target, options, Report("profile"))
        if pairs is not None:
            restore_ends(other, pairs.inputs, pairs.outputs)
        exact = run(widen_model(graph), feed.arrays, every=True)
        rounded = run(graph, feed.arrays, every=True)
        theirs = run(other, feed.arrays, every=True)
    except ConvertError as error:
        return f"the artefact could not be evaluated node by node: {error.sentence}"
    target_values = _TargetValues(theirs)
    ends = {str(v.name) for v in graph.graph.outputs}
    places: dict[ir.Node, Place] = {}
    for node in graph.graph:
        name = str(node.outputs[0].name)
        reference: Any = exact.get(name)
        own: Any = rounded.get(name)
        if not _is_floating(reference) or not _is_floating(own):
            continue
        at = location_of(node)
        floor = max(_relative_error(reference, own) or 0.0, _UNIT)
        # An output is known by its name, however far it is off.
        known = name in ends and name in theirs
        off = _relative_error(reference, theirs[name]) if known else target_values.nearest(reference)
        places[node] = Place(at.node, at.operator, at.module, at.source, floor, off)
    return relevant_places(places)


def relevant_places(places: Mapping[ir.Node, Place]) -> list[Place]:
    """Without the errors of nodes that are off although something that is computed from them is not.

    The target has no such value: it was fused with what comes next, and resembles another.
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


class _TargetValues:
    """The target's floating values by number of elements, with their statistics."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.arrays: dict[int, list[np.ndarray]] = {}
        for array in values.values():
            if _is_floating(array):
                self.arrays.setdefault(array.size, []).append(array)
        self.statistics = {
            size: np.array([summarize(a).statistics for a in arrays]) for size, arrays in self.arrays.items()
        }

    def nearest(self, reference: np.ndarray) -> float | None:
        """The error of the value that is nearest to `reference`; None where none is near."""
        candidates = self.arrays.get(reference.size)
        if not candidates:
            return None
        wanted = np.array(summarize(reference).statistics)
        order = np.argsort(np.abs(self.statistics[reference.size] - wanted).max(axis=1), kind="stable")[:_TRIED]
        errors = [e for e in (_least_error(reference, candidates[i]) for i in order) if e is not None]
        found = min(errors, default=None)
        return found if found is not None and found < _RELATED else None


def _is_floating(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size > 0


def _least_error(reference: np.ndarray, value: np.ndarray) -> float | None:
    """The error of `value` as it is, reshaped, or with its dims in another order."""
    errors = [_relative_error(reference, value.reshape(reference.shape))]
    if value.ndim == reference.ndim and 2 <= value.ndim <= 5:
        moves = [p for p in _axis_moves(value.ndim) if tuple(value.shape[i] for i in p) == reference.shape]
        errors += [_relative_error(reference, value.transpose(p)) for p in moves]
    return min((e for e in errors if e is not None), default=None)


def _axis_moves(rank: int) -> list[tuple[int, ...]]:
    """The orders that layouts make: one dim moved to another place."""
    found = set()
    for start, end in itertools.permutations(range(rank), 2):
        order = [i for i in range(rank) if i != start]
        order.insert(end, start)
        found.add(tuple(order))
    return sorted(found)


def _relative_error(reference: np.ndarray, value: np.ndarray) -> float | None:
    """The root mean square of the difference, relative to that of the reference; None where both are zero or NaN."""
    if reference.shape != value.shape:
        return None
    mask = np.isfinite(reference) & np.isfinite(value)
    if not mask.any():
        return None
    exact = reference[mask].astype(np.float64)
    scale = float(np.sqrt(np.mean(exact**2)))
    return float(np.sqrt(np.mean((value[mask].astype(np.float64) - exact) ** 2))) / scale if scale else None
