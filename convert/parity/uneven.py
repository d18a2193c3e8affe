"""One set of inputs beyond the usual sizes and numbers: many rows, dims that are not alike, a long one, large numbers.

Two sides that agree on a few rows, on square maps and on normal numbers may differ beyond, where kernels, branches on
sizes and saturating functions change. Small models only are fed it, and their source may refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.tensors import widened_array
from convert.parity.distribution import is_small
from convert.parity.floors import quantizes
from convert.parity.inputs import (
    RANK,
    Feed,
    complete_sizes,
    feed_sizes,
    free_dims,
    size_facts,
    sized_feed,
    unlike_steps,
)
from convert.parity.judge import RunOutputs, reference_outputs, without_feed
from convert.parity.size_guards import broken_guards, fit_sizes

LARGE = 16
"""How much larger the numbers of the last rows are: normal ones are beyond 10 then in half of the elements."""
_SIZES = ((65, 65), (9, 65), (9, 0))
"""Rows, and the least size of the first dim behind them: the first of these that is cheap, or else the last."""
_PRODUCTS, _ELEMENTS = 1 << 29, 1 << 18
"""Elements of the inputs times weights, about what the convolutions of a model cost, and elements, at the most."""


def uneven_feed(model: ir.Model, seed: int, alike: bool = False, large: bool = True) -> Feed | None:
    """A feed of many rows, with no two other dims alike, the first of them past 64; the last rows hold large numbers.

    None for models that are not small, where nothing would be new, and where the graph quantizes: among many numbers,
    and among large ones, rounding takes one into another step more often than it explains. alike: what follows the rows
    is of one size.
    large: False where larger numbers cannot be judged.
    """
    free = free_dims(model)
    floating = any(v.dtype is not None and v.dtype.is_floating_point() for v in model.graph.inputs)
    if RANK in free or not (free or (floating and large)) or quantizes(model):
        return None
    usual = list(feed_sizes(model, 3, alike))
    for rows, long in _SIZES:
        sizes = _uneven_sizes(model, rows, long, alike)
        if sizes is None or (sizes in usual and not (floating and large)):
            continue
        feed = sized_feed(model, seed, sizes)
        if is_small(model, feed) and ((rows, long) == _SIZES[-1] or _is_cheap(model, feed)):
            return _with_large_rows(feed) if floating and large else replace(feed, edge=True, uneven=True)
    return None


def _uneven_sizes(model: ir.Model, rows: int, long: int, alike: bool) -> dict[str, int] | None:
    """Sizes of the dynamic dims within their bounds; None where none are found that meet the guards."""
    bounds, _, guards = size_facts(model)
    free, first, steps = free_dims(model), next(iter(feed_sizes(model, 1))), unlike_steps(model)
    wanted = {}
    for name, leading in free.items():
        step = steps.get(name, 0)
        size = rows if leading else first[name] + 3 + (0 if alike else step)
        if not leading and (alike or not step):
            size = max(size, long)
        low, high = (bounds.get(name) or [None, None])[:2]
        wanted[name] = max(low or 0, size if high is None else min(size, high))
    sizes = fit_sizes(wanted, guards, bounds)
    return None if broken_guards(guards, sizes) else complete_sizes(model, sizes)


def _is_cheap(model: ir.Model, feed: Feed) -> bool:
    elements = sum(a.size for a in feed.arrays.values())
    weights = sum(v.const_value.size for v in model.graph.initializers.values() if v.const_value is not None)
    return elements <= _ELEMENTS and elements * weights <= _PRODUCTS


def _with_large_rows(feed: Feed) -> Feed:
    arrays = {name: _scaled_rows(array) for name, array in feed.arrays.items()}
    return replace(
        feed, label=f"{feed.label}, the last rows {LARGE} times as large", arrays=arrays, edge=True, uneven=True
    )


def _scaled_rows(array: np.ndarray) -> np.ndarray:
    """The array with a third of its rows, the last ones, larger; all of it where it has one row."""
    if not array.size or not (array.dtype.kind in "fc" or array.dtype.name == "bfloat16"):
        return array
    rows = len(array) if array.ndim else 1
    kept = rows - max(1, rows // 3)
    scaled = (array * np.asarray(LARGE, array.dtype)).astype(array.dtype)
    return scaled if not kept else np.concatenate([array[:kept], scaled[kept:]])


def without_overflow(feeds: Sequence[Feed], runs: RunOutputs) -> tuple[list[Feed], RunOutputs, list[str]]:
    """Feeds and outputs without the uneven set where the source overflows on it, with a note.

    What is infinite or NaN in float32 and a number in float64 has its place by the order of operations.
    """
    at = next((i for i, feed in enumerate(feeds) if feed.uneven), None)
    single = runs.source["float32"]
    if at is None or isinstance(single, Unsupported) or runs.narrowed is not None:
        return list(feeds), runs, []
    exact = reference_outputs(runs)[1][at]
    if not _overflows(single[at], exact):
        return list(feeds), runs, []
    note = f"larger numbers are not verified: in its own dtypes the source overflows on {feeds[at].label}"
    return [f for i, f in enumerate(feeds) if i != at], without_feed(runs, at), [note]


def _overflows(source: Mapping[str, np.ndarray], exact: Mapping[str, np.ndarray]) -> bool:
    pairs = zip(source.values(), exact.values(), strict=False)
    kinds = [(widened_array(a), widened_array(b)) for a, b in pairs if a.dtype.kind not in "OUSbiu"]
    return any(a.shape == b.shape and bool((~np.isfinite(a) & np.isfinite(b)).any()) for a, b in kinds)
