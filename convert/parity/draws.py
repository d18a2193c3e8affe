"""More draws of rounding errors for outputs whose noise floor and error would be single draws.

The error of one number may be anything between nothing and three times its usual size by chance, in the source as well
as in the target: their ratio says nothing. So where such an output fails by its bound alone, or passes by the noise of
one or two numbers, both sides are run again on inputs near by, which round differently, and the root mean squares over
all draws are compared. A larger output that fails by little is drawn again too: what the last features of a network
are off by moves all of its scores together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from convert.graph.metadata import RANGE_KEY
from convert.graph.tensors import widened_array
from convert.parity.compare import FACTOR, LEAST, compare, is_source_far
from convert.parity.inputs import Feed
from convert.verdict import FAIL, PASS, OutputVerdict, Verdict

# An output of more than FEW elements is a sample of its own. With a feed and its draws the ratio of two root mean
# squares that are the same lies beyond 2.2 in one of 1,000 cases, beyond 3.2 in one of 100,000 (the F distribution).
FEW, DRAWS = 256, 16
# A larger output is drawn again up to this many times its bound: of RepVGG's 2,000 scores, which share an error, the
# ratio is 0.5 to 6.6 on one set of inputs and 2.1 over sixteen. Beyond so many elements the draws would fill memory.
NEAR, MANY = 2.0, 2**16
# No more elements than these in all, and an error of the source that is large by chance could hide a defect.
_SCARCE = 2
_SHRINK = 2.0**-5
"""Floating inputs of another draw are smaller by up to this share: zeros, signs and bounds stay what they are."""


Columns = tuple[Sequence[np.ndarray], Sequence[np.ndarray], Sequence[np.ndarray]]
"""Reference, source and target of one output on each feed."""


def unsettled_feeds(
    verdict: Verdict, feeds: Sequence[Feed], columns: Sequence[Columns], most: int = MANY
) -> list[Feed]:
    """The feeds on which chance may have decided, of outputs of up to `most` elements.

    None where another reason decided as well.
    """
    wrong = any(row.status == FAIL for row in verdict.outputs)
    found: set[int] = set()
    for row, arrays in zip(verdict.outputs, columns, strict=True):
        # Without a float64 run of the source: an error of the target that is small by chance makes the source look far.
        doubted = not wrong and verdict.status != PASS and is_source_far(row)
        noisy = sum(r.size for r in arrays[0]) <= _SCARCE and row.error > LEAST
        if row.status != FAIL and not doubted and not noisy:
            continue
        for n, (reference, source, target) in enumerate(zip(*arrays, strict=True)):
            alike = reference.size <= most and _differ_by_value(reference, source, target)
            few = alike and reference.size <= FEW
            one = compare("", [reference], [source], [target])
            fails = row.status == FAIL and one.status == FAIL
            if fails and not (alike and _may_be_chance(one, reference.shape)):
                return []
            if fails or (few and (doubted or noisy)):
                found.add(n)
    return [feeds[n] for n in sorted(found)]


def _differ_by_value(reference: np.ndarray, source: np.ndarray, target: np.ndarray) -> bool:
    """Whether these are floating numbers which differ by their values only."""
    if reference.dtype.kind != "f" or not reference.size or source.dtype != target.dtype:
        return False
    finite = [np.isfinite(widened_array(a)) for a in (reference, source, target)]  # other shapes are not equal either
    return all(np.array_equal(finite[0], other) for other in finite[1:])


def _may_be_chance(row: OutputVerdict, shape: tuple[int, ...]) -> bool:
    """Whether so large a ratio comes more often than once in 1,000 cases.

    The error of n rows is smaller than usual by a factor of r about once in r**n cases; the errors of the elements of
    a row often go together. Of many elements it is said where the ratio is near to the bound only.
    """
    rows = shape[0] if len(shape) > 1 else 1
    few = np.prod(shape) <= FEW
    return row.error <= FACTOR * row.floor * (1000 ** (1 / rows) if few else min(NEAR, 1000 ** (1 / rows)))


def more_draws(graph: ir.Model, feed: Feed, feeds: Sequence[Feed] = (), count: int = DRAWS) -> list[Feed]:
    """Other draws of a feed: floating inputs a little smaller; where there are none, integers in another order.

    A single integer becomes one of those that the input has on any of `feeds`. Integers whose reader noted what they
    may hold stay as they are. Empty where nothing can be changed.
    """
    noted = {str(v.name) for v in graph.graph.inputs if RANGE_KEY in v.metadata_props}
    changed = [name for name, array in feed.arrays.items() if _is_floating(array)]
    choices: dict[str, np.ndarray] = {}
    if not changed:
        whole = {n: a for n, a in feed.arrays.items() if a.dtype.kind in "iub" and a.size and n not in noted}
        choices = {n: _values_of_input(n, feeds) for n, a in whole.items() if a.size == 1}
        changed = [n for n in whole if n not in choices or choices[n].size > 1]
    if not changed:
        return []
    found = []
    for i in range(count):
        rng = np.random.default_rng([7, i])
        arrays: Mapping[str, np.ndarray] = {
            name: _redraw_array(array, rng, choices.get(name)) if name in changed else array
            for name, array in feed.arrays.items()
        }
        found.append(replace(feed, arrays=arrays, draw_of=feed.label))
    return found


def _values_of_input(name: str, feeds: Sequence[Feed]) -> np.ndarray:
    """What an input holds on some feeds, each value once."""
    return np.unique(np.concatenate([np.ravel(f.arrays[name]) for f in feeds] or [np.zeros(0)]))


def _is_floating(array: np.ndarray) -> bool:
    return array.size > 0 and (array.dtype.kind in "fc" or array.dtype.name == "bfloat16")


def _redraw_array(array: np.ndarray, rng: np.random.Generator, choices: np.ndarray | None) -> np.ndarray:
    if choices is not None:
        return rng.choice(choices, array.shape).astype(array.dtype)
    if _is_floating(array):
        return (array * (1 - rng.uniform(0, _SHRINK, array.shape))).astype(array.dtype)
    return rng.permutation(array.ravel()).reshape(array.shape)


def group_draws(feeds: Sequence[Feed]) -> list[list[int]]:
    """Places of the feeds that are draws of one another, each group led by the one that the others were made from."""
    groups = {i: [i] for i, feed in enumerate(feeds) if not feed.draw_of}
    heads = {feeds[i].label: i for i in groups}
    for i, feed in enumerate(feeds):
        if feed.draw_of:
            groups[heads[feed.draw_of]].append(i)
    return list(groups.values())


def pool_arrays(arrays: Sequence[np.ndarray], groups: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The arrays of each group in one, flat where there are several."""
    return [arrays[g[0]] if len(g) == 1 else np.concatenate([np.ravel(arrays[i]) for i in g]) for g in groups]
