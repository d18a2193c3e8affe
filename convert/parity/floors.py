"""Holds a noise floor to what rounding explains: an error of a reader, or of a float64 run, is none.

The floor is how far the source as deployed lies from the reference. Rounding explains as much of it as the outputs move
when inputs and weights move by one unit in the last place: the source on such inputs, and the graph in its own dtypes
with such inputs and weights. What is far beyond that is another function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import onnx_ir as ir

from convert.activity import limited_time
from convert.errors import ConvertError, Unsupported
from convert.graph.tensors import widened_array
from convert.parity.compare import FACTOR, FLOAT64_BOUND, OUTLIER, ROUNDINGS, ROUNDOFF, float64_error, rms
from convert.parity.draws import group_draws
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs, reference_outputs
from convert.parity.moves import moved_array, moved_arrays, run_moved
from convert.parity.randomness import random_outputs
from convert.parity.rounding_margins import quantizes
from convert.runners.process import Outputs
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict

SUSPICIOUS = 1e-3
"""Floors from here on are held to what rounding explains. Of the zoo's models in float32 none is as noisy."""

MOST = 0.1
"""Where the source itself is that far from the reference nothing is proven, whatever explains it."""


def without_foreign_float64(graph: ir.Model, runs: RunOutputs) -> RunOutputs:
    """The runs without a source in float64 that is another function than the source as deployed.

    A program may ask for the dtype of its tensors, and an evaluator of files be wrong: where the graph in float64 is
    much nearer to the source as deployed than the source in float64 is, that run says nothing about either.
    """
    double, single, own = runs.source["float64"], runs.source["float32"], runs.graph_float64
    if isinstance(double, Unsupported) or isinstance(single, Unsupported) or isinstance(own, Unsupported):
        return runs
    random = random_outputs(graph)
    for exact, given, ours in zip(double, single, own, strict=True):
        for name, a, b, c in zip(ours, exact.values(), given.values(), ours.values(), strict=False):
            if name in random or a.shape != b.shape or b.dtype.kind in "OUSbiu":
                continue
            if float64_error(a, c) > FLOAT64_BOUND and distance(b, a) > OUTLIER * max(distance(b, c), _least(b)):
                reason = Unsupported("in float64 the source computes something else than as it is deployed")
                return replace(runs, source={**runs.source, "float64": reason})
    return runs


def hold_floors(
    verdict: Verdict,
    graph: ir.Model,
    feeds: Sequence[Feed],
    runs: RunOutputs,
    respond: Callable[[Sequence[Feed]], Outputs],
    *,
    steps: bool = False,
) -> None:
    """Take back, in place, a verdict whose noise floor is not explained by rounding.

    respond: the source as deployed on other feeds. steps: it rounds what meets its weights to whole steps while it
    runs, of which the graph shows nothing. A floor far above what rounding explains is a FAIL of the frontend where the
    graph is its own reference, INCONCLUSIVE where the source in float64 agrees with the graph, or where one of them
    quantizes; one of `MOST` or more is never a PASS.
    """
    single = runs.source["float32"]
    name, exact = reference_outputs(runs)
    if verdict.status == FAIL or isinstance(single, Unsupported) or exact is single:
        return
    random = random_outputs(graph)
    floors = _pooled(single, exact)
    high = {n: floor for n, floor in floors.items() if floor > SUSPICIOUS and verdict.outputs[n].name not in random}
    if not high:
        return
    explained = explained_floors(graph, feeds, runs, respond)
    names = [str(v.name) for v in graph.graph.outputs]
    beside = _pooled([{n: o[n] for n in names} for o in runs.target], single)
    for place, floor in high.items():
        row = verdict.outputs[place]
        if floor < MOST and exact is runs.source["float64"] and beside[place] <= OUTLIER * explained.get(place, 0.0):
            continue  # a bucket that float32 decides otherwise, say: the target does as the source, to the rounding
        reason = (
            f"{row.name}: the source as deployed is {floor:.1e} away from {name}, and rounding explains "
            f"{explained.get(place, 0.0):.1e} of it (inputs and weights moved by one unit in the last place)"
        )
        if floor > OUTLIER * explained.get(place, 0.0):
            if exact is runs.graph_float64 and not steps and not quantizes(graph):
                verdict.status, verdict.guilty, verdict.reason = FAIL, "frontend", reason
                row.status, row.reason = FAIL, reason
                return
            verdict.status, verdict.reason = INCONCLUSIVE, reason
        elif floor >= MOST and verdict.status == PASS:
            verdict.status = INCONCLUSIVE
            verdict.reason = f"{row.name}: rounding alone moves the output by {floor:.0%} of its size"


def excuse_cancelled(
    verdict: Verdict,
    graph: ir.Model,
    feeds: Sequence[Feed],
    runs: RunOutputs,
    respond: Callable[[Sequence[Feed]], Outputs],
) -> None:
    """Take back, in place, failures of outputs of which nothing but rounding is left: INCONCLUSIVE, never a PASS.

    Such is the divergence of a distribution from itself: 0 but for rounding, in float64 as well. `respond` as for
    `hold_floors`. An output is excused where rounding moves it by all of its size or more, and where that explains what
    is wrong with it, in float64 by as much less as float64 is more exact.
    """
    failed = [(i, r) for i, r in enumerate(verdict.outputs) if r.status == FAIL]
    if verdict.status != FAIL or not failed or not all(_is_of_numbers(i, r, runs) for i, r in failed):
        return
    explained = explained_floors(graph, feeds, runs, respond)
    for place, row in failed:
        most = OUTLIER * explained.get(place, 0.0)
        in_float64 = most * ROUNDOFF["float64"] / ROUNDOFF["float32"]
        if most >= OUTLIER and row.error <= most and (row.twin or 0.0) <= max(FLOAT64_BOUND, in_float64):
            row.status, row.reason = INCONCLUSIVE, "nothing but rounding is left of it, which moves it by its own size"
    if all(r.status != FAIL for r in verdict.outputs):
        verdict.status, verdict.guilty = INCONCLUSIVE, ""
        verdict.reason = f"{failed[0][1].name}: {failed[0][1].reason}"


def excuse_order(verdict: Verdict, graph: ir.Model, feeds: Sequence[Feed], runs: RunOutputs) -> None:
    """Take back, in place, a failure of a backend that other kernels' rounding explains: INCONCLUSIVE.

    Runtimes add long sums in simple ways, of which a source's own error shows nothing: a GroupNormalization over 64²
    pixels is 1e-5 off in onnxruntime; 70 pixels stretched over 320 are 4e-6, as it divides by a rounded 320/70. And
    their functions are exact to some units in the last place: what comes out of atanh(tanh(x)) has lost more. The graph
    has to agree with the source in float64, and the error of the target to be no larger than twice that of the graph in
    float32 with sums taken number after number, or with each result off by a unit in the last place.
    """
    failed = [(i, r) for i, r in enumerate(verdict.outputs) if r.status == FAIL]
    proven = all(r.twin is not None and r.twin <= FLOAT64_BOUND and _is_of_numbers(i, r, runs) for i, r in failed)
    if verdict.status != FAIL or verdict.guilty != "backend" or not failed or not proven:
        return
    from convert.reference.one_by_one import run_disturbed, run_one_by_one

    _, exact = reference_outputs(runs)
    wanted = [list(outputs.values()) for outputs in exact]
    floors = [[0.0] * len(feeds) for _ in failed]
    ways: list[Callable[..., dict[str, np.ndarray]]] = [run_one_by_one]
    if all(row.error <= _NEAR * row.floor for _, row in failed):
        ways += [partial(run_disturbed, move=partial(moved_array, rng=np.random.default_rng(23)))] * _DISTURBED
    try:
        with limited_time(LONGEST):
            for run in ways:
                found = [list(run(graph, feed.arrays).values()) for feed in feeds]
                own = [[distance(a[i], b[i]) for a, b in zip(found, wanted, strict=True)] for i, _ in failed]
                floors = [[max(pair) for pair in zip(*both, strict=True)] for both in zip(floors, own, strict=True)]
    except ConvertError:
        return
    if len(group_draws(feeds)) < len(feeds):  # what are draws of one another was judged as one
        floors = [[max(found)] * len(found) for found in floors]
    if all(_is_explained(row, found) for (_, row), found in zip(failed, floors, strict=True)):
        for _, row in failed:
            row.status, row.reason = (
                INCONCLUSIVE,
                f"{row.reason}; sums and functions that other kernels round otherwise explain it",
            )
        verdict.status, verdict.guilty = INCONCLUSIVE, ""
        verdict.reason = f"{failed[0][1].name}: {failed[0][1].reason}"


def _is_explained(row: OutputVerdict, floors: Sequence[float]) -> bool:
    """Whether the error of each set of inputs, up to the one that failed, is at most twice the floor there."""
    return (
        all(
            s.error <= 2 * floor < MOST or s.error <= FACTOR * s.floor
            for s, floor in zip(row.sets, floors, strict=False)
        )
        and row.error <= 2 * floors[len(row.sets) - 1] < MOST
    )


def _is_of_numbers(place: int, row: OutputVerdict, runs: RunOutputs) -> bool:
    """Return whether an output failed by its numbers only.

    Dtypes, shapes, and the places of NaN and of infinities are the source's.
    """
    single = runs.source["float32"]
    if isinstance(single, Unsupported) or not 0 < row.error < np.inf:
        return False
    pairs = [(list(s.values())[place], t[row.name]) for s, t in zip(single, runs.target, strict=True)]
    return all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and a.dtype.kind not in "OUS"
        and np.array_equal(np.isfinite(widened_array(a)), np.isfinite(widened_array(b)))
        for a, b in pairs
    )


_DISTURBED, _NEAR = 2, 32.0
"""How often results are moved by a unit in the last place, and up to how many noise floors that is tried."""
LONGEST = 60.0
"""So many seconds may a run with such sums take."""


def explained_floors(
    graph: ir.Model, feeds: Sequence[Feed], runs: RunOutputs, respond: Callable[[Sequence[Feed]], Outputs]
) -> dict[int, float]:
    """By the place of an output, how far rounding may move it, relative to its size; no less than a few roundings."""
    single, graph_float64 = runs.source["float32"], runs.graph_float64
    assert not isinstance(single, Unsupported)
    moved = [replace(f, arrays=moved_arrays(f.arrays, seed)) for seed, f in enumerate(feeds)]
    found = [{i: _least(a) for i, a in enumerate(single[0].values())}]
    if any(moved[i].arrays[n] is not a for i, f in enumerate(feeds) for n, a in f.arrays.items()):
        found.append(_of_what_runs(lambda: _pooled(respond(moved), single)))
    if not isinstance(graph_float64, Unsupported):
        found.append(_of_what_runs(lambda: _pooled(run_moved(graph, moved), graph_float64)))
    return {place: max(each.get(place, 0.0) for each in found) for place in range(len(single[0]))}


def _of_what_runs(measure: Callable[[], dict[int, float]]) -> dict[int, float]:
    try:
        return measure()
    except ConvertError:
        return {}


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Root mean square of the difference relative to that of `b`, where both are finite; infinite for another shape."""
    if a.shape != b.shape:
        return np.inf
    x, y = (w.astype(np.float64) if w.dtype.kind == "b" else w for w in (widened_array(a), widened_array(b)))
    mask = np.isfinite(x) & np.isfinite(y)
    return rms(x[mask] - y[mask]) / (rms(y[mask]) or 1.0)


def _pooled(found: Outputs, wanted: Outputs) -> dict[int, float]:
    """The root mean square of the distances over all feeds, by the place of a floating output."""
    places = [i for i, a in enumerate(wanted[0].values()) if a.dtype.kind in "fc" or a.dtype.name == "bfloat16"]
    columns = {i: [[list(o.values())[i] for o in side] for side in (found, wanted)] for i in places}
    return {
        i: float(np.sqrt(np.mean([distance(a, b) ** 2 for a, b in zip(*pair, strict=True) if b.size] or [0.0])))
        for i, pair in columns.items()
    }


def _least(array: np.ndarray) -> float:
    return ROUNDINGS * ROUNDOFF.get(array.dtype.name, 2.0**-24)
