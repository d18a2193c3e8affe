"""Test whether source and target sample an output from one distribution, by many runs of each on the same inputs.

The runs are paired in the order in which they were made. If both sides sample from one distribution, the difference of
any function of a pair is symmetric about 0. This is true for every distribution, and however the elements of one run
depend on each other. The sum of these differences then exceeds x times the root of their sum of squares with a
probability of at most 2·exp(−x²/2) (Efron 1969). The functions are chosen on the first runs and tested on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import widened_array
from convert.outcome.notes import Note
from convert.outcome.verdict import FAIL, INCONCLUSIVE, Finding, Verdict
from convert.parity.compare.randomness import random_outputs
from convert.parity.magnitudes import rms
from convert.processes.run_here import Outputs

SAMPLES = 256
"""Number of runs of each side."""
LEARNED = 64
"""Number of these runs that choose the functions to test."""
FALSE_ALARMS = 1e-6
"""Upper bound on the probability of a false alarm for an output with the same distribution on both sides."""
_TESTS = 4
BOUND = float(np.sqrt(2 * np.log(2 * _TESTS / FALSE_ALARMS)))
SYSTEMATIC_SHARE = 1e-3
"""Differences up to this share of the output's size may be systematic rounding error."""


def distribution_difference(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> str:
    """Return how the samples of two sides differ beyond chance, or ''.

    Each side has one array per run, all of one shape. Elements that are not finite in every run are left out.
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
            if surprise > BOUND and share > SYSTEMATIC_SHARE:
                return f"the {what} of {len(sources)} draws differs, by {share:.1e} of the output's size"
    return ""


def judge_distributions(verdict: Verdict, graph: ir.Model, ours: Outputs, theirs: Outputs) -> Verdict:
    """Return the verdict after comparing random outputs: FAIL if the distributions differ, else a note.

    ours, theirs: outputs of source and target in many runs on one set of inputs. Outputs that agree stay INCONCLUSIVE,
    because an error may be smaller than so many samples show.
    """
    random, rows, findings = random_outputs(graph), list(verdict.outputs), []
    for place, row in enumerate(verdict.outputs):
        if row.name not in random or row.status != INCONCLUSIVE:
            continue
        a, b = [list(o.values())[place] for o in ours], [o[row.name] for o in theirs]
        if a[0].dtype.kind in "OUS" or a[0].shape != b[0].shape:
            continue
        drawing = [who for who, runs in (("source", a), ("target", b)) if varies_between_runs(runs)]
        if len(drawing) == 1:
            text = f"output {row.name!r}: in {len(a)} runs only the {drawing[0]} gives other numbers"
            findings.append(Finding(notes=(Note(text, code="random-differs"),)))
        if len(drawing) < 2:
            continue
        found = distribution_difference(a, b)
        if found:
            reason = f"{found}, which chance does once in {1 / FALSE_ALARMS:,.0f} cases at the most"
            rows[place] = row.after(Finding(FAIL, reason))
            findings.append(Finding(FAIL, f"{row.name}: {reason}"))
        else:
            text = f"output {row.name!r}: {len(a)} draws of source and target have one mean and spread"
            findings.append(Finding(notes=(Note(text, code="random-output"),)))
    verdict = replace(verdict, outputs=rows)
    for finding in findings:
        verdict = verdict.after(finding)
    return verdict


def varies_between_runs(arrays: Sequence[np.ndarray]) -> bool:
    """Return whether the runs of one side give different numbers in one shape."""
    first = arrays[0]
    alike = all(a.shape == first.shape for a in arrays)
    return alike and not all(np.array_equal(a, first, equal_nan=a.dtype.kind in "fc") for a in arrays[1:9])


def _unit(direction: np.ndarray) -> np.ndarray:
    return direction / max(float(np.linalg.norm(direction)), float(np.finfo(np.float64).tiny))


def _projected(runs: np.ndarray, center: np.ndarray, direction: np.ndarray, what: str) -> np.ndarray:
    """Return one number per run: the elements, or their squared distances from the center, projected on a direction."""
    found: np.ndarray = (runs if what == "mean" else (runs - center) ** 2) @ direction
    return found
