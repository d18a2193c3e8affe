"""Leave out sets of larger numbers on which the source overflows or consists of rounding error, and note them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.tensors import ROUNDOFF, widened_array
from convert.outcome.notes import Note
from convert.parity.compare.outputs import FACTOR, distance
from convert.parity.evidence import RunOutputs, reference_outputs, runs_on
from convert.parity.explain.rounding import UNDECIDED
from convert.parity.inputs.feeds import Feed
from convert.parity.magnitudes import rms


def without_overflow(
    graph: ir.Model, feeds: Sequence[Feed], runs: RunOutputs
) -> tuple[list[Feed], RunOutputs, list[Note]]:
    """Return feeds and outputs without the sets of larger numbers that prove nothing, and notes on these sets.

    A set is left out in four cases:

    - The source is infinite or NaN in float32 and finite in float64, so that the order of operations decides where.
    - The source is not finite in float64 either, and the target is, as with the logarithm of a softmax.
    - Rounding alone moves the source by more than `UNDECIDED`, as in saturated gates, and the target is within
      `FACTOR` times its noise.
    - An output is smaller than one rounding of its size on usual sets, as derivatives of saturated functions are, so
      that only some kernels keep its digits.
    """
    single = runs.source["float32"]
    if isinstance(single, Unsupported) or runs.narrowed is not None:
        return list(feeds), runs, []
    exact = reference_outputs(runs)[1]
    names = [str(v.name) for v in graph.graph.outputs]
    usual = _least_sizes([list(o.values()) for f, o in zip(feeds, exact, strict=True) if not f.uneven])
    found: dict[str, list[int]] = {}
    for place, feed in enumerate(feeds):
        if not feed.uneven:
            continue
        target = [runs.target[place].get(name, np.zeros(0)) for name in names]
        outputs = list(single[place].values()), list(exact[place].values()), target
        if why := _overflow_reason(*outputs) or _vanishing_reason(*outputs, usual):
            found.setdefault(why, []).append(place)
    rest = [place for place in range(len(feeds)) if not any(place in places for places in found.values())]
    notes = [
        Note(
            f"larger numbers are not verified: {why} on {'; '.join(feeds[i].label for i in places)}",
            code="large-unverified",
        )
        for why, places in found.items()
    ]
    return [feeds[i] for i in rest], runs_on(runs, rest), notes


def _overflow_reason(source: list[np.ndarray], exact: list[np.ndarray], target: list[np.ndarray]) -> str:
    """Return why outputs on larger numbers are not compared, or ''."""
    pairs = [(a, b, c) for a, b, c in zip(source, exact, target, strict=False) if a.dtype.kind not in "OUSbiu"]
    finite = [tuple(np.isfinite(widened_array(x)) for x in each) for each in pairs]
    if any(a.shape == b.shape and bool((~a & b).any()) for a, b, _ in finite):
        return "in its own dtypes the source overflows"
    if any(a.shape == b.shape == c.shape and bool((~a & ~b & c).any()) for a, b, c in finite):
        return "the source is infinite or NaN, and the target is not,"
    same = [(a, b, c) for a, b, c in pairs if a.dtype.kind in "fV" and a.shape == b.shape == c.shape]
    noises = [distance(a, b) for a, b, _ in same]
    if any(n > UNDECIDED for n in noises) and all(
        distance(c, b) <= FACTOR * n for n, (_, b, c) in zip(noises, same, strict=True)
    ):
        return f"rounding alone moves the source by {max(noises):.0%}"
    return ""


_ROUNDOFF = ROUNDOFF["float32"]  # unit roundoff of float32, in which kernels compute narrower numbers too
_DIGITS_LOST = 2.0**-18


def _least_sizes(outputs: list[list[np.ndarray]]) -> list[float]:
    """Return the smallest rms of each output over the sets; 0 for empty and non-floating outputs."""
    columns = zip(*outputs, strict=False)
    return [min((_size(a) for a in column if a.size), default=0.0) for column in columns]


def _size(array: np.ndarray) -> float:
    if array.dtype.kind not in "fV":
        return 0.0
    wide = widened_array(array).astype(np.float64)
    found = rms(wide[np.isfinite(wide)])
    return found if np.isfinite(found) else 0.0


def _vanishing_reason(
    source: list[np.ndarray], exact: list[np.ndarray], target: list[np.ndarray], usual: list[float]
) -> str:
    """Return why outputs that almost vanish on larger numbers are not compared, or ''.

    This is the case if source or target has lost digits of such an output, and neither error exceeds a rounding of its
    size on usual sets.
    """
    for a, b, c, size in zip(source, exact, target, usual, strict=False):
        if not size or not a.shape == b.shape == c.shape or not 0 < _size(b) <= _ROUNDOFF * size:
            continue
        off = [distance(a, b), distance(c, b)]
        if max(off) > _DIGITS_LOST and max(off) * _size(b) <= _ROUNDOFF * size:
            return "an output is smaller than a rounding of what it is on other inputs"
    return ""
