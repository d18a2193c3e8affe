"""Generate inputs beyond the usual sizes and numbers: many rows, unequal or long dims, large and negative numbers.

Two sides that agree on a few rows, on square maps and on normal numbers may differ elsewhere, because kernels, branches
on sizes and saturating functions change there. Small models get additional sets, which their source may reject. Larger
models get such numbers in some rows of the usual sets, where they cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from convert.graph import Dim
from convert.graph.values import constant_integers, known_dims, quantizes
from convert.parity.inputs.boundary_values import may_be_negative, uses_of_content
from convert.parity.inputs.cost import is_cheap, is_large, is_small
from convert.parity.inputs.feeds import (
    RANK,
    Feed,
    feed_sizes,
    free_dims,
    implied_limits,
    possible_sizes,
    size_facts,
    sized_feed,
    unlike_steps,
)

Change = Callable[[np.ndarray], np.ndarray]
"""Returns an array with other numbers, or the same array if it has none to change."""

LARGE, FAR = 16, 2048
"""Factors for the numbers of some rows, and of a set: half of the numbers are then above 10 and 1,000."""
CHANNEL = 64
"""Factor for one channel of a set, relative to the others, like outlier channels of activations."""
OFFSET, ROW_OFFSET = 1000, 16
"""Offsets for the numbers of a set, and of a row of larger models.

Far from zero, a variance computed as E[x²] − E[x]² cancels. With an offset of 1,000 a network of many layers would
amplify rounding, which differs between kernels, to the size of its output; hence the smaller second offset.
"""
_SIZES = ((65, 129), (9, 129), (9, 65), (9, 0))
"""Rows, and the smallest size of the first dim after them: the first cheap pair is used, otherwise the last."""
_FEW, _LONGEST, _LONGEST_TABLE = 3, 512, 1024
"""Number of rows if a dim may be longer, the largest known limit of such a dim, and most rows of a position table."""


def uneven_feed(model: ir.Model, seed: int, alike: bool = False, large: bool = True) -> Feed | None:
    """Return a feed of many rows, of which the last have large numbers. All other dims differ, and the first exceeds
    128.

    Return None for models that are not small, if nothing would be new, and if the graph quantizes. Among many or
    large numbers, rounding moves some to another quantization step more often than the estimate explains. alike:
    whether the dims after the rows have one size. large: whether larger numbers can be judged.
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
        if is_small(model, feed) and ((rows, long) == _SIZES[-1] or is_cheap(model, feed)):
            feed = replace(feed, edge=True, uneven=True)
            if not (floating and large):
                return feed
            arrays = _changed(feed.arrays, _places(model), _scaled_rows) or feed.arrays
            return replace(feed, label=f"{feed.label}, the last rows {LARGE} times as large", arrays=arrays)
    return None


def far_feed(model: ir.Model, seed: int) -> Feed | None:
    """Return a feed of the second usual sizes with numbers in the thousands, and with still larger numbers in the first
    channel.

    Return None without floating inputs, and for models that are not small, that quantize, or that have inputs of
    unknown rank.
    """
    feed, kept = _beyond(model, seed, 1, lambda array: _times(array, FAR), f"{FAR} times as large"), _places(model)
    channels = None if feed is None else _changed(feed.arrays, kept, _with_channel)
    if feed is None or channels is None:
        return feed
    return replace(feed, label=f"{feed.label}, the first channel {CHANNEL} times more", arrays=channels)


def _with_channel(array: np.ndarray) -> np.ndarray:
    """Return the array with larger numbers in the first channel (second axis); unchanged if there are no channels."""
    if not _is_real(array) or array.ndim < 2 or array.shape[1] < 2:
        return array
    changed = array.copy()
    changed[:, 0] = _times(array[:, 0], CHANNEL)
    return changed


def offset_feed(model: ir.Model, seed: int) -> Feed | None:
    """Return a set of the usual sizes with numbers around `OFFSET`, like pixels, temperatures and times.

    Return None without floating inputs, and for models that are not small, that quantize, or that have inputs of
    unknown rank.
    """
    return _beyond(model, seed, 0, lambda array: _shifted(array, OFFSET), f"{OFFSET} added")


def _beyond(model: ir.Model, seed: int, index: int, change: Change, what: str) -> Feed | None:
    """Return a small feed of the usual sizes at `index` with changed floating numbers; what: the change, in the label.

    The result is None as in `far_feed`.
    """
    if RANK in free_dims(model) or quantizes(model) or is_large(model):
        return None
    feed = sized_feed(model, seed, list(feed_sizes(model, index + 1))[index])
    arrays = _changed(feed.arrays, _places(model), change)
    if arrays is None or not is_small(model, feed):
        return None
    return replace(feed, label=f"{feed.label}, {what}", arrays=arrays, edge=True, uneven=True)


def _changed(arrays: Mapping[str, np.ndarray], kept: Set[str], change: Change) -> dict[str, np.ndarray] | None:
    """Return the arrays after `change`, except for those named in `kept`; None if none is changed."""
    found = {name: array if name in kept else change(array) for name, array in arrays.items()}
    return None if all(found[name] is array for name, array in arrays.items()) else found


def longest_feed(model: ir.Model, seed: int) -> Feed | None:
    """Return a feed as long as a table whose rows the graph reads by position, such as position embeddings.

    An error in the last rows of such a table shows only at this length. The inner dims have the length of the table.
    Return None for models that are not small, without such a table, if another feed is as long, or if the graph
    quantizes. The source may reject the feed, e.g. if positions begin at 2.
    """
    free = free_dims(model)
    inner = [name for name, leading in free.items() if not leading]
    tables = [n for n in _rows_taken_by_place(model) if _SIZES[0][1] < n <= _LONGEST_TABLE]
    if RANK in free or not inner or not tables or _longest(model) or quantizes(model):
        return None
    usual = list(feed_sizes(model, 2))[1]
    for rows in sorted(tables, reverse=True):
        if sizes := possible_sizes(model, {n: rows if n in inner else usual[n] for n in free}):
            feed = sized_feed(model, seed, sizes)
            cheap = is_small(model, feed) and is_cheap(model, feed)
            return replace(feed, edge=True, uneven=True) if cheap else None
    return None


def _rows_taken_by_place(model: ir.Model) -> set[int]:
    """Return lengths of constant data that a Slice with a computed end, or a Gather of computed indices, reads."""
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
    """Return the usual feeds, with a negative last row in the third feed (all of it, if it has one row of floats).

    Models that are not small have no `uneven_feed` and `offset_feed`. Instead, their second-last row has larger
    numbers, and the row before it has numbers far from zero. large: whether larger numbers can be judged. negative:
    False if integers are limited to those that the source accepts.
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
    scaled = _changed(arrays, kept, lambda array: _with_row(array, -2, lambda row: _times(row, LARGE)))
    if scaled is None:
        return feed
    shifted = _changed(scaled, kept, lambda array: _with_row(array, -3, lambda row: _shifted(row, ROW_OFFSET)))
    more = f", {ROW_OFFSET} added to the one before that" if shifted else ""
    label = f"{feed.label}, that before it {LARGE} times as large{more}"
    return replace(feed, label=label, arrays=shifted or scaled, uneven=True)


def _with_row(array: np.ndarray, place: int, change: Change) -> np.ndarray:
    """Return the array with the row at `place` along the first axis changed; a single row counts as the last."""
    rows = len(array) if array.ndim else 1
    if not _is_real(array) or rows < -place:
        return array
    if rows == 1:
        return change(array)
    changed = array.copy()
    changed[place] = change(array[place])
    return changed


def _places(model: ir.Model) -> set[str]:
    """Return the floating inputs that become indices into tables, which must keep their numbers."""
    return {str(v.name) for v in model.graph.inputs if v.dtype and v.dtype.is_floating_point() and implied_limits(v)}


def _negative_integers(array: np.ndarray, place: int) -> np.ndarray:
    """Return the array with one row made negative; itself if there are no rows."""
    if array.ndim == 0 or len(array) < 2:
        return array
    changed = array.copy()
    changed[place] = -np.abs(array[place])
    return changed


def _is_real(array: np.ndarray) -> bool:
    return bool(array.size) and (array.dtype.kind == "f" or array.dtype.name == "bfloat16")


def _longest(model: ir.Model) -> int:
    """Return the largest upper bound of a dim after the leading ones; 0 if it is not known or too large."""
    bounds, leading = size_facts(model)[0], free_dims(model)
    highs = [bounds[name][1] for name, first in leading.items() if not first and name in bounds]
    return max((high for high in highs if high is not None and high <= _LONGEST), default=0)


def _uneven_sizes(model: ir.Model, rows: int, long: int, alike: bool) -> dict[str, int] | None:
    """Return sizes of the dynamic dims within their bounds; None if no sizes meet the guards."""
    first, steps = next(iter(feed_sizes(model, 1))), unlike_steps(model)
    wanted = {}
    for name, leading in free_dims(model).items():
        step = steps.get(name, 0)
        size = (rows if leading else first[name] + 3) + (0 if alike else step)
        wanted[name] = max(size, long) if not leading and (alike or not step) else size
    return possible_sizes(model, wanted)


def _scaled_rows(array: np.ndarray) -> np.ndarray:
    """Return the array with the last third of its rows scaled up; all of it if it has one row."""
    rows = len(array) if array.ndim else 1
    kept = rows - max(1, rows // 3)
    scaled = _times(array, LARGE)
    return scaled if not kept else np.concatenate([array[:kept], scaled[kept:]])


def _shifted(array: np.ndarray, offset: int) -> np.ndarray:
    """Return the array with `offset` added; itself if it is not floating or complex."""
    if not (_is_real(array) or array.dtype.kind == "c"):
        return array
    return (array + np.asarray(offset, array.dtype)).astype(array.dtype)


def _times(array: np.ndarray, factor: int) -> np.ndarray:
    """Return the array multiplied by `factor`; itself if it is not floating or complex."""
    if not (_is_real(array) or array.dtype.kind == "c"):
        return array
    with np.errstate(over="ignore"):  # in float16, 1,000 times a large number is infinite
        return (array * np.asarray(factor, array.dtype)).astype(array.dtype)
