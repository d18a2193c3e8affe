"""Whether a target with narrower numbers is off in one direction: rounding has no direction, a wrong scale has one.

Four times the rounding of 4 or 8 bits hides an output that is a fifth too large. But roundings cancel in a sum over all
elements: the slope of the target over the reference, Σ t·r / Σ r², is 1 to a few ten-thousandths where rounding alone
is at work. What the same rounding does to the graph says how far from 1 it may be: by itself, and by the noise that is
left of a relative error e in a sum over n elements, e / √n. Rounded weights err alike for all samples, so n counts the
elements of one sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convert.graph.tensors import widened_array

_FACTOR = 4.0
"""How many times what rounding does to the slope is allowed, as of the noise floor."""


def wrong_scale(exact: Sequence[np.ndarray], rounded: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> str:
    """Describe how much larger or smaller an output of the target is than rounding explains, or return ''.

    exact, rounded: the output of the graph in float64 without and with the target's rounding, for each set of inputs.
    """
    reference, simulated, got = (_finite_parts(arrays, exact, rounded, targets) for arrays in (exact, rounded, targets))
    power = float(reference @ reference)
    if not power or not all(array.ndim for array in exact):
        return ""
    explained, found = float(simulated @ reference) / power, float(got @ reference) / power
    error = float(np.sqrt(np.sum((simulated - reference) ** 2) / power))
    noise = error / np.sqrt(max(1, min(array.size // max(1, len(array)) for array in exact if array.ndim)))
    if abs(found - explained) <= _FACTOR * (abs(explained - 1) + noise):
        return ""
    return (
        f"it is {found:.4f} times the source as a whole, where rounding alone makes it {explained:.4f} ± {noise:.1e}: "
        "a scale is wrong, or activations are clipped"
    )


def _finite_parts(arrays: Sequence[np.ndarray], *others: Sequence[np.ndarray]) -> np.ndarray:
    """Return the elements of all sets that are finite in each of `others`, as one vector of float64."""
    kept = []
    for array, *beside in zip(arrays, *others, strict=True):
        if any(each.shape != array.shape or each.dtype.kind in "OUSbiuc" for each in beside):
            return np.zeros(0)
        finite = np.all([np.isfinite(widened_array(each)) for each in beside], axis=0)
        kept.append(widened_array(array)[finite].astype(np.float64))
    return np.concatenate(kept) if kept else np.zeros(0)
