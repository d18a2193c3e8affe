"""Choose the default inputs of a verification: random sets of several sizes, and edge cases of what a model accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.parity.inputs import feeds as inputs
from convert.parity.inputs.cost import is_large
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.long_sizes import long_feeds
from convert.parity.inputs.saved import input_sets
from convert.parity.inputs.size_branches import branch_feeds
from convert.parity.inputs.uneven import far_feed, longest_feed, offset_feed, uneven_feed, with_unusual_rows
from convert.parity.method import VerifyMethod
from convert.request.options import Options

_EDGES = 3
"""Edge sets are added if there are at least this many seeds."""


def default_feeds(
    graph: ir.Model,
    options: Options,
    method: VerifyMethod,
    denormals: bool,
    sizes: Sequence[Mapping[str, int]] = (),
    spans: inputs.Spans = inputs.NO_SPANS,
    alike: bool = False,
    large: bool = True,
) -> list[Feed]:
    """Return the input sets of a verification: the user's, or random sets followed by edge sets.

    denormals: whether the set of special values contains denormals. sizes, spans: sizes of dims and limits of integers
    that were found by trial. alike: as in `inputs.generate_feeds`. large: whether some sets have numbers far from 1.
    """
    if method.arrays is not None:
        return _common_feeds(_given_feeds(graph, method.arrays), method)
    feeds = inputs.generate_feeds(graph, method.seeds, sizes, spans, alike)
    feeds = with_unusual_rows(graph, feeds, large, all(s == inputs.WITHOUT_ZERO for s in spans.values()))
    if len(options.examples) == len(graph.graph.inputs) > 0:
        given = inputs.given_feed(graph, options.examples)
        # A set that occurs twice would look as if the output did not depend on the inputs.
        feeds = [given, *(f for f in feeds if not _has_same_arrays(f, given))]
    # Fewer seeds do not even reach all usual sizes. If sizes were found by trial, other sizes prove nothing.
    if method.seeds < _EDGES or sizes or spans:
        return _common_feeds(feeds, method)
    # Sets are dropped from the end: a source rejects sizes more often than numbers.
    pairs = method.counterparts
    whole = pairs is None or (not pairs.dtypes and len(pairs.kept) == len(graph.graph.outputs))
    special = inputs.special_feed(graph, method.seeds, denormals, is_large(graph)) if whole else None
    far = far_feed(graph, method.seeds + 2) if whole and large else None
    uneven = uneven_feed(graph, method.seeds + 1, alike, large) if whole else None
    longest = longest_feed(graph, method.seeds + 3) if whole else None
    offset = offset_feed(graph, method.seeds + 4) if whole and large else None
    long = long_feeds(graph, method.seeds + 5) if whole else []
    edges = (special, far, offset, uneven, longest, *long, inputs.smallest_feed(graph, method.seeds))
    every = [*feeds, *(edge for edge in edges if edge is not None)]
    return _common_feeds([*every, *branch_feeds(graph, every, method.seeds + 7)], method)


def _common_feeds(feeds: Sequence[Feed], method: VerifyMethod) -> list[Feed]:
    """Return feeds with numbers that the target's dtypes represent as well, if these differ."""
    pairs = method.counterparts
    return list(feeds) if pairs is None else [replace(f, arrays=pairs.common_feed(f.arrays)) for f in feeds]


def _has_same_arrays(one: Feed, other: Feed) -> bool:
    return all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())


def _given_feeds(graph: ir.Model, arrays: Mapping[Any, np.ndarray]) -> list[Feed]:
    """Return the user's inputs, one feed per set."""
    found = [inputs.given_feed(graph, each) for each in input_sets(arrays)]
    return found if len(found) == 1 else [replace(f, label=f"{f.label}, set {i}") for i, f in enumerate(found)]
