"""Generate inputs for each branch that a graph takes for some sizes: Ifs on conditions that its reader noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import onnx_ir as ir

from convert.graph.metadata import PATHS_KEY
from convert.parity.inputs.feeds import Feed, complete_sizes, fed_shape, feed_sizes, free_dims, size_facts, sized_feed
from convert.parity.inputs.size_guards import broken_guards, sizes_meeting

_MOST_ELEMENTS = 1 << 21
"""Most elements of all inputs of a set that is generated for a branch."""


def branch_feeds(model: ir.Model, feeds: Sequence[Feed], seed: int) -> Iterator[Feed]:
    """Yield a feed for each branch that none of `feeds` takes. Of the sizes that take it, the nearest to the usual ones
    are chosen.

    The source may reject it. Branches without such sizes, or only with large ones, are skipped.
    """
    bounds, guards = size_facts(model)
    usual = next(iter(feed_sizes(model, 1)), {})
    free = {name: usual[name] for name in free_dims(model)}
    for way in uncovered_branches(model, feeds):
        sizes = sizes_meeting(free, [*way, *guards], bounds)
        if sizes is None:
            continue
        whole = complete_sizes(model, sizes)
        if sum(prod(fed_shape(value, whole)) for value in model.graph.inputs) <= _MOST_ELEMENTS:
            yield replace(sized_feed(model, seed, whole), edge=True, uneven=True)
            seed += 1


def uncovered_branches(model: ir.Model, feeds: Sequence[Feed]) -> list[list[str]]:
    """Return the conditions of the branches on sizes that none of the feeds reaches; special feeds do not count."""
    found = [sizes_of(model, feed.arrays) for feed in feeds if not feed.special]
    return [way for way in model.meta.get(PATHS_KEY, []) if all(broken_guards(way, sizes) for sizes in found)]


def sizes_of(model: ir.Model, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Return the sizes of the dynamic dims that have names."""
    return {
        str(dim.value): arrays[str(value.name)].shape[axis]
        for value in model.graph.inputs
        if str(value.name) in arrays
        for axis, dim in enumerate(value.shape or ())
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None
    }
