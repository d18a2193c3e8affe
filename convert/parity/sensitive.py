"""Elements that one rounding in float64 moves by more than two evaluations in float64 may differ.

The root of what cancels to 0, as on the diagonal of a matrix of distances, is 1e-8 or 0 by one rounding, and so is the
angle between a vector and itself, or NaN. Deep networks without normalization amplify a rounding layer by layer. In all
other elements a difference of 1e-9 is no rounding.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir

from convert.activity import limited_time
from convert.errors import ConvertError
from convert.graph.tensors import widened_array
from convert.parity.compare import FLOAT64_BOUND, OUTLIER, float64_error, rms
from convert.parity.inputs import Feed
from convert.parity.moves import moved_array, moved_arrays

_MOST, _MANY, _FEW = 24, 4, 0.25
"""Runs with moved results where few elements are beyond the bound, and where many are; the share that is few."""
LONGEST = 60.0
"""So many seconds may the runs take."""


def unexplained_error(graph: ir.Model, name: str, feed: Feed, exact: np.ndarray, own: np.ndarray) -> float:
    """Return the `float64_error` of an output of the graph in float64 (own) against the source's (exact).

    Elements that move when inputs and results of operators are off by a unit in the last place of float64 do not count:
    where few are beyond the bound, as far as 16 times what any of them moves; where many are, as in a deep network that
    amplifies roundings or in a difference of equal numbers, as far as 16 times what each moves itself.
    """
    error = float64_error(exact, own)
    if error <= FLOAT64_BOUND or exact.shape != own.shape or exact.dtype.kind not in "fc":
        return error
    finite = np.isfinite(exact) & np.isfinite(own)
    scale = max(rms(exact[np.isfinite(exact)]), float(np.finfo(np.float64).tiny))
    same = ~finite & ((exact == own) | (np.isnan(exact) & np.isnan(own)))
    with np.errstate(invalid="ignore"):
        errors = np.where(same, 0.0, np.where(finite, np.abs(exact - own) / scale, np.inf))
    beyond = errors > FLOAT64_BOUND
    many = np.count_nonzero(beyond) > _FEW * beyond.size
    largest, kinds = np.zeros(own.shape), np.zeros(own.shape, bool)
    try:
        with limited_time(LONGEST):
            still = _outputs(graph, feed, name, 0)
            for seed in range(1, (_MANY if many else _MOST) + 1):
                other = _outputs(graph, feed, name, seed)
                if other.shape != own.shape:
                    return error
                both = np.isfinite(still) & np.isfinite(other)
                with np.errstate(invalid="ignore"):
                    largest = np.maximum(largest, np.where(both, np.abs(still - other) / scale, 0.0))
                kinds |= ~both & ~((still == other) | (np.isnan(still) & np.isnan(other)))
                sensitive = kinds | (largest > FLOAT64_BOUND / OUTLIER)
                most = OUTLIER * (largest if many else float(largest[sensitive].max(initial=0.0)))
                rest = errors[~(beyond & sensitive & ((errors <= most) | (~np.isfinite(errors) & kinds.any())))]
                if (found := float(rest.max(initial=0.0))) <= FLOAT64_BOUND:
                    return found
    except ConvertError:
        return error
    return found


def _outputs(graph: ir.Model, feed: Feed, name: str, seed: int) -> np.ndarray:
    """The output in float64, as it is (seed 0) or with each result off by a unit in the last place."""
    from convert.passes.to_float64 import widen_model
    from convert.reference.executor import run
    from convert.reference.one_by_one import run_disturbed

    wide = widen_model(graph)
    arrays = {
        n: a if a.dtype.kind in "OUSbiuc" else widened_array(a).astype(np.float64) for n, a in feed.arrays.items()
    }
    if not seed:
        return np.asarray(run(wide, arrays, outputs=[name])[name])
    move = partial(moved_array, rng=np.random.default_rng([29, seed]))
    return np.asarray(run_disturbed(wide, moved_arrays(arrays, seed), move)[name])
