"""Find sets of inputs on which the target is so close to the source that a float64 run would not change the verdict.

The target is right if its error is at most four noise floors (`outputs.py`). The source's own error is at most one. A
target within three noise floors of the source is therefore right whatever the reference is. Large models run in float64
on one set only, and on the sets where the target is further away.

The relative noise floor is that of the one set: a set with a smaller one gets a bound that is wider in proportion.
Floors above `SUSPICIOUS`, which rounding must explain set by set, are not used for other sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import ROUNDOFF, widened_array
from convert.parity.compare.outputs import (
    FACTOR,
    OUTLIER,
    ROUNDINGS,
    SUSPICIOUS,
    parts_of,
    same_nonfinite,
    typical_error,
)
from convert.parity.compare.randomness import random_outputs
from convert.parity.evidence import RunOutputs, outputs_of, reference_outputs, runs_on
from convert.parity.inputs.cost import is_small
from convert.parity.inputs.feeds import Feed
from convert.parity.magnitudes import rms
from convert.processes.run_here import Outputs


def later_sets(graph: ir.Model, feeds: Sequence[Feed]) -> list[int]:
    """Return the indices of the sets that run in float64 only if the target does not follow the source there.

    For models that are not small, these are all sets but the smallest of the usual ones. The result is [] for models
    with random outputs, which are judged by other rules.
    """
    usual = [i for i, feed in enumerate(feeds) if not (feed.edge or feed.special or feed.uneven)]
    if not usual or random_outputs(graph):
        return []
    first = min(usual, key=lambda i: sum(array.size for array in feeds[i].arrays.values()))
    return [i for i, feed in enumerate(feeds) if i != first and not feed.special and not is_small(graph, feed)]


def followed_sets(runs: RunOutputs, later: Sequence[int]) -> list[int]:
    """Return the sets in `later` on which the target follows the source, in every way of running it.

    All other sets must have a reference, from which the noise floor is computed.
    """
    sources, (_, references) = outputs_of(runs.source["float32"]), reference_outputs(runs)
    known = [place for place in range(len(sources)) if place not in later]
    floors = _relative_floors([references[i] for i in known], [sources[i] for i in known])
    if max(floors, default=0.0) > SUSPICIOUS:
        return []
    ways = [runs.target, *runs.others.values()]
    return [
        place
        for place in later
        if all(_follow(sources[place], outputs[place], floors) for outputs in ways if place < len(outputs))
    ]


def _relative_floors(
    references: Sequence[Mapping[str, np.ndarray]], sources: Sequence[Mapping[str, np.ndarray]]
) -> list[float]:
    """Return the noise floor of each output on these sets, relative to the root mean square of the reference."""
    floors = [
        [*map(_relative_floor, exact.values(), given.values())]
        for exact, given in zip(references, sources, strict=True)
    ]
    return [max(column) for column in zip(*floors, strict=True)]


def _relative_floor(reference: np.ndarray, source: np.ndarray) -> float:
    least = ROUNDINGS * ROUNDOFF.get(source.dtype.name, 2.0**-24)
    if source.dtype.kind in "OUSbiu" or reference.shape != source.shape:
        return least
    exact, given = widened_array(reference), widened_array(source)
    finite = np.isfinite(exact) & np.isfinite(given)
    size = rms(exact[finite])
    return max(typical_error(given[finite] - exact[finite]) / size, least) if size else least


def _follow(source: Mapping[str, np.ndarray], target: Mapping[str, np.ndarray], floors: Sequence[float]) -> bool:
    if len(source) != len(target) or len(source) != len(floors):
        return False
    return all(map(_follows, source.values(), target.values(), floors))


def _follows(source: np.ndarray, target: np.ndarray, floor: float) -> bool:
    """Return whether the target differs from the source by at most `FACTOR` - 1 noise floors.

    floor: relative to the rms. Far smaller elements have no known floor, and get one of a few roundings.
    """
    if source.dtype != target.dtype or source.shape != target.shape:
        return False
    if source.dtype.kind in "OUSbiu":
        return bool(np.array_equal(source, target))
    given, got = widened_array(source), widened_array(target)
    if not same_nonfinite(given, got):
        return False
    finite, least = np.isfinite(given), ROUNDINGS * ROUNDOFF.get(source.dtype.name, 2.0**-24)
    for part in parts_of(given):
        mask, noise = (finite, floor) if part is None else (finite & part, least)
        right, error = given[mask], np.abs(got[mask] - given[mask])
        size, largest = rms(right), float(np.abs(right).max(initial=0.0))
        if rms(error) > (FACTOR - 1) * noise * size:
            return False
        if error.max(initial=0.0) > (OUTLIER - 1) * max(noise * size, least * largest):
            return False
    return True


@dataclass(frozen=True)
class FollowedSets:
    """Sets of inputs on which the target follows the source, with the outputs of both."""

    feeds: Sequence[Feed] = ()
    source: Outputs = field(default_factory=list)
    target: Outputs = field(default_factory=list)


def take_followed(feeds: Sequence[Feed], runs: RunOutputs) -> tuple[list[Feed], RunOutputs, FollowedSets]:
    """Return feeds and runs without the followed sets, and the followed sets."""
    places, single = list(runs.followed), outputs_of(runs.source["float32"])
    apart = FollowedSets([feeds[i] for i in places], [single[i] for i in places], [runs.target[i] for i in places])
    rest = [place for place in range(len(feeds)) if place not in places]
    return [feeds[i] for i in rest], replace(runs_on(runs, rest), followed=()), apart
