"""The worst elements of an output, and the integers whose difference rounding explains: ties of scores in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph.tensors import widened_array
from convert.parity.inputs import Feed
from convert.verdict import Element

_MOST = 5

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
        for flat in np.argsort(-off, kind="stable")[:most]:
            if off[flat] > 0:
                index = tuple(int(i) for i in np.unravel_index(flat, exact.shape))
                found.append(Element(index, float(exact[index]), float(got[index]), float(off[flat]), label))
    return sorted(found, key=lambda e: -e.error)[:most]


def is_tied(
    graph: ir.Model,
    name: str,
    feeds: Sequence[Feed],
    references: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    factor: float,
) -> bool:
    """Whether every integer that differs is an index picked among scores that rounding cannot tell apart.

    Output `name` has to come from ArgMax, ArgMin or TopK. Its scores are evaluated in float64, where the one that the
    target picked may be at most `factor` times the float32 error of the graph's scores away from the right one.
    """
    picker = _picking_node(graph, name)
    if picker is None:
        return False
    scores = picker.inputs[0]
    try:
        return all(
            r.shape == t.shape and _is_near_tie(picker, *_scores(graph, scores, feed), r, t, factor)
            for feed, r, t in zip(feeds, references, targets, strict=True)
        )
    except ConvertError:
        return False


def _picking_node(graph: ir.Model, name: str) -> ir.Node | None:
    value = next((v for v in graph.graph.outputs if v.name == name), None)
    node = value.producer() if value is not None else None
    while node is not None and node.op_type in _PASSING:
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node is None or node.op_type not in ("ArgMax", "ArgMin", "TopK") or node.inputs[0] is None:
        return None
    return node


def _scores(graph: ir.Model, scores: Any, feed: Feed) -> tuple[np.ndarray, float]:
    """The scores in float64, and the root mean square of how far float32 is from them (a rounding at the least)."""
    from convert.passes.to_float64 import widen_model
    from convert.reference.executor import run

    wanted = str(scores.name)
    if scores.is_graph_input():
        exact = feed.arrays[wanted].astype(np.float64)
        return exact, 2.0**-24 * float(np.sqrt(np.mean(exact**2)))
    exact = run(widen_model(graph), feed.arrays, outputs=[wanted])[wanted]
    rounded = run(graph, feed.arrays, outputs=[wanted])[wanted]
    size = float(np.sqrt(np.mean(exact**2)))
    return exact, max(float(np.sqrt(np.mean((rounded.astype(np.float64) - exact) ** 2))), 2.0**-24 * size)


def _is_near_tie(
    picker: ir.Node, scores: np.ndarray, floor: float, reference: np.ndarray, target: np.ndarray, factor: float
) -> bool:
    axis = picker.attributes.get_int("axis", -1 if picker.op_type == "TopK" else 0)
    rows = np.moveaxis(scores, axis, -1)
    picks = reference.size // max(rows.size // rows.shape[-1], 1)
    if not picks or reference.size != rows.size // rows.shape[-1] * picks:
        return False
    moved = [_indices_by_row(a, rows, axis, picks) for a in (reference, target)]
    if any(m.min(initial=0) < 0 or m.max(initial=0) >= rows.shape[-1] for m in moved):
        return False
    flat = rows.reshape(-1, rows.shape[-1])
    right, picked = (np.take_along_axis(flat, m, axis=1) for m in moved)
    distinct = np.array([len(set(row)) == picks for row in moved[1].tolist()])
    return bool(distinct.all() and (np.abs(right - picked) <= factor * floor).all())


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
