"""The worst elements of an output, and the integers whose difference rounding explains: ties of scores in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.differences import Difference
from convert.errors import ConvertError
from convert.graph.tensors import widened_array
from convert.parity.inputs import Feed
from convert.parity.moves import moved_arrays, run_moved
from convert.parity.tied_counts import is_of_tied_scores, picked_axis, scores_and_noise, takes_first
from convert.verdict import Element

_MOST = 5
_MOVES = 4  # by chance two numbers are rounded to one, once

# Operators that only move integers to other places or dtypes: behind them are the indices that were picked.
_PASSING = frozenset({"Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten"})


def worst_elements(
    references: Sequence[np.ndarray], targets: Sequence[np.ndarray], labels: Sequence[str], most: int = _MOST
) -> list[Element]:
    """The elements with the largest errors, the worst first; none for strings and for outputs that are equal.

    An element that is NaN or infinite on one side only comes before all others.
    """
    found: list[Element] = []
    for reference, target, label in zip(references, targets, labels, strict=True):
        kinds = {reference.dtype.kind, target.dtype.kind}
        if reference.shape != target.shape or not reference.size or kinds & set("OUSc"):
            continue
        floating = reference.dtype.kind not in "biu"
        exact, got = widened_array(reference).astype(np.float64), widened_array(target).astype(np.float64)
        finite = np.isfinite(exact) & np.isfinite(got)
        scale = float(np.sqrt(np.mean(exact[finite] ** 2))) if floating and finite.any() else 1.0
        with np.errstate(invalid="ignore"):
            off = np.abs(got - exact) / (scale or 1.0)
        same = (exact == got) | (np.isnan(exact) & np.isnan(got))
        off = np.where(same, 0.0, np.where(finite, off, np.inf)).ravel()
        for flat in _largest(off, most):
            index = tuple(int(i) for i in np.unravel_index(flat, exact.shape))
            found.append(Element(index, float(exact[index]), float(got[index]), float(off[flat]), label))
    return sorted(found, key=lambda e: -e.error)[:most]


def _largest(off: np.ndarray, most: int) -> list[int]:
    """The places of so many of the largest numbers above 0, those in front first of equal ones; without sorting all."""
    least = np.partition(off, -most)[-most] if off.size > most else 0.0
    places = np.flatnonzero((off >= least) & (off > 0))
    return [int(place) for place in places[np.argsort(-off[places], kind="stable")[:most]]]


def is_tied(
    graph: ir.Model,
    name: str,
    feeds: Sequence[Feed],
    references: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    factor: float,
    declared: Sequence[Difference] = (),
) -> bool:
    """Whether every integer that differs is an index picked among scores that rounding cannot tell apart.

    Output `name` has to come from ArgMax, ArgMin or TopK. Its scores are evaluated in float64, where the one that the
    target picked may be at most `factor` times the float32 error of scores of their magnitude away from the right one.
    Scores that are equal, and stay so however they are rounded, are no matter of rounding: of these the target has to
    pick the same, unless it is declared of a runtime that it picks another. What is computed from such indices, as
    counts are, has to lie among what the graph gives where the scores move by so much (`tied_counts.py`).
    """
    picker = _picking_node(graph, name)
    if picker is None or picker.inputs[0] is None:
        return is_of_tied_scores(graph, name, feeds, references, targets, factor, declared)
    scores = picker.inputs[0]
    ordered = takes_first(picker, declared)
    try:
        for feed, r, t in zip(feeds, references, targets, strict=True):
            if r.shape != t.shape:
                return False
            exact, noise = scores_and_noise(graph, scores, feed)
            if not _is_near_tie(picker, exact, noise, r, t, factor):
                return False
            if ordered and _picks_other_of_equal(graph, picker, exact, feed, r, t):
                return False
    except ConvertError:
        return False
    return True


def _picking_node(graph: ir.Model, name: str) -> ir.Node | None:
    value = next((v for v in graph.graph.outputs if v.name == name), None)
    node = value.producer() if value is not None else None
    while node is not None and node.op_type in _PASSING:
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node is None or node.op_type not in ("ArgMax", "ArgMin", "TopK") or node.inputs[0] is None:
        return None
    return node


def _is_near_tie(
    picker: ir.Node, scores: np.ndarray, noise: np.ndarray, reference: np.ndarray, target: np.ndarray, factor: float
) -> bool:
    """Whether what was picked is as far from what is right as the noises of the two allow, and no place picked twice.

    The noise is that of scores of their own magnitude: beside a masked one, any two others would be a tie.
    """
    picks = _picks(picker, scores, reference, target)
    if picks is None:
        return False
    flat, moved = picks
    right, picked = (np.take_along_axis(flat, m, axis=1) for m in moved)
    noises = np.moveaxis(np.broadcast_to(noise, scores.shape), picked_axis(picker), -1).reshape(flat.shape)
    allowed = factor * np.maximum(*(np.take_along_axis(noises, m, axis=1) for m in moved))
    distinct = np.array([len(set(row)) == moved[1].shape[1] for row in moved[1].tolist()])
    with np.errstate(invalid="ignore"):
        near = (right == picked) | (np.abs(right - picked) <= allowed)
    return bool(distinct.all() and near.all())


def _picks(
    picker: ir.Node, scores: np.ndarray, reference: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """The scores as rows, and the indices in each that reference and target have; None where they are no indices."""
    axis = picked_axis(picker)
    rows = np.moveaxis(scores, axis, -1)
    picks = reference.size // max(rows.size // rows.shape[-1], 1)
    if not picks or reference.size != rows.size // rows.shape[-1] * picks:
        return None
    moved = [_indices_by_row(a, rows, axis, picks) for a in (reference, target)]
    if any(m.min(initial=0) < 0 or m.max(initial=0) >= rows.shape[-1] for m in moved):
        return None
    return rows.reshape(-1, rows.shape[-1]), moved


def _picks_other_of_equal(
    graph: ir.Model, picker: ir.Node, exact: np.ndarray, feed: Feed, reference: np.ndarray, target: np.ndarray
) -> bool:
    """Whether the target has another index than the reference where the scores of both are equal for certain.

    They are where they are equal in float64 and in float32, and are not rounded at all (inputs, zeros, whole numbers),
    or stay equal where inputs and weights move by a unit in the last place, as copies of one number do. Others that are
    equal may be rounded otherwise by kernels, which take the end of a row in another way.
    """
    from convert.reference.executor import run

    picks, value = _picks(picker, exact, reference, target), picker.inputs[0]
    if picks is None or value is None:
        return False
    places = picks[1]

    def chosen(scores: np.ndarray) -> list[np.ndarray]:
        rows = np.moveaxis(scores, picked_axis(picker), -1)
        return [np.take_along_axis(rows.reshape(picks[0].shape), m, axis=1) for m in places]

    right, picked = chosen(exact)
    equal = (places[0] != places[1]) & (right == picked)
    if not equal.any() or value.is_graph_input():
        return bool(equal.any())
    names = [str(value.name)]
    single = chosen(widened_array(run(graph, feed.arrays, outputs=names)[names[0]]))
    equal &= single[0] == single[1]
    if not equal.any() or (equal & (single[0] == right)).any():
        return bool(equal.any())
    for seed in range(_MOVES):
        near = Feed(feed.label, moved_arrays(feed.arrays, seed))
        (moved,) = run_moved(graph, [near], outputs=names, seed=seed)
        there = chosen(widened_array(moved[names[0]]))
        equal &= there[0] == there[1]
    return bool(equal.any())


def _indices_by_row(indices: np.ndarray, rows: np.ndarray, axis: int, picks: int) -> np.ndarray:
    """Indices with one row for each row of scores, whether the picker kept its axis or not."""
    if indices.ndim == rows.ndim:
        indices = np.moveaxis(indices, axis, -1)
    return indices.reshape(-1, picks).astype(np.int64)


def count_flips(reference: np.ndarray, target: np.ndarray, noise: float) -> tuple[int, int]:
    """Rows (along the last axis) whose largest element changed its place, and rows in all.

    A row counts only where the float64 reference tells the two elements apart by more than `noise`, an absolute
    distance: below that either is the largest.
    """
    exact, got = widened_array(reference).astype(np.float64), widened_array(target).astype(np.float64)
    first, other = exact.argmax(-1), got.argmax(-1)
    margin = np.take_along_axis(exact, first[..., None], -1) - np.take_along_axis(exact, other[..., None], -1)
    return int(np.count_nonzero(margin > noise)), int(first.size)
