"""Whether two sides draw an output from one distribution, told from many runs of each on the same inputs.

The runs are paired in the order that they were made. Where both sides draw from one distribution, the difference of
any function of a pair is symmetric about 0, whatever the distribution and however elements of one run depend on each
other; then its sum is beyond x root sums of squares with a probability of 2·exp(−x²/2) at the most (Efron 1969). Such
functions are chosen on the first runs and tested on the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import widened_array
from convert.notes import Note
from convert.parity.compare.randomness import random_outputs
from convert.parity.magnitudes import rms
from convert.runners.process import Outputs
from convert.verdict import FAIL, INCONCLUSIVE, Verdict

DRAWS = 256
"""Runs of each side."""
LEARNED = 64
"""How many of them choose what is tested."""
FALSE_ALARMS = 1e-6
"""How often an output whose two sides draw alike is called different, at the most."""
_TESTS = 4
BOUND = float(np.sqrt(2 * np.log(2 * _TESTS / FALSE_ALARMS)))
LEAST = 1e-3
"""Differences up to here, of the output's size, may be rounding, which goes one way."""


def distribution_difference(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> str:
    """How the draws of two sides differ beyond what chance explains, or nothing.

    Arrays of one shape, one for each run. Elements that are not finite in every run are left out.
    """
    ours, theirs = (
        np.stack([widened_array(a).astype(np.float64).ravel() for a in side]) for side in (sources, targets)
    )
    kept = np.isfinite(ours).all(axis=0) & np.isfinite(theirs).all(axis=0)
    ours, theirs = ours[:, kept], theirs[:, kept]
    center, other = ours[:LEARNED].mean(axis=0), theirs[:LEARNED].mean(axis=0)
    spread = (((x[:LEARNED] - center) ** 2).mean(axis=0) for x in (ours, theirs))
    size = max(rms(ours), float(np.finfo(np.float64).tiny))
    directions = {
        "mean": [_unit(center), _unit(center - other)],
        "spread": [_unit(np.ones_like(center)), _unit(np.subtract(*spread))],
    }
    for what, along in directions.items():
        for direction in along:
            a, b = (_projected(x[LEARNED:], center, direction, what) for x in (ours, theirs))
            off = a - b
            surprise = abs(off.sum()) / max(float(np.sqrt((off**2).sum())), float(np.finfo(np.float64).tiny))
            share = abs(off.mean()) / (size * np.sqrt(max(center.size, 1)))
            share = share if what == "mean" else float(np.sqrt(share / size))
            if surprise > BOUND and share > LEAST:
                return f"the {what} of {len(sources)} draws differs, by {share:.1e} of the output's size"
    return ""


def hold_draws(verdict: Verdict, graph: ir.Model, ours: Outputs, theirs: Outputs) -> None:
    """FAIL, in place, where a random output has another distribution in the target; a note where it has not.

    ours and theirs are the outputs of source and target in many runs on one set of inputs. What agrees stays
    INCONCLUSIVE: an error may be smaller than many draws show.
    """
    random = random_outputs(graph)
    for place, row in enumerate(verdict.outputs):
        if row.name not in random or row.status != INCONCLUSIVE:
            continue
        a, b = [list(o.values())[place] for o in ours], [o[row.name] for o in theirs]
        if a[0].dtype.kind in "OUS" or a[0].shape != b[0].shape:
            continue
        drawing = [who for who, runs in (("source", a), ("target", b)) if redraws(runs)]
        if len(drawing) == 1:
            verdict.notes.append(
                Note(
                    f"output {row.name!r}: in {len(a)} runs only the {drawing[0]} gives other numbers",
                    code="random-differs",
                )
            )
        if len(drawing) < 2:
            continue
        found = distribution_difference(a, b)
        if found:
            row.lower(FAIL, f"{found}, which chance does once in {1 / FALSE_ALARMS:,.0f} cases at the most")
            verdict.lower(FAIL, f"{row.name}: {row.reason}")
        else:
            verdict.notes.append(
                Note(
                    f"output {row.name!r}: {len(a)} draws of source and target have one mean and spread",
                    code="random-output",
                )
            )


def redraws(arrays: Sequence[np.ndarray]) -> bool:
    """Whether the runs of one side give different numbers, of one shape."""
    first = arrays[0]
    alike = all(a.shape == first.shape for a in arrays)
    return alike and not all(np.array_equal(a, first, equal_nan=a.dtype.kind in "fc") for a in arrays[1:9])


def _unit(direction: np.ndarray) -> np.ndarray:
    return direction / max(float(np.linalg.norm(direction)), float(np.finfo(np.float64).tiny))


def _projected(runs: np.ndarray, center: np.ndarray, direction: np.ndarray, what: str) -> np.ndarray:
    """One number for each run: along a direction, of the elements or of their squared distances from the center."""
    found: np.ndarray = (runs if what == "mean" else (runs - center) ** 2) @ direction
    return found
