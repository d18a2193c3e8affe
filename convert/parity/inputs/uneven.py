"""Inputs beyond the usual sizes and numbers: many rows, dims that are not alike, long ones, large and negative numbers.

Two sides that agree on a few rows, on square maps and on normal numbers may differ beyond, where kernels, branches on
sizes and saturating functions change. Small models are fed two more sets, which their source may refuse; larger ones
have such numbers among the rows of the usual sets, where they cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim
from convert.graph.tensors import widened_array
from convert.graph.values import constant_integers, known_dims, quantizes
from convert.parity.compare.distribution import is_large, is_small
from convert.parity.compare.magnitudes import rms
from convert.parity.compare.outputs import FACTOR, distance
from convert.parity.explain.rounding import UNDECIDED
from convert.parity.inputs.boundary_values import may_be_negative, uses_of_content
from convert.parity.inputs.feeds import (
    RANK,
    Feed,
    complete_sizes,
    feed_sizes,
    free_dims,
    implied_limits,
    size_facts,
    sized_feed,
    unlike_steps,
)
from convert.parity.inputs.size_guards import broken_guards, fit_sizes
from convert.parity.judge import RunOutputs, reference_outputs, without_feed

LARGE, FAR = 16, 2048
"""How much larger the numbers of some rows, and of a set, are: half of them are beyond 10 and 1,000 then."""
CHANNEL = 64
"""How many times as large as the others one channel is in a set, as channels of activations are that stand out."""
OFFSET, ROW_OFFSET = 1000, 16
"""What is added to the numbers of a set, and of a row of larger models: far from zero a variance taken as E[x²] − E[x]²
cancels. A network of many layers amplifies the rounding of 1,000, by kernels that differ, to the size of its output."""
_SIZES = ((65, 129), (9, 129), (9, 65), (9, 0))
"""Rows, and the least size of the first dim behind them: the first of these that is cheap, or else the last."""
_FEW, _LONGEST, _LONGEST_TABLE = 3, 512, 1024
"""Rows where a dim may be longer, up to a limit that is known; the most rows of a table of places."""
_PRODUCTS, _ELEMENTS = 1 << 29, 1 << 19
"""Elements of the inputs times weights, about what the convolutions of a model cost, and elements, at the most."""


def uneven_feed(model: ir.Model, seed: int, alike: bool = False, large: bool = True) -> Feed | None:
    """A feed of many rows, with no two other dims alike, the first of them past 128; the last rows hold large numbers.

    None for models that are not small, where nothing would be new, and where the graph quantizes: among many numbers,
    and among large ones, rounding takes one into another step more often than it explains. alike: what follows the rows
    is of one size. large: False where larger numbers cannot be judged.
    """
    free = free_dims(model)
    floating = any(v.dtype is not None and v.dtype.is_floating_point() for v in model.graph.inputs)
    if RANK in free or not (free or (floating and large)) or quantizes(model) or is_large(model):
        return None
    usual = list(feed_sizes(model, 3, alike))
    longest = _longest(model)
    for rows, long in (*([(_FEW, longest)] if longest > _SIZES[0][1] else []), *_SIZES):
        sizes = _uneven_sizes(model, rows, long, alike)
        if sizes is None or (sizes in usual and not (floating and large)):
            continue
        feed = sized_feed(model, seed, sizes)
        if is_small(model, feed) and ((rows, long) == _SIZES[-1] or _is_cheap(model, feed)):
            large_rows = floating and large
            return _with_large_rows(feed, _places(model)) if large_rows else replace(feed, edge=True, uneven=True)
    return None


def far_feed(model: ir.Model, seed: int) -> Feed | None:
    """A feed of the usual sizes, the second of them, with numbers in the thousands; the first channel is larger still.

    None where there are no floats, and for models of which `uneven_feed` is None.
    """
    if RANK in free_dims(model) or quantizes(model) or is_large(model):
        return None
    feed, kept = sized_feed(model, seed, list(feed_sizes(model, 2))[1]), _places(model)
    arrays = {name: array if name in kept else _times(array, FAR) for name, array in feed.arrays.items()}
    if not is_small(model, feed) or all(arrays[name] is array for name, array in feed.arrays.items()):
        return None
    label = f"{feed.label}, {FAR} times as large"
    channels = {n: a if n in kept else _with_channel(a) for n, a in arrays.items()}
    if any(channels[name] is not array for name, array in arrays.items()):
        label, arrays = f"{label}, the first channel {CHANNEL} times more", channels
    return replace(feed, label=label, arrays=arrays, edge=True, uneven=True)


def _with_channel(array: np.ndarray) -> np.ndarray:
    """Return the array with a larger first channel, along the second axis; itself where there are no channels."""
    if not _is_real(array) or array.ndim < 2 or array.shape[1] < 2:
        return array
    changed = array.copy()
    changed[:, 0] = _times(array[:, 0], CHANNEL)
    return changed


def offset_feed(model: ir.Model, seed: int) -> Feed | None:
    """A set of the usual sizes with numbers around `OFFSET`, as pixels, temperatures and times are far from zero.

    None where there are no floats, and for models of which `uneven_feed` is None.
    """
    if RANK in free_dims(model) or quantizes(model) or is_large(model):
        return None
    feed, kept = sized_feed(model, seed, next(iter(feed_sizes(model, 1)))), _places(model)
    arrays = {name: array if name in kept else _shifted(array, OFFSET) for name, array in feed.arrays.items()}
    if not is_small(model, feed) or all(arrays[name] is array for name, array in feed.arrays.items()):
        return None
    return replace(feed, label=f"{feed.label}, {OFFSET} added", arrays=arrays, edge=True, uneven=True)


def longest_feed(model: ir.Model, seed: int) -> Feed | None:
    """A feed as long as a table that the graph takes rows of by their place, such as one of positions, goes.

    An error in its last rows shows nowhere else. The dims behind the leading ones are so long, of small models; None
    where there is no such table, where another feed is as long, and where the graph quantizes. The source may refuse
    it, as where places begin at 2.
    """
    bounds, guards = size_facts(model)
    free = free_dims(model)
    inner = [name for name, leading in free.items() if not leading]
    tables = [n for n in _rows_taken_by_place(model) if _SIZES[0][1] < n <= _LONGEST_TABLE]
    if RANK in free or not inner or not tables or _longest(model) or quantizes(model):
        return None
    usual = list(feed_sizes(model, 2))[1]
    for rows in sorted(tables, reverse=True):
        most = {name: (bounds.get(name) or [1, None])[1] or rows for name in inner}
        sizes = fit_sizes({n: min(rows, most[n]) if n in inner else usual[n] for n in free}, guards, bounds)
        if not broken_guards(guards, sizes):
            feed = sized_feed(model, seed, complete_sizes(model, sizes))
            cheap = is_small(model, feed) and _is_cheap(model, feed)
            return replace(feed, edge=True, uneven=True) if cheap else None
    return None


def _rows_taken_by_place(model: ir.Model) -> set[int]:
    """Lengths along which a Slice with a computed end, or a Gather of computed places, reads what no input changes."""
    content = {id(node) for value in model.graph.inputs for node, _ in uses_of_content(value)}
    reached, pending = set(model.graph.inputs), list(model.graph.inputs)
    while pending:
        new = {v for node, _ in pending.pop().uses() for v in node.outputs} - reached
        reached |= new
        pending += new
    found: set[Dim] = set()
    for node in model.graph:
        data, shape = [*node.inputs, None][0], None
        if node.op_type in ("Gather", "Slice") and data is not None and data not in reached:
            shape = known_dims(data)
        if shape is None or not any(v in reached for v in node.inputs[1:]) or id(node) in content:
            continue
        if node.op_type == "Gather":
            found.add(shape[node.attributes.get_int("axis", 0)])
        else:
            axes = [*node.inputs, None][3]
            named = list(range(len(shape))) if axes is None else constant_integers(axes)
            found |= {shape[a] for a in named or ()}
    return {n for n in found if isinstance(n, int)}


def with_unusual_rows(model: ir.Model, feeds: Sequence[Feed], large: bool = True, negative: bool = True) -> list[Feed]:
    """The usual feeds, the last row of the third being negative, all of it where there is one row of floats.

    Models that are not small have the row before it larger and the one before that far from zero, as they are given no
    `uneven_feed` and no `offset_feed`. large: False where larger numbers cannot be judged; negative: False where
    integers are limited to those that the source takes.
    """
    whole = [str(v.name) for v in model.graph.inputs if negative and may_be_negative(v)]
    return [_unusual(model, feed, large, whole) if place % 6 == 2 else feed for place, feed in enumerate(feeds)]


def _unusual(model: ir.Model, feed: Feed, large: bool, whole: Sequence[str]) -> Feed:
    kept = _places(model)
    arrays = {n: a if n in kept else _with_row(a, -1, lambda row: -abs(row)) for n, a in feed.arrays.items()}
    arrays |= {name: _negative_integers(arrays[name], -1 - place % 2) for place, name in enumerate(whole)}
    if all(arrays[name] is array for name, array in feed.arrays.items()):
        return feed
    feed = replace(feed, label=f"{feed.label}, the last row negative", arrays=arrays)
    if not large or quantizes(model) or is_small(model, feed):
        return feed
    scaled = {n: a if n in kept else _with_row(a, -2, lambda row: _times(row, LARGE)) for n, a in arrays.items()}
    if all(scaled[name] is array for name, array in arrays.items()):
        return feed
    shifted = {
        n: a if n in kept else _with_row(a, -3, lambda row: _shifted(row, ROW_OFFSET)) for n, a in scaled.items()
    }
    more = "" if all(shifted[n] is a for n, a in scaled.items()) else f", {ROW_OFFSET} added to the one before that"
    label = f"{feed.label}, that before it {LARGE} times as large{more}"
    return replace(feed, label=label, arrays=shifted, uneven=True)


def _with_row(array: np.ndarray, place: int, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The array with another row there, along the first axis; all of it is the last row where there are no others."""
    rows = len(array) if array.ndim else 1
    if not _is_real(array) or rows < -place:
        return array
    if rows == 1:
        return change(array)
    changed = array.copy()
    changed[place] = change(array[place])
    return changed


def _places(model: ir.Model) -> set[str]:
    """The inputs of floating dtypes that become places in tables: no other numbers are for them."""
    return {str(v.name) for v in model.graph.inputs if v.dtype and v.dtype.is_floating_point() and implied_limits(v)}


def _negative_integers(array: np.ndarray, place: int) -> np.ndarray:
    """The array with a row of negative ones there; itself where there are no rows. Of two inputs the signs differ."""
    if array.ndim == 0 or len(array) < 2:
        return array
    changed = array.copy()
    changed[place] = -np.abs(array[place])
    return changed


def _is_real(array: np.ndarray) -> bool:
    return bool(array.size) and (array.dtype.kind == "f" or array.dtype.name == "bfloat16")


def _longest(model: ir.Model) -> int:
    """The longest that a dim behind the leading ones may be, 0 where that is not known or too long."""
    bounds, leading = size_facts(model)[0], free_dims(model)
    highs = [bounds[name][1] for name, first in leading.items() if not first and name in bounds]
    return max((high for high in highs if high is not None and high <= _LONGEST), default=0)


def _uneven_sizes(model: ir.Model, rows: int, long: int, alike: bool) -> dict[str, int] | None:
    """Sizes of the dynamic dims within their bounds; None where none are found that meet the guards."""
    bounds, guards = size_facts(model)
    free, first, steps = free_dims(model), next(iter(feed_sizes(model, 1))), unlike_steps(model)
    wanted = {}
    for name, leading in free.items():
        step = steps.get(name, 0)
        size = (rows if leading else first[name] + 3) + (0 if alike else step)
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


def _with_large_rows(feed: Feed, kept: Set[str]) -> Feed:
    arrays = {name: array if name in kept else _scaled_rows(array) for name, array in feed.arrays.items()}
    return replace(
        feed, label=f"{feed.label}, the last rows {LARGE} times as large", arrays=arrays, edge=True, uneven=True
    )


def _scaled_rows(array: np.ndarray) -> np.ndarray:
    """The array with a third of its rows, the last ones, larger; all of it where it has one row."""
    rows = len(array) if array.ndim else 1
    kept = rows - max(1, rows // 3)
    scaled = _times(array, LARGE)
    return scaled if not kept else np.concatenate([array[:kept], scaled[kept:]])


def _shifted(array: np.ndarray, offset: int) -> np.ndarray:
    """The array with `offset` added, itself where it holds no floats."""
    if not (_is_real(array) or array.dtype.kind == "c"):
        return array
    return (array + np.asarray(offset, array.dtype)).astype(array.dtype)


def _times(array: np.ndarray, factor: int) -> np.ndarray:
    """The array with larger numbers, itself where it holds no floats."""
    if not (_is_real(array) or array.dtype.kind == "c"):
        return array
    return (array * np.asarray(factor, array.dtype)).astype(array.dtype)


def without_overflow(
    graph: ir.Model, feeds: Sequence[Feed], runs: RunOutputs
) -> tuple[list[Feed], RunOutputs, list[str]]:
    """Feeds and outputs without the sets of larger numbers on which the source overflows or only rounds, with notes.

    What rounding alone moves by more than `MOST`, as where gates are saturated, shows nothing that the usual sets do
    not; what is further off than that is compared. What is infinite or NaN in float32 and a number in float64 has its
    place by the order of operations. Where the source has no number in float64 either and the target has, as of the
    logarithm of a softmax, there is none to compare that with. What is smaller there than a rounding of the numbers on
    usual sets, as derivatives of saturated functions are, is a matter of digits that only some kernels keep.
    """
    single = runs.source["float32"]
    if isinstance(single, Unsupported) or runs.narrowed is not None:
        return list(feeds), runs, []
    exact = reference_outputs(runs)[1]
    names = [str(v.name) for v in graph.graph.outputs]
    usual = _least_sizes([list(o.values()) for f, o in zip(feeds, exact, strict=True) if not f.uneven])
    found: dict[str, list[int]] = {}
    for place, feed in enumerate(feeds):
        if not feed.uneven:
            continue
        target = [runs.target[place].get(name, np.zeros(0)) for name in names]
        outputs = list(single[place].values()), list(exact[place].values()), target
        if why := _overflow_reason(*outputs) or _vanishing_reason(*outputs, usual):
            found.setdefault(why, []).append(place)
    over = sorted(place for places in found.values() for place in places)
    for place in reversed(over):
        runs = without_feed(runs, place)
    notes = [
        f"larger numbers are not verified: {why} on {'; '.join(feeds[i].label for i in places)}"
        for why, places in found.items()
    ]
    return [f for i, f in enumerate(feeds) if i not in over], runs, notes


def _overflow_reason(source: list[np.ndarray], exact: list[np.ndarray], target: list[np.ndarray]) -> str:
    """Why outputs on larger numbers are not compared, or nothing."""
    pairs = [(a, b, c) for a, b, c in zip(source, exact, target, strict=False) if a.dtype.kind not in "OUSbiu"]
    finite = [tuple(np.isfinite(widened_array(x)) for x in each) for each in pairs]
    if any(a.shape == b.shape and bool((~a & b).any()) for a, b, _ in finite):
        return "in its own dtypes the source overflows"
    if any(a.shape == b.shape == c.shape and bool((~a & ~b & c).any()) for a, b, c in finite):
        return "the source is infinite or NaN, and the target is not,"
    same = [(a, b, c) for a, b, c in pairs if a.dtype.kind in "fV" and a.shape == b.shape == c.shape]
    noises = [distance(a, b) for a, b, _ in same]
    if any(n > UNDECIDED for n in noises) and all(
        distance(c, b) <= FACTOR * n for n, (_, b, c) in zip(noises, same, strict=True)
    ):
        return f"rounding alone moves the source by {max(noises):.0%}"
    return ""


_ROUNDOFF = 2.0**-24  # of float32, in which kernels compute numbers that are narrower, too
_DIGITS_LOST = 2.0**-18


def _least_sizes(outputs: list[list[np.ndarray]]) -> list[float]:
    """Of each output the least root mean square that it has on some sets, 0 where it has none and is no float."""
    columns = zip(*outputs, strict=False)
    return [min((_size(a) for a in column if a.size), default=0.0) for column in columns]


def _size(array: np.ndarray) -> float:
    if array.dtype.kind not in "fV":
        return 0.0
    wide = widened_array(array).astype(np.float64)
    found = rms(wide[np.isfinite(wide)])
    return found if np.isfinite(found) else 0.0


def _vanishing_reason(
    source: list[np.ndarray], exact: list[np.ndarray], target: list[np.ndarray], usual: list[float]
) -> str:
    """Why outputs on larger numbers are not compared that have next to no size there, or nothing.

    It takes an output of which digits are lost, in source or target, and neither is off by as much as a rounding of
    what it is on usual sets.
    """
    for a, b, c, size in zip(source, exact, target, usual, strict=False):
        if not size or not a.shape == b.shape == c.shape or not 0 < _size(b) <= _ROUNDOFF * size:
            continue
        off = [distance(a, b), distance(c, b)]
        if max(off) > _DIGITS_LOST and max(off) * _size(b) <= _ROUNDOFF * size:
            return "an output is smaller than a rounding of what it is on other inputs"
    return ""
