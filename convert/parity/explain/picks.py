"""Decide whether rounding explains indices that ArgMax, ArgMin or TopK picked; find the worst elements of an output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.tensors import widened_array
from convert.outcome.verdict import Element
from convert.parity.explain.rounding import Estimates, largest_moves
from convert.parity.magnitudes import rms
from convert.runtimes.differences import Difference

_MOST = 5

# Operators that only move or cast integers: the indices before them are the ones that were picked.
_PASSING = frozenset({"Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten"})


def worst_elements(
    references: Sequence[np.ndarray], targets: Sequence[np.ndarray], labels: Sequence[str], most: int = _MOST
) -> list[Element]:
    """Return the elements with the largest errors, the worst first; [] for strings and for equal outputs.

    Elements that are NaN or infinite on one side only come first.
    """
    found: list[Element] = []
    for reference, target, label in zip(references, targets, labels, strict=True):
        kinds = {reference.dtype.kind, target.dtype.kind}
        if reference.shape != target.shape or not reference.size or kinds & set("OUSc"):
            continue
        floating = reference.dtype.kind not in "biu"
        exact, got = widened_array(reference).astype(np.float64), widened_array(target).astype(np.float64)
        finite = np.isfinite(exact) & np.isfinite(got)
        scale = rms(exact[finite]) if floating and finite.any() else 1.0
        with np.errstate(invalid="ignore"):
            off = np.abs(got - exact) / (scale or 1.0)
        same = (exact == got) | (np.isnan(exact) & np.isnan(got))
        off = np.where(same, 0.0, np.where(finite, off, np.inf)).ravel()
        for flat in _largest(off, most):
            index = tuple(int(i) for i in np.unravel_index(flat, exact.shape))
            found.append(Element(index, float(exact[index]), float(got[index]), float(off[flat]), label))
    return sorted(found, key=lambda e: -e.error)[:most]


def _largest(off: np.ndarray, most: int) -> list[int]:
    """Return the indices of the `most` largest numbers above 0, stable for equal ones, without sorting all of them."""
    least = np.partition(off, -most)[-most] if off.size > most else 0.0
    places = np.flatnonzero((off >= least) & (off > 0))
    return [int(place) for place in places[np.argsort(-off[places], kind="stable")[:most]]]


def picks_explained(
    estimates: Estimates,
    place: int,
    output: ir.Value,
    reference: np.ndarray,
    target: np.ndarray,
    declared: Sequence[Difference] = (),
    roundoff: float | None = None,
) -> bool:
    """Return whether every index that differs was picked among scores that rounding cannot separate.

    The output must come from ArgMax, ArgMin or TopK. Some scores are equal however they are rounded, because they are
    copies of one number or are not rounded at all. Among these, the target must pick the same index, unless a runtime
    is declared to pick another. Raises like `Estimates.drawn`.
    """
    picker = picking_node(output)
    if picker is None or picker.inputs[0] is None or reference.shape != target.shape:
        return False
    drawn = estimates.drawn_value(place, str(picker.inputs[0].name), roundoff)
    if drawn is None or drawn.changes_shape:
        return False
    picks = _picks(picker, widened_array(drawn.exact).astype(np.float64), reference, target)
    if picks is None:
        return False
    rows, (right, picked) = picks
    margin = _margins(rows, right, picked)
    axis = picked_axis(picker)
    moved = [
        _margins(np.moveaxis(widened_array(run).astype(np.float64), axis, -1).reshape(rows.shape), right, picked)
        for run in drawn.runs
    ]
    most = largest_moves(np.stack(moved) - margin)
    near = (right == picked) | (np.abs(margin) <= most)
    if takes_first(picker, declared):
        near &= (right == picked) | (margin != 0) | (most > 0)
    distinct = all(len(set(row)) == picked.shape[1] for row in picked.tolist())
    return bool(distinct and near.all())


def _margins(rows: np.ndarray, right: np.ndarray, picked: np.ndarray) -> np.ndarray:
    return np.take_along_axis(rows, right, axis=1) - np.take_along_axis(rows, picked, axis=1)


def picked_axis(picker: ir.Node) -> int:
    """Return the axis along which an ArgMax, ArgMin or TopK picks."""
    return picker.attributes.get_int("axis", -1 if picker.op_type == "TopK" else 0)


def takes_first(picker: ir.Node, declared: Sequence[Difference]) -> bool:
    """Return whether the first of equal scores must be picked; runtimes may be declared to pick another."""
    return bool(picker.attributes.get_int("sorted", 1)) and not any(d.equal and d.of(picker) for d in declared)


def suppression_before(output: ir.Value) -> ir.Node | None:
    """Return a NonMaxSuppression of the outermost graph that an output depends on, or None."""
    waiting, seen = [output], set[ir.Node]()
    while waiting:
        node = waiting.pop().producer()
        if node is None or node in seen:
            continue
        if node.op_type == "NonMaxSuppression" and not node.domain:
            return node
        seen.add(node)
        waiting += [v for v in node.inputs if v is not None]
    return None


def picking_node(output: ir.Value) -> ir.Node | None:
    """Return the ArgMax, ArgMin or TopK whose indices an output consists of, or None."""
    node = output.producer()
    while node is not None and node.op_type in _PASSING:
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node is None or node.op_type not in ("ArgMax", "ArgMin", "TopK") or node.inputs[0] is None:
        return None
    return node


def _picks(
    picker: ir.Node, scores: np.ndarray, reference: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Return the scores as rows, and each row's indices in reference and target; None if these are not indices."""
    axis = picked_axis(picker)
    rows = np.moveaxis(scores, axis, -1)
    picks = reference.size // max(rows.size // rows.shape[-1], 1)
    if not picks or reference.size != rows.size // rows.shape[-1] * picks:
        return None
    moved = [_indices_by_row(a, rows, axis, picks) for a in (reference, target)]
    if any(m.min(initial=0) < 0 or m.max(initial=0) >= rows.shape[-1] for m in moved):
        return None
    return rows.reshape(-1, rows.shape[-1]), moved


def _indices_by_row(indices: np.ndarray, rows: np.ndarray, axis: int, picks: int) -> np.ndarray:
    """Return indices with one row for each row of scores, whether or not the picker kept its axis."""
    if indices.ndim == rows.ndim:
        indices = np.moveaxis(indices, axis, -1)
    return indices.reshape(-1, picks).astype(np.int64)


def count_flips(reference: np.ndarray, target: np.ndarray, noise: float) -> tuple[int, int]:
    """Return the number of rows (along the last axis) with another argmax in the target, and the number of all rows.

    A row counts as changed only if the float64 reference separates the two elements by more than `noise`, an absolute
    distance. Below that, either may be the largest.
    """
    exact, got = widened_array(reference).astype(np.float64), widened_array(target).astype(np.float64)
    first, other = exact.argmax(-1), got.argmax(-1)
    margin = np.take_along_axis(exact, first[..., None], -1) - np.take_along_axis(exact, other[..., None], -1)
    return int(np.count_nonzero(margin > noise)), int(first.size)
