"""Find what a target's NonMaxSuppression selects from, and what it selects, among the tensors of its runs.

Tensors are found by content, without knowledge of the target's operators. This proves enough: the outputs are right if
they follow from a right selection, and if the target has right boxes and scores for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convert.parity.compare.selection import rows_problem
from convert.request.detections import CANDIDATE_NAMES, ROWS, Detections

_RELATED = 0.5
"""A tensor with a larger relative error is another value."""

_MOST = 6
"""At most this many tensors are tried as boxes, and as scores."""

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Selected:
    """The tensors of a target that are boxes and scores, with the selected rows.

    numbers: the tensors of boxes and scores, by `CANDIDATE_NAMES`. arrays: boxes, scores and rows in each run. problem:
    what is wrong with the rows, or an empty string.
    """

    numbers: tuple[tuple[str, int], ...]
    arrays: Sequence[Arrays]
    problem: str


def find_selected(exact: Sequence[Arrays], found: Sequence[Arrays], how: Detections) -> Selected | None:
    """Return tensors near to the exact boxes and scores, and rows; None if there are none.

    exact: the graph's `CANDIDATE_NAMES` in each run. found: the target's tensors by number. The nearest tensors from
    which the rows are a right selection are returned. A file in 8 bits also has scores of before they were rounded.
    If the rows fit no tensors, those of the nearest tensors have a problem.
    """
    near = [_near([run[name] for run in exact], found) for name in CANDIDATE_NAMES]
    rows = [[run[number].astype(np.int64) for run in found] for number in _rows(found)]
    first = None
    for boxes, scores in itertools.product(*(list(tensors.items()) for tensors in near)):
        for own in rows:
            runs = [
                dict(zip((*CANDIDATE_NAMES, ROWS), a, strict=True)) for a in zip(boxes[1], scores[1], own, strict=True)
            ]
            problems = (rows_problem(run[CANDIDATE_NAMES[0]], run[CANDIDATE_NAMES[1]], run[ROWS], how) for run in runs)
            numbers = tuple(zip(CANDIDATE_NAMES, (boxes[0], scores[0]), strict=True))
            selected = Selected(numbers, runs, next(filter(None, problems), ""))
            if not selected.problem:
                return selected
            first = first or selected
    return first


def _in_all(found: Sequence[Arrays]) -> list[str]:
    """Return the numbers of the tensors that every run has."""
    return sorted(set.intersection(*(set(filter(str.isdecimal, run)) for run in found)), key=int)


def _rows(found: Sequence[Arrays]) -> list[str]:
    """Return the numbers of the tensors that are integers in three columns; the last one first."""
    return [n for n in _in_all(found) if all(r[n].dtype.kind == "i" and r[n].shape[1:] == (3,) for r in found)][::-1]


def _near(exact: Sequence[np.ndarray], found: Sequence[Arrays]) -> dict[int, list[np.ndarray]]:
    """Return the tensors near to a value in all runs, by number, in its shape; the nearest comes first, and at most
    `_MOST` that differ.

    A tensor has the value's shape, but for dims of 1.
    """
    tensors: dict[int, tuple[float, list[np.ndarray]]] = {}
    for number in _in_all(found):
        arrays = [run[number] for run in found]
        if all(_dims(a) == _dims(e) and a.dtype.kind == "f" for a, e in zip(arrays, exact, strict=True)):
            arrays = [a.reshape(e.shape) for a, e in zip(arrays, exact, strict=True)]
            error = max(map(_error, arrays, exact))
            if error <= _RELATED and not any(error == e and _equal(arrays, a) for e, a in tensors.values()):
                tensors[int(number)] = error, arrays
    return {number: tensors[number][1] for number in sorted(tensors, key=lambda n: tensors[n][0])[:_MOST]}


def _equal(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
    return all(map(np.array_equal, left, right))


def _dims(array: np.ndarray) -> list[int]:
    return [size for size in array.shape if size != 1]


def _error(array: np.ndarray, exact: np.ndarray) -> float:
    """Return the rms of the error relative to that of the exact value; infinity for numbers that are not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = float(np.sum((array.astype(np.float64) - exact) ** 2))
    size = float(np.sum(exact.astype(np.float64) ** 2))
    return (apart / size) ** 0.5 if size and np.isfinite(apart) else (0.0 if apart == 0 else np.inf)
