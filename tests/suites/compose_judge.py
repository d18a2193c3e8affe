"""Says whether outputs are what the source computes, to rounding: by the source itself, made to round in other ways.

The reference is the source in float64. What rounding may do is seen from the source in float32, and from runs in
float64 in which each step's result is moved by about a unit in the last place of float32; equal numbers are moved
alike, and whole ones not at all, so that ties stay ties. No code of the verifier has a part in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

UNIT = 2.0**-24
FACTOR, OUTLIER = 10.0, 16.0
BLIND = 3e-3  # an output whose floor is above this share of its size shows little


UNDECLARED: Mapping[str, float] = MappingProxyType({})
"""Where a backend declares no difference of ordinary numbers."""

FREE, FREE_READS = 1000, 2000
"""Seeds from here on move each element by itself: of every step, and of what the steps in `MEANS` read alone, which
leaves as they are the numbers that a step before rounds to whole ones, or chooses among equal ones."""


def seeds(runs: int) -> list[int]:
    """Of `runs` moved runs, and of free ones where rounding is given many chances."""
    count = max(24, 2 * runs if runs > 24 else 0)
    free = [*range(FREE, FREE + count), *range(FREE_READS, FREE_READS + count // 12)]
    return [*range(1, runs + 1), *(free if runs >= 12 else ())]


COPIES = {
    "Identity", "bools", "cat", "concat", "constant", "expand", "flatten", "gathered", "index", "narrow", "pad",
    "permute", "repeated", "reshape", "shuffled", "slice", "split", "squeeze", "transpose", "turned", "unsqueeze",
    "{x}.flip({a})",
}  # fmt: skip
"""Rows of the tables that compute nothing: of these, and of inputs, a free run moves no number."""

MEANS = {
    "norm", "layer_norm", "{x}.std({a}, unbiased=False, keepdim={d})", "{x}.var({a}, keepdim={d}, correction=0)",
    "{x} - {x}.mean({a}, keepdim=True)",
}  # fmt: skip
"""Rows that subtract a mean: of equal numbers nothing is left but what rounding did to it. In free runs each number
that they read is moved, whole ones and copies too."""

LESS_ONE = {
    "F.elu({x}, {p})", "F.selu({x})", "F.celu({x}, {p})",
    "Elu", "Elu alpha=0.5", "Selu", "Celu alpha=0.7",
}  # fmt: skip
"""Rows that are defined as a multiple of exp(x) - 1 below 0. Runtimes compute that as it is written, or as expm1."""


WHOLE_SUMS = {"{x}.sum()", "{x}.mean()"}
"""Rows that add all numbers. A runtime may add thousands one after the other, each time to a sum near the result, and
so rounds some sqrt(n) / 16 times as much as one that adds by pairs, as the source does: in all runs four times. A mean
that is subtracted is rounded as much in free runs."""


LESS_TANH = "F.tanhshrink({x})"
"""The row that is x - tanh(x), whose difference has the rounding of tanh(x), which is about ∛(3 · result) near 0."""

SHARES = ("F.normalize(", "torch.softmax(", "node('LpNormalization'", "node('Softmax'")
"""What divides numbers by their own norm or sum: along a dim of 1 the result is 1, to rounding, and no whole number."""


def moved(array: np.ndarray, seed: int, operator: str = "", whole: bool = False, within: float = 0.0) -> np.ndarray:
    """A float64 array, which a row gave, with each number moved by about one unit in the last place of float32; `whole`
    ones, too, where that is asked for. Negative ones are moved by up to `within`, which a backend declares of a row."""
    if within:
        array = np.where(array < 0, array + within * np.sin(array * 6911.0 + 1.3 * seed), array)
    if operator in LESS_ONE:
        rounded = array + UNIT * np.sin(array * 6911.0 + 1.3 * seed)  # of exp(x), which is nearly one
        array = np.where((array < 0) & (array > -0.5), rounded, array)
    if operator == LESS_TANH:
        array = array + 2 * UNIT * np.minimum(1.0, np.cbrt(3 * np.abs(array))) * np.sin(array * 6911.0 + 1.3 * seed)
    if seed >= FREE_READS and not whole:
        return array
    unit = UNIT * 4 if operator in WHOLE_SUMS or (whole and seed >= FREE) else UNIT
    if seed >= FREE:
        free = array * (1 + 2 * unit * np.random.default_rng(seed).uniform(-1, 1, array.shape))
        return free if whole else np.where(array == np.round(array), array, free)
    draw = np.sin(array * 7919.0 * (1 + seed % 7) + 1.7 * seed) * 43758.5453
    shift = 2 * (draw - np.floor(draw)) - 1
    by_value = array * (1 + 2 * unit * shift)
    return by_value if whole else np.where(array == np.round(array), array, by_value)


def fault(
    got: np.ndarray,
    want: np.ndarray,
    plain: np.ndarray,
    noisy: Sequence[np.ndarray],
    free: Sequence[np.ndarray] = (),
) -> str:
    """What is wrong with an output, or nothing.

    want: the source in float64; plain: in float32, whose dtype and shape count; noisy: in float64 with moved steps;
    free: with each element of what is computed moved by itself. Of floats it explains small errors only: beside the
    output, or beside 1 where that is 0 everywhere, as a norm of equal numbers is. What it changes by more was chosen
    among equal results of arithmetic, which runtimes may round by their place: an integer may be any then, and a float
    whatever lies among those of the runs. Copies stay equal.
    """
    if got.shape != plain.shape or got.dtype != plain.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {plain.dtype}{list(plain.shape)}"
    if not got.size:
        return ""
    others = [np.asarray(o) for o in (plain, *noisy)]
    if plain.dtype.kind != "f":
        settled = np.all([o == want for o in (*others, *free)], axis=0)
        wrong = int(np.count_nonzero((got != want) & settled))
        return f"{wrong} of {got.size} elements differ" if wrong else ""
    if not np.array_equal(np.isfinite(got), np.isfinite(plain)):
        return f"{np.count_nonzero(~np.isfinite(got))} numbers that are not finite"
    rms = float(np.sqrt(np.mean(np.square(want))))
    errors = [np.abs(o.astype(np.float64) - want) for o in others]
    small = [np.abs(o - want) for o in free]
    errors += [e for e in small if float(np.sqrt(np.mean(np.square(e)))) <= BLIND * (rms or 1.0)]
    error = np.abs(got.astype(np.float64) - want)
    least = 4 * UNIT * rms
    floor = max(least, *(float(np.sqrt(np.mean(np.square(e)))) for e in errors))
    largest = max(4 * least, *(float(e.max()) for e in errors))
    own = float(np.sqrt(np.mean(np.square(error))))
    if own > FACTOR * floor or float(error.max()) > OUTLIER * largest:
        if len(errors) < len(others) + len(free):
            every, slack = np.stack([*others, *free]), OUTLIER * largest
            if np.all((got >= every.min(0) - slack) & (got <= every.max(0) + slack)):
                return ""
        times = f"{own / floor:.3g} times what rounding explains" if floor else "and rounding explains none"
        return f"rms error {own:.3g}, {times}; rms {rms:.3g}, largest error {error.max():.3g}"
    return ""


def is_blind(want: np.ndarray, plain: np.ndarray, noisy: Sequence[np.ndarray]) -> bool:
    """Whether rounding alone changes an output so much that it shows little."""
    if plain.dtype.kind != "f" or not plain.size:
        return False
    rms = float(np.sqrt(np.mean(np.square(want))))
    return any(float(np.sqrt(np.mean(np.square(o - want)))) > BLIND * rms for o in (plain, *noisy))
