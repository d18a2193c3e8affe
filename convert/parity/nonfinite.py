"""Takes back a failure by the places of NaN and infinities where rounding decides these.

The logarithm of 1 - sigmoid(x) is -17 or minus infinity by one rounding of the sigmoid, and that of a softmax by what
a runtime makes of numbers near 1e-38: no two runtimes need have these in the same places.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError, Unsupported
from convert.graph.tensors import widened_array
from convert.parity.compare import FACTOR
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs, VerifyMethod, hold_other_uses, judge, reference_outputs
from convert.parity.moves import moved_arrays, run_moved
from convert.reference.executor import run
from convert.runners.process import Outputs
from convert.verdict import FAIL, INCONCLUSIVE, Verdict

_MOVES = 3
Respond = Callable[[Sequence[Feed]], Outputs]


def excuse_nonfinite(
    verdict: Verdict, graph: ir.Model, feeds: Sequence[Feed], runs: RunOutputs, respond: Respond, method: VerifyMethod
) -> None:
    """Take back, in place, a FAIL that nothing else than the places of NaN and infinities makes: INCONCLUSIVE.

    Rounding has to explain them: they are the source's in float64, or no more than those that float32 loses, or four
    times those that come and go when inputs and weights move by a unit in the last place; of a kind that there is then,
    and less than half of the output. respond: the source as deployed on other feeds. Never a PASS: in these places
    nothing can be compared.
    """
    single = runs.source["float32"]
    if verdict.status != FAIL or verdict.guilty == "frontend" or isinstance(single, Unsupported) or runs.narrowed:
        return
    names = [str(v.name) for v in graph.graph.outputs]
    given = [dict(zip(names, outputs.values(), strict=True)) for outputs in single]
    ways = {"": runs.target, **runs.others}
    if any(set(o) != set(names) for outputs in ways.values() for o in outputs):
        return
    differing = {n: _count([o[n] for o in runs.target], [o[n] for o in given]) for n in names}
    differing = {n: count for n, count in differing.items() if count}
    if not differing:
        return
    patched = {way: [_patched(o, g) for o, g in zip(outputs, given, strict=False)] for way, outputs in ways.items()}
    mended = replace(runs, target=patched.pop(""), others=patched)
    plain = [replace(feed, edge=False) for feed in feeds]

    def again(_: Sequence[Feed]) -> RunOutputs:
        raise ConvertError("there are no more draws")

    rest = hold_other_uses(judge(graph, plain, mended, method), graph, plain, mended, again, method)
    if rest.status == FAIL:
        return
    named = [dict(zip(names, outputs.values(), strict=True)) for outputs in reference_outputs(runs)[1]]
    moves = _moved_runs(graph, feeds, names, given, respond)
    for n in differing:
        ours, theirs, exact = ([o[n] for o in side] for side in (given, runs.target, named))
        moved = [([o[n] for o in a], [o[n] for o in b]) for a, b in moves]
        beyond = [_differ(t, g) & _differ(t, e) for t, g, e in zip(theirs, ours, exact, strict=True)]
        most = max([_count(exact, ours), *(FACTOR * _count(*pair) for pair in moved)])
        seen = set[str]().union(*map(_kinds, [*ours, *exact, *(a for pair in moved for side in pair for a in side)]))
        wrong = set[str]().union(*(_kinds(t[places]) for t, places in zip(theirs, beyond, strict=True))) - seen
        if wrong or sum(map(np.count_nonzero, beyond)) > min(most, sum(t.size for t in theirs) / 2):
            return
    verdict.outputs, verdict.status, verdict.guilty = rest.outputs, INCONCLUSIVE, ""
    for row in verdict.outputs:
        if row.name in differing:
            row.status = INCONCLUSIVE
            row.reason = f"rounding decides which elements are NaN or infinite ({differing[row.name]} are otherwise)"
            verdict.reason = f"{row.name}: {row.reason}"


def _moved_runs(
    graph: ir.Model, feeds: Sequence[Feed], names: Sequence[str], given: Outputs, respond: Respond
) -> list[tuple[Outputs, Outputs]]:
    """Outputs by name of source and graph on moved inputs, each with those on the inputs themselves."""
    pairs = []
    for seed in range(_MOVES):
        moved = [replace(f, arrays=moved_arrays(f.arrays, 1000 * seed + i)) for i, f in enumerate(feeds)]
        with contextlib.suppress(ConvertError):
            found = [dict(zip(names, outputs.values(), strict=True)) for outputs in respond(moved)]
            pairs.append((found, given))
        with contextlib.suppress(ConvertError):
            pairs.append((run_moved(graph, moved, seed=seed), [run(graph, f.arrays) for f in feeds]))
    return pairs


def _kinds(array: np.ndarray) -> set[str]:
    """Which of NaN and the infinities there are."""
    wide = widened_array(array)
    if wide.dtype.kind not in "fc":
        return set()
    return {
        name for name, found in (("nan", np.isnan(wide)), ("+", wide == np.inf), ("-", wide == -np.inf)) if found.any()
    }


def _count(arrays: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> int:
    """How many elements are NaN or infinite on one side only, or otherwise; of arrays of one shape."""
    return sum(int(np.count_nonzero(_differ(a, b))) for a, b in zip(arrays, others, strict=False) if a.shape == b.shape)


def _differ(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "OUSbiu":
        return np.zeros(array.shape, bool)
    one, two = widened_array(array), widened_array(other)
    nonfinite = ~(np.isfinite(one) & np.isfinite(two))
    return np.asarray(nonfinite & (one != two) & ~(np.isnan(one) & np.isnan(two)))


def _patched(outputs: dict[str, np.ndarray], given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs with the source's elements where these are NaN or infinite otherwise."""
    return {
        n: np.where(_differ(a, given[n]), given[n], a).astype(a.dtype) if a.shape == given[n].shape else a
        for n, a in outputs.items()
    }
