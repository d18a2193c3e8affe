"""Judge whether outputs are what the source computes, up to rounding errors that are measured on the source itself.

The reference is the source in float64. The rounding error is estimated from the source in float32, and from runs in
float64 in which each step's result is perturbed by about one unit in the last place of float32. Equal numbers get equal
perturbations and whole numbers none, so that ties stay ties. The judge shares no code with the verifier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

UNIT = 2.0**-24
FACTOR, OUTLIER = 10.0, 16.0
BLIND = 3e-3  # an output with a larger relative noise floor proves little


UNDECLARED: Mapping[str, float] = MappingProxyType({})
"""The differences of backends that declare none for ordinary numbers."""

FREE, FREE_READS = 1000, 2000
"""Seeds from here on perturb each element independently.

Below the second number this is done after every step; from it on only for the inputs of steps in `MEANS`, so that
numbers which an earlier step rounds or picks among ties stay as they are.
"""


def seeds(runs: int) -> list[int]:
    """Return the seeds of `runs` perturbed runs, and those of independently perturbed ones if there are many runs."""
    count = max(24, 2 * runs if runs > 24 else 0)
    free = [*range(FREE, FREE + count), *range(FREE_READS, FREE_READS + count // 12)]
    return [*range(1, runs + 1), *(free if runs >= 12 else ())]


COPIES = {
    "Identity", "bools", "cat", "concat", "constant", "expand", "flatten", "gathered", "index", "narrow", "pad",
    "permute", "repeated", "reshape", "shuffled", "slice", "split", "squeeze", "transpose", "turned", "unsqueeze",
    "{x}.flip({a})",
}  # fmt: skip
"""Rows of the tables that compute nothing. Independent perturbation does not change their inputs and results."""

MEANS = {
    "norm", "layer_norm", "{x}.std({a}, unbiased=False, keepdim={d})", "{x}.var({a}, keepdim={d}, correction=0)",
    "{x} - {x}.mean({a}, keepdim=True)",
}  # fmt: skip
"""Rows that subtract a mean, which leaves only rounding errors of equal numbers.

Independent perturbation changes every number that they read, whole ones and copies too.
"""

LESS_ONE = {
    "F.elu({x}, {p})", "F.selu({x})", "F.celu({x}, {p})",
    "Elu", "Elu alpha=0.5", "Selu", "Celu alpha=0.7",
}  # fmt: skip
"""Rows that are a multiple of exp(x) - 1 below 0. Runtimes compute it literally, or with expm1."""


WHOLE_SUMS = {"{x}.sum()", "{x}.mean()"}
"""Rows that add all numbers.

A runtime that adds thousands of numbers sequentially has about sqrt(n) / 16 times the rounding error of pairwise
summation, which the source uses. So all runs are perturbed four times as much. A subtracted mean is perturbed as much
in independent runs.
"""


LESS_TANH = "F.tanhshrink({x})"
"""The row x - tanh(x). Near 0 it has the rounding error of tanh(x), which is about ∛(3 · result)."""

SHARES = ("F.normalize(", "torch.softmax(", "node('LpNormalization'", "node('Softmax'")
"""Rows that divide numbers by their own norm or sum. Along a dim of 1 the result is 1 up to rounding, and not exact."""


def moved(array: np.ndarray, seed: int, operator: str = "", whole: bool = False, within: float = 0.0) -> np.ndarray:
    """Return a float64 result of a row, with numbers perturbed by about one unit in the last place of float32.

    Whole numbers are perturbed only with `whole`. Negative numbers are perturbed by up to `within`, which a backend
    declares for a row.
    """
    if within:
        array = np.where(array < 0, array + within * np.sin(array * 6911.0 + 1.3 * seed), array)
    if operator in LESS_ONE:
        rounded = array + UNIT * np.sin(array * 6911.0 + 1.3 * seed)  # the rounding of exp(x), which is close to 1
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
    """Return the error of an output, or "".

    want: the source in float64. plain: the source in float32, whose dtype and shape must be equal. noisy: the source in
    float64 with perturbed steps. free: the same with each computed element perturbed independently.

    For floats, `free` explains small errors only: relative to the output, or to 1 if the output is 0 everywhere, such
    as a norm of equal numbers. A larger change in `free` means that a value was chosen among ties, which runtimes may
    round differently by position. Then an integer may have any value, and a float any value between those of the runs.
    Copies stay equal.
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
    """Return whether rounding alone changes an output so much that it proves little."""
    if plain.dtype.kind != "f" or not plain.size:
        return False
    rms = float(np.sqrt(np.mean(np.square(want))))
    return any(float(np.sqrt(np.mean(np.square(o - want)))) > BLIND * rms for o in (plain, *noisy))
