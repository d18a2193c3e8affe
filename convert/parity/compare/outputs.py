"""Compare the outputs of two artefacts.

The bound is not a fixed tolerance. The source run in float64 is the reference; the source run in float32 shows how far
rounding alone moves an output. A target passes if its error is at most a small factor larger. Any larger error must be
explained, element by element, by what rounding does to the graph (`rounding.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from convert.errors import ResourceLimit
from convert.graph.tensors import ROUNDOFF, widened_array
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, SetErrors
from convert.parity.explain.picks import count_flips
from convert.parity.explain.rounding import Explained
from convert.parity.magnitudes import rms, smaller_columns, smaller_parts

# A correct target may round worse than the source: another summation order, a Winograd convolution, a fused kernel.
FACTOR = 4.0
# Least noise floor, for a source that happens to be exact: a few roundings of float32 (unit roundoff 2⁻²⁴) per output.
ROUNDINGS = 4.0
# Errors up to this pass, however exact the source is.
MIN_TOLERANCE = FACTOR * ROUNDINGS * 2.0**-24
# Bound on the target's worst element, as a multiple of the source's worst. Rounding errors have tails, and the worst
# element varies more than the mean square. Defects of single elements (borders, paddings) are far beyond this.
OUTLIER = 16.0
# Two float64 evaluations of one function differ by 2⁻⁵³ times its condition number. An operator that computes another
# function (another epsilon, the tanh approximation of Gelu) differs by far more.
FLOAT64_BOUND = 1e-9
# Source errors above this must be explained by rounding. No model of the zoo is as noisy in float32.
SUSPICIOUS = 1e-3
# Largest distance of elements that are not finite in the float64 source, relative to the source's rms.
_NEAR = 1e-3
# Without an estimate of rounding, far smaller elements may be off by roundings of the whole, with an rms up to this.
_BOUNDED = 32.0
# Errors above this many noise floors count as wrong unless an estimate of rounding explains them.
GROSS = 1000.0
# With at most this many elements, an output has no noise floor of its own.
_SCARCE = 2
# The rms error of at most this many numbers can be a quarter of that of other numbers by chance.
BY_CHANCE = 4
# Sets of inputs for which an output has at most this many numbers share their noise.
_FEW = 8
# In outputs of at least this many elements, the best half of the target is compared with the best three quarters of the
# source.
_MANY, _OF_SOURCE, _OF_TARGET = 64, 0.75, 0.5


Explain = Callable[[int, np.ndarray, np.ndarray, np.ndarray, "np.ndarray | None"], "Explained | None"]
"""Return whether rounding explains the difference of an output, or None if nothing is known about rounding.

Arguments: the index of the feed; reference, target and source of the output; a mask of its elements, or None.
"""


def compare(
    name: str,
    references: Sequence[np.ndarray],
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    explain: Explain | None = None,
    parts: bool = True,
    others: Sequence[np.ndarray] = (),
    share_noise: bool = False,
) -> OutputVerdict:
    """Judge one output over several sets of inputs; each sequence has one array per set.

    references: the source in float64. sources: the source as deployed. targets: the target as deployed. parts: whether
    elements that are far smaller than others have a bound of their own. others: references on further sets, which only
    help to tell whether the output is constant. share_noise: all sets of few numbers have one noise floor, because the
    error of a few numbers can be small by chance. It is for errors that no `explain` estimates.

    The verdict is FAIL if dtype or shape differs, or if the difference exceeds both the bound from the source's own
    error and what `explain` covers. It is INCONCLUSIVE if the output is constant, NaN everywhere, or decided by
    rounding. With `rtol` or `atol`, the bound is |target − source| ≤ atol + rtol·|source| instead.
    """
    measured, status, reason = _Measured(), PASS, ""
    shared: Sequence[float | None] = [None] * len(references)
    if share_noise:
        shared = _shared_noise(references, sources)
    for place, (reference, source, target) in enumerate(zip(references, sources, targets, strict=True)):
        known = len(measured.sets)
        if rtol is not None or atol is not None:
            reason = structure_difference(source, target) or _tolerance_failure(source, target, rtol, atol)
        else:
            reason = _judge_set(reference, source, target, measured, place, explain, parts, shared[place])
        if reason:
            status = FAIL
            break
    if status == PASS and (
        reason := vacuous_reason([*references, *others]) or _undecided_reason(references, sources, targets)
    ):
        status = INCONCLUSIVE
    row = OutputVerdict(name, status, reason, **vars(measured))
    if not measured.sets:
        return row
    failed = measured.sets[known:] if status == FAIL else []
    shown = max(failed or measured.sets, key=lambda s: (s.ratio, s.error))
    return replace(row, error=shown.error, floor=shown.floor, worst=shown.worst)


@dataclass
class _Measured:
    """Measurements of an output, added set by set; the fields are those of `OutputVerdict`."""

    sets: list[SetErrors] = field(default_factory=list)
    small_floor: float = 0.0
    rounding: float = 0.0
    undecided: str = ""


def float64_error(reference: np.ndarray, graph: np.ndarray) -> float:
    """Return the largest distance between source and graph in float64, relative to the reference's rms.

    The result is infinite if shapes, NaNs or infinities differ. Integers and booleans give 0 or infinity.
    """
    if reference.shape != graph.shape:
        return np.inf
    if reference.dtype.kind not in "fc":
        return 0.0 if np.array_equal(reference, graph) else np.inf
    if not same_nonfinite(reference, graph):
        return np.inf
    mask = np.isfinite(reference)
    if not mask.any():
        return 0.0
    scale = max(rms(reference[mask]), np.finfo(np.float64).tiny)
    return float(np.abs(graph[mask] - reference[mask]).max() / scale)


def argmax_agreement(
    references: Sequence[np.ndarray], targets: Sequence[np.ndarray], floor: float = 0.0
) -> float | None:
    """Return the share of rows (along the last axis) with the same argmax on both sides; None without rows.

    floor: the noise floor relative to the reference's rms. A different argmax counts only if the two elements differ by
    more than `FACTOR` times that in the reference. Pairs of different shapes are skipped.
    """
    pairs = [
        (r, t)
        for r, t in zip(references, targets, strict=True)
        if r.shape == t.shape and r.ndim >= 2 and r.size and r.dtype.kind == "f"
    ]
    if not pairs or pairs[0][0].shape[-1] < 2:
        return None
    counts = [count_flips(r, t, FACTOR * floor * rms(r)) for r, t in pairs]
    return 1.0 - sum(c[0] for c in counts) / sum(c[1] for c in counts)


def vacuous_reason(references: Sequence[np.ndarray]) -> str:
    """Return why agreement on this output would prove nothing, or an empty string."""
    if not any(r.size for r in references):
        return "the output is empty"
    if references[0].dtype.kind in "OUS":
        words, places = np.unique(np.concatenate([r.ravel().astype(str) for r in references]), return_inverse=True)
        ends = np.cumsum([r.size for r in references])[:-1]
        arrays = [p.reshape(r.shape) for p, r in zip(np.split(places, ends), references, strict=True)]
        first = repr(str(words[0]))
    else:
        arrays = [widened_array(np.asarray(r)) for r in references]
        first = str(next(a.ravel()[0] for a in arrays if a.size))
    flat = np.concatenate([a.ravel() for a in arrays])
    if flat.dtype.kind in "fc" and np.isnan(flat).all():
        return "the output is NaN everywhere"
    if flat.size > 1 and (flat == flat[0]).all():
        return f"the output has one value everywhere, {first}"
    if _is_independent([a if a.dtype.kind in "fc" else a.astype(np.float64) for a in arrays]):
        return "the output does not depend on the inputs"
    return ""


def _is_independent(arrays: Sequence[np.ndarray]) -> bool:
    """Return whether the arrays of several sets of inputs are equal up to a rounding, or all their rows are.

    Rows lie along the first dim whose size varies between the sets, usually the batch. Along the other varying dims,
    two sets are compared up to the smaller size, because elements may depend on their position.
    """
    first = arrays[0]
    same = [a for a in arrays if a.shape == first.shape]
    if first.size and len(same) > 1 and all(_is_alike(np.stack([first, a])) for a in same[1:]):
        return True
    alike = [a for a in arrays if a.ndim == first.ndim and a.size]
    varying = [axis for axis in range(first.ndim) if len({a.shape[axis] for a in alike}) > 1]
    if not varying:
        return False
    pairs = ((_rows(a, b, varying), _rows(b, a, varying)) for a, b in combinations(alike, 2))
    return all(_is_alike(np.concatenate(pair)) for pair in pairs)


def _rows(array: np.ndarray, other: np.ndarray, varying: Sequence[int]) -> np.ndarray:
    """Return an array with its first varying dim in front; other varying dims are cut to the sizes of `other`."""
    kept = [slice(other.shape[n] if n in varying[1:] else None) for n in range(array.ndim)]
    return np.moveaxis(array[tuple(kept)], varying[0], 0)


def _is_alike(rows: np.ndarray) -> bool:
    """Return whether all rows equal the first up to a rounding of its size, and of the size of its smaller elements."""
    rows = rows.reshape(len(rows), -1)
    first = rows[0]
    if (np.isnan(rows) != np.isnan(first)).any():
        return False
    with np.errstate(invalid="ignore"):  # infinities of the same sign subtract to NaN
        apart = np.abs(rows - first)
    if np.isinf(apart).any():
        return False

    def is_near(part: np.ndarray) -> bool:
        least = max(rms(first[part]), np.finfo(np.float64).tiny)
        return float(apart[:, part].max(initial=0.0)) <= 2.0**-24 * least

    return is_near(np.isfinite(first)) and all(map(is_near, smaller_parts(first)))


def structure_difference(source: np.ndarray, target: np.ndarray) -> str:
    if source.dtype != target.dtype:
        return f"dtype {target.dtype} where the source has {source.dtype}"
    if source.shape != target.shape:
        return f"shape {list(target.shape)} where the source has {list(source.shape)}"
    return ""


def _undecided_reason(
    references: Sequence[np.ndarray], sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
) -> str:
    shapes = [(r.shape, s.shape) for r, s in zip(references, sources, strict=True) if r.shape != s.shape]
    if not shapes:
        return _differences_of_float32(references, sources, targets)
    exact, given = shapes[0]
    return f"rounding decides how many elements there are: {list(given)} in float32, {list(exact)} in float64"


def _differences_of_float32(
    references: Sequence[np.ndarray], sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
) -> str:
    """Return how target and source differ in elements that are finite in float32 but not in float64, or ''."""
    for reference, source, target in zip(references, sources, targets, strict=True):
        if source.dtype.kind in "OUSbiu":
            continue
        exact = widened_array(reference)
        if np.isfinite(exact).all():
            continue
        given, got = widened_array(source), widened_array(target)
        single = np.isfinite(given) & np.isfinite(got) & ~np.isfinite(exact)
        if rms(got[single] - given[single]) > _NEAR * rms(given[np.isfinite(given)]):
            return f"{np.count_nonzero(single)} elements are numbers in float32 and none in float64, and differ"
    return ""


def _judge_set(
    reference: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    result: _Measured,
    place: int,
    explain: Explain | None,
    parts: bool,
    shared: float | None,
) -> str:
    """Return why the target is wrong on one set of inputs, or ''. Adds measurements and open decisions to `result`."""

    known = len(result.sets)

    def explained(why: str, part: np.ndarray | None = None) -> str:
        """Return '' if rounding explains `why`, or if that cannot be decided in time; else return the reason."""
        if explain is None or source.dtype != target.dtype or source.dtype.kind in "OUS":
            return why
        try:
            found = explain(place, reference, target, source, part)
        except ResourceLimit as error:
            if part is None and result.sets[known:] and result.sets[-1].ratio > GROSS:
                return f"{why}; whether rounding explains so much was not found out: {error.message}"
            found = Explained(undecided=f"{why}; whether rounding explains it was not found out: {error.message}")
        if found is None or found.reason:
            return why if found is None or found.reason == why else f"{why}: {found.reason}"
        result.rounding = max(result.rounding, found.share)
        result.undecided = result.undecided or found.undecided
        return ""

    if wrong := structure_difference(source, target):
        return explained(wrong)
    whole = source.dtype.kind in "OUSbiu"
    if reference.shape != source.shape and not whole:
        return ""
    for part in parts_of(reference) if parts and not whole else (None,):
        common = shared if part is None else None
        wrong = _near_source(reference, source, target, part, result, exactly=explain is not None, shared=common)
        if wrong and (why := explained(wrong, part)):
            return why
    return ""


def parts_of(reference: np.ndarray) -> list[np.ndarray | None]:
    """Return masks of the elements that share a bound: None for all, and masks of far smaller elements.

    Next to a mask of -1e9 or boxes of hundreds of pixels, an error of the smaller elements would not show.
    """
    return [None, *smaller_parts(reference), *smaller_columns(reference)]


def _near_source(
    reference: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    part: np.ndarray | None,
    result: _Measured,
    *,
    exactly: bool = True,
    shared: float | None = None,
) -> str:
    """Return why elements of the target are further from the reference than the source's error allows, or ''.

    Measurements of the whole output (without `part`) are added to `result`. Unless `exactly`, elements of a part may
    also be off by some roundings of the whole, because kernels of a softmax are exact to roundings of 1. shared: the
    least noise; if None, the noise of one or two numbers is a rounding of their dtype.
    """
    if source.dtype.kind in "OUSbiu":
        wrong = _count_wrong(reference, source, target)
        result.sets.append(SetErrors(wrong / max(source.size, 1), 0.0, 0.0))
        return f"{wrong} of {source.size} elements differ" if wrong else ""
    roundoff = ROUNDOFF.get(source.dtype.name, 2.0**-24)
    exact, given, got = widened_array(reference), widened_array(source), widened_array(target)
    if part is None and not same_nonfinite(given, got):
        counts = f"{_count_nonfinite(got)} in the target, {_count_nonfinite(given)} in the source"
        return f"NaN or infinity on one side only ({counts})"
    mask = np.isfinite(exact) & np.isfinite(got) & np.isfinite(given)
    mask = mask if part is None else mask & part
    if not mask.any():
        return ""
    whole = exact[np.isfinite(exact)]
    exact, given, got = exact[mask], given[mask], got[mask]
    scale = rms(exact)
    least = ROUNDINGS * roundoff * scale
    own, error = rms(given - exact), rms(got - exact)
    # The error of one or two numbers can be large or small by chance.
    noise = least if exact.size <= _SCARCE and shared is None else max(own, least, shared or 0.0)
    largest = max(noise, float(np.abs(given - exact).max()), ROUNDINGS * roundoff * float(np.abs(exact).max()))
    worst = float(np.abs(got - exact).max())
    unit, factor, which = scale or 1.0, FACTOR, ""
    if part is None:
        result.sets.append(SetErrors(error / unit, max(own, least) / unit, worst / unit))
    else:
        factor, which = OUTLIER, f" of {exact.size} elements that are far smaller than the others"
        slack = 0.0 if exactly else FACTOR * ROUNDINGS * roundoff * min(rms(whole), _BOUNDED)
        noise, largest = noise + slack / OUTLIER, largest + slack / OUTLIER
        result.small_floor = max(result.small_floor, own / unit)
    if error > factor * noise:
        ratio = (
            f"{error / noise:.1f} times the noise floor {noise / unit:.2e}" if noise else "where the source has none"
        )
        return f"error {error / unit:.2e}{which} is {ratio} (relative to rms)"
    if worst > OUTLIER * largest:
        return f"an element{which} is off by {worst / unit:.2e}, against {largest / unit:.2e} in the source"
    if part is None and exact.size >= _MANY and error > OUTLIER * least:  # else the better half is within it too
        return _better_half_is_off(given - exact, got - exact, least, unit)
    return ""


def _better_half_is_off(own: np.ndarray, errors: np.ndarray, least: float, unit: float) -> str:
    """Return why the smaller half of the target's errors is too large, or ''.

    If float32 takes a decision the other way, the noise floor grows and hides errors of all other elements. So errors
    are compared with those of the source without its few largest.

    own, errors: of source and target, by element. least: the smallest noise. unit: what numbers are relative to.
    """
    calm = max(_rms_of_smallest(own, _OF_SOURCE), least)
    better = _rms_of_smallest(errors, _OF_TARGET)
    if better <= OUTLIER * calm:
        return ""
    return (
        f"the better half of the elements is off by {better / unit:.2e}, against {calm / unit:.2e} in all but "
        f"the few of the source that make its noise floor {max(rms(own), least) / unit:.2e}"
    )


def _shared_noise(references: Sequence[np.ndarray], sources: Sequence[np.ndarray]) -> list[float | None]:
    """Return the least noise of each set of few numbers, from all such sets; None for other sets.

    The noise is relative to the size of a set: the rms of its reference, but at least the median of all sets, because a
    few numbers can be near 0 by chance. They can also be exact by chance. So if all sets together have at most
    `BY_CHANCE` numbers, the noise is multiplied by `OUTLIER / FACTOR`.
    """
    found = [_finite_errors(reference, source) for reference, source in zip(references, sources, strict=True)]
    few = [error.size <= _FEW for error, _ in found]
    middle = float(np.median([size for (_, size), some in zip(found, few, strict=True) if some] or [0.0]))
    sizes = [max(size, middle, np.finfo(np.float64).tiny) for _, size in found]
    relative = [error / size for (error, _), size, some in zip(found, sizes, few, strict=True) if some]
    errors = np.concatenate([*relative, np.empty(0)])
    noise = rms(errors) * (OUTLIER / FACTOR if errors.size <= BY_CHANCE else 1)
    return [noise * size if some else None for size, some in zip(sizes, few, strict=True)]


def _finite_errors(reference: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the errors of the source where both are finite, and the rms of the reference there."""
    if reference.shape != source.shape or source.dtype.kind in "OUSbiu":
        return np.empty(0), 0.0
    exact, given = widened_array(reference), widened_array(source)
    finite = np.isfinite(exact) & np.isfinite(given)
    return np.abs(given[finite] - exact[finite]), rms(exact[finite])


def typical_error(errors: np.ndarray) -> float:
    """Return the rms of errors, or twice the rms without the largest quarter if a few elements make it larger."""
    found = rms(errors)
    return min(found, 2 * _rms_of_smallest(errors, _OF_SOURCE)) if errors.size >= _MANY else found


def _rms_of_smallest(errors: np.ndarray, share: float) -> float:
    """Return the rms of the given share of the errors, the smallest ones."""
    count = int(errors.size * share)
    return rms(np.partition(np.abs(errors), count - 1)[:count])


def _count_wrong(reference: np.ndarray, source: np.ndarray, target: np.ndarray) -> int:
    """Count the integers, booleans or strings that differ from the source's.

    If the source differs between float32 and float64, either value is right. An integer may then also be off by as much
    as these two differ, or by `FACTOR` times the rms of these differences.
    """
    if source.shape != reference.shape:
        return int(np.count_nonzero(source != target))
    reference, source, target = (np.ravel(a) for a in (reference, source, target))
    wrong = source != target
    if (undecided := source != reference).any():
        allowed = target == reference
        if source.dtype.kind in "iu":
            exact, given, got = (a.astype(np.float64) for a in (reference, source, target))
            apart = np.abs(given - exact)
            allowed = np.abs(got - exact) <= np.maximum(apart, FACTOR * rms(apart[undecided]))
        wrong &= ~(undecided & allowed)
    return int(np.count_nonzero(wrong))


def _tolerance_failure(source: np.ndarray, target: np.ndarray, rtol: float | None, atol: float | None) -> str:
    if source.dtype.kind in "OUS":
        return "" if np.array_equal(source, target) else "strings differ"
    given, got = widened_array(source), widened_array(target)
    close = np.isclose(got, given, rtol=rtol or 0.0, atol=atol or 0.0, equal_nan=True)
    return "" if close.all() else f"{int((~close).sum())} of {close.size} elements are outside rtol={rtol}, atol={atol}"


def same_nonfinite(a: np.ndarray, b: np.ndarray) -> bool:
    infinite = np.isinf(a) | np.isinf(b)
    return bool(np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(a[infinite], b[infinite], equal_nan=True))


def _count_nonfinite(a: np.ndarray) -> int:
    return int(np.count_nonzero(~np.isfinite(a)))


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the rms of the difference, relative to the rms of `b`, over elements that are finite in both; inf if the
    shapes differ.
    """
    if a.shape != b.shape:
        return np.inf
    x, y = (w.astype(np.float64) if w.dtype.kind == "b" else w for w in (widened_array(a), widened_array(b)))
    mask = np.isfinite(x) & np.isfinite(y)
    return rms(x[mask] - y[mask]) / (rms(y[mask]) or 1.0)
