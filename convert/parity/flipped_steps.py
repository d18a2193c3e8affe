"""Outputs of graphs that quantize inside: a step that rounding takes the other way there comes out as one or several.

An average of steps lies half way between two as often as not, and a runtime's float32 takes it up or down. What follows
has other numbers then, whose own rounding is not near to anything (`rounding_margins.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from convert.activity import limited_time
from convert.errors import ConvertError
from convert.graph.tensors import widened_array
from convert.parity.inputs import Feed
from convert.parity.moves import moved_array
from convert.parity.rounding_margins import quantizes

_RUNS = 32
_SHARE = 4
"""So many times as many elements as differ between two such runs may differ, at the most."""
_ROUNDING = 2.0**-18
"""Of the largest number of an output: floating elements that are nearer than this do not differ."""
LONGEST = 60.0
"""So many seconds may the runs take."""


def is_of_flipped_steps(
    graph: ir.Model, name: str, feeds: Sequence[Feed], sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
) -> bool:
    """Whether all elements of an output that differ lie among what the graph gives in float32, and are not too many.

    The graph is run as it is and with each result of an operator off by a unit in the last place. Each element of
    source and target has to be one of those numbers, or between two; floating ones up to rounding. Graphs that quantize
    nothing are not run.
    """
    kinds = {a.dtype.kind for a in (*sources, *targets)}
    if (
        not quantizes(graph)
        or not kinds <= set("fiubV")
        or any(s.shape != t.shape for s, t in zip(sources, targets, strict=True))
    ):
        return False
    try:
        with limited_time(LONGEST):
            return all(
                _may_flip(graph, name, feed, widened_array(source), widened_array(target))
                for feed, source, target in zip(feeds, sources, targets, strict=True)
                if (source != target).any()
            )
    except ConvertError:
        return False


def _may_flip(graph: ir.Model, name: str, feed: Feed, source: np.ndarray, target: np.ndarray) -> bool:
    from convert.reference.executor import run
    from convert.reference.one_by_one import run_disturbed

    moves = [partial(moved_array, rng=np.random.default_rng([31, seed])) for seed in range(_RUNS)]
    found = [run(graph, feed.arrays, outputs=[name])[name]]
    return is_among(found + [run_disturbed(graph, feed.arrays, move)[name] for move in moves], source, target)


def is_among(found: Sequence[np.ndarray], source: np.ndarray, target: np.ndarray) -> bool:
    """Whether elements that differ lie among those of runs that were found, and are not many more than differ there.

    found: outputs of one shape, the first of a run that nothing moved. source, target: of the same shape, widened.
    """
    if any(one.shape != target.shape for one in found):
        return False
    runs = np.stack([widened_array(one) for one in found]).astype(np.float64)
    if not np.isfinite(runs).all():
        return False
    slack = _ROUNDING * float(np.abs(runs).max(initial=0.0)) if source.dtype.kind == "f" else 0.0
    least, most = runs.min(axis=0) - slack, runs.max(axis=0) + slack
    differ = np.abs(source.astype(np.float64) - target) > slack
    within = all(((least <= side) & (side <= most) | ~differ).all() for side in (source, target))
    flips = max(int(np.count_nonzero(np.abs(one - runs[0]) > slack)) for one in runs[1:])
    return bool(within and np.count_nonzero(differ) <= _SHARE * flips)
