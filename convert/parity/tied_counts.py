"""Integers that are computed from the places of picked scores, such as how many tokens each expert gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from convert.activity import limited_time
from convert.differences import Difference
from convert.errors import ConvertError
from convert.graph.tensors import numpy_dtype, widened_array
from convert.parity.flipped_steps import LONGEST, is_among
from convert.parity.inputs import Feed
from convert.parity.magnitudes import noise_beside

_RUNS = 32


def scores_and_noise(graph: ir.Model, scores: ir.Value, feed: Feed) -> tuple[np.ndarray, np.ndarray]:
    """A value of the graph in float64, and how far float32 is from it (`noise_beside`)."""
    from convert.passes.to_float64 import widen_model
    from convert.reference.executor import run

    wanted = str(scores.name)
    if scores.is_graph_input():
        exact = widened_array(feed.arrays[wanted]).astype(np.float64)
        return exact, noise_beside(exact, exact)
    exact = run(widen_model(graph), feed.arrays, outputs=[wanted])[wanted]
    rounded = run(graph, feed.arrays, outputs=[wanted])[wanted]
    return exact, noise_beside(exact, rounded)


def picked_axis(picker: ir.Node) -> int:
    """The axis along which an ArgMax, ArgMin or TopK picks."""
    return picker.attributes.get_int("axis", -1 if picker.op_type == "TopK" else 0)


def is_of_tied_scores(
    graph: ir.Model,
    name: str,
    feeds: Sequence[Feed],
    references: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    factor: float,
    declared: Sequence[Difference] = (),
) -> bool:
    """Whether all integers that differ lie among what the graph gives where scores move as far as rounding may.

    The scores of each ArgMax, ArgMin and TopK before the output are moved by `factor` times their noise at the most, by
    chance, and towards the first and the last place. Scores that are equal in float64 stay so, and the first is picked,
    unless it is declared of a runtime that it picks another. Graphs that pick nothing are not run, nor any for a factor
    of 0.
    """
    pickers = _pickers(graph, name) if factor else []
    if not pickers or any(r.shape != t.shape for r, t in zip(references, targets, strict=True)):
        return False
    try:
        with limited_time(LONGEST):
            return all(
                is_among(
                    _runs(graph, name, feed, pickers, factor, declared),
                    widened_array(reference),
                    widened_array(target),
                )
                for feed, reference, target in zip(feeds, references, targets, strict=True)
                if (reference != target).any()
            )
    except ConvertError:
        return False


def _pickers(graph: ir.Model, name: str) -> list[ir.Node]:
    """The nodes of the outermost graph that pick among floating scores and that an output depends on."""
    pending = [v for v in graph.graph.outputs if v.name == name]
    seen, found = set(pending), []
    while pending:
        node = pending.pop().producer()
        if node is None:
            continue
        scores = node.inputs[0] if node.inputs else None
        floating = scores is not None and scores.dtype is not None and scores.dtype.is_floating_point()
        if node.op_type in ("ArgMax", "ArgMin", "TopK") and floating and node not in found:
            found.append(node)
        fresh = [v for v in node.inputs if v is not None and v not in seen]
        seen.update(fresh)
        pending += fresh
    return found


def takes_first(picker: ir.Node, declared: Sequence[Difference]) -> bool:
    """Whether of equal scores the first has to be picked, which some runtimes are declared not to do."""
    return bool(picker.attributes.get_int("sorted", 1)) and not any(d.equal and d.of(picker) for d in declared)


def _runs(
    graph: ir.Model,
    name: str,
    feed: Feed,
    pickers: Sequence[ir.Node],
    factor: float,
    declared: Sequence[Difference],
) -> list[np.ndarray]:
    from convert.reference.executor import run
    from convert.reference.replaced import run_replaced

    scores = {picker.inputs[0]: picker for picker in pickers}
    exact = {value: scores_and_noise(graph, value, feed) for value in scores if value is not None}
    found = [run(graph, feed.arrays, outputs=[name])[name]]
    for move in _moves():
        moved = {}
        for value, (numbers, noise) in exact.items():
            axis, rows = picked_axis(scores[value]), np.moveaxis(numbers, picked_axis(scores[value]), -1)
            moves = move(rows.shape)
            moves = _alike_where_equal(moves, rows) if takes_first(scores[value], declared) else moves
            there = numbers + factor * noise * np.moveaxis(moves, -1, axis)
            moved[str(value.name)] = there.astype(numpy_dtype(value.dtype or ir.DataType.FLOAT))
        found.append(run_replaced(graph, feed.arrays, moved)[name])
    return found


def _alike_where_equal(moves: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The moves, where elements of a row that are equal have that of the first of them."""
    order = np.argsort(rows, axis=-1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=-1)
    begins = np.concatenate([np.ones_like(ordered[..., :1], bool), ordered[..., 1:] != ordered[..., :-1]], axis=-1)
    firsts = np.maximum.accumulate(np.where(begins, np.arange(rows.shape[-1]), 0), axis=-1)
    alike = np.empty(rows.shape)
    np.put_along_axis(alike, order, np.take_along_axis(np.take_along_axis(moves, order, -1), firsts, -1), -1)
    return alike


def _moves() -> Iterator[Callable[[tuple[int, ...]], np.ndarray]]:
    """Functions of a shape whose last axis is picked from: numbers between -1 and 1 for each element."""
    yield from (partial(_falling, sign) for sign in (1, -1))
    yield from (partial(_drawn, seed) for seed in range(_RUNS))


def _falling(sign: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.linspace(sign, -sign, shape[-1]), shape)


def _drawn(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng([37, seed]).uniform(-1, 1, shape)
