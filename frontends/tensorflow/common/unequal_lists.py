"""Lists whose elements have different first dims: stored separately, or concatenated with their lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph

from . import shape_values
from .lazy_reshape import int64


@dataclass(frozen=True)
class TensorList:
    """A list as a value: `stacked` is [count, *element], or None if nothing was written to it.

    `element` has the dims of one element, None if its rank is unknown; `count` is an integer scalar.

    Inside a loop that writes one element per iteration, `blank` is set: `item` is the element that this iteration
    wrote, and `longer` says whether the list grows by it.

    Elements with different first dims are in `parts` if each was written at a known index (None: not written), else
    concatenated in `joined`, with their `lengths`, [count].
    """

    dtype: ir.DataType
    element: tuple[Dim, ...] | None
    count: ir.Value
    stacked: ir.Value | None = None
    blank: bool = False
    item: ir.Value | None = None
    longer: bool = False
    parts: tuple[ir.Value | None, ...] | None = None
    joined: ir.Value | None = None
    lengths: ir.Value | None = None

    @property
    def unwritten(self) -> bool:
        """Return whether nothing was written to the list outside the current loop."""
        return self.stacked is None and self.parts is None and self.joined is None


def _number(value: ir.Value) -> int | None:
    content = shape_values.content(value)
    number = None if content is None else content.item()
    return number if isinstance(number, int) else None


def write_part(g: Graph, items: TensorList, index: ir.Value, item: ir.Value) -> TensorList | None:
    """Return the list with `item` at a known index, among elements of unknown shape; None for another kind of list."""
    place, count = _number(index), _number(items.count)
    if place is None or count is None or not 0 <= place < count or not (items.unwritten or items.parts is not None):
        return None
    if items.unwritten and items.element is not None and None not in items.element:
        return None
    parts = list(items.parts or [None] * count)
    parts[place] = item
    return replace(items, parts=tuple(parts), element=_common_dims(g, parts))


def _common_dims(g: Graph, parts: Sequence[ir.Value | None]) -> tuple[Dim, ...] | None:
    """Return the dims that all written elements share; None for those that differ, or for different ranks."""
    found = [None if p.shape is None else g.shape(p) for p in parts if p is not None]
    known = [dims for dims in found if dims is not None]
    if not known or len(known) < len(found) or len({len(dims) for dims in known}) > 1:
        return None
    return tuple(d[0] if len(set(d)) == 1 else None for d in zip(*known, strict=True))


def append_part(g: Graph, items: TensorList, index: ir.Value, item: ir.Value) -> TensorList | None:
    """Return the list with `item` of unknown first dim appended, or inserted; None for another kind of list."""
    place, count = _number(index), _number(items.count)
    if place is None or count is None or place > count or not (items.parts is not None or count == 0):
        return None
    if items.parts is None and (not g.rank(item) or isinstance(g.shape(item)[0], int)):
        return None
    parts = list(items.parts or ())
    parts[place : place + 1] = [item]
    count_now = g.const(np.array(len(parts), np.int64))
    return replace(items, parts=tuple(parts), element=_common_dims(g, parts), count=count_now)


def _all_parts(g: Graph, items: TensorList) -> list[ir.Value]:
    """Return the elements; unwritten ones are zeros, which TensorFlow reads if all have the same shape.

    If the graph does not give the shape, it is that of a written element; TensorFlow reads no others.
    """
    parts = items.parts or ()
    written = [p for p in parts if p is not None]
    if len(written) == len(parts):
        return written
    element = items.element
    known = element is not None and all(isinstance(d, int) for d in element)
    if not known and not written:
        raise Unsupported("a list of elements of several shapes of which none was written")
    zeros = g.Expand(g.const(0, items.dtype), np.array(element, np.int64) if known else g.Shape(written[0]))
    return [zeros if p is None else p for p in parts]


def join_elements(g: Graph, items: TensorList) -> tuple[ir.Value, ir.Value]:
    """Return all elements concatenated, and their lengths, int64 [count]."""
    if items.joined is not None and items.lengths is not None:
        return items.joined, items.lengths
    parts = _all_parts(g, items)
    lengths = [g.Shape(p, start=0, end=1) for p in parts]
    if len(parts) == 1:
        return parts[0], lengths[0]
    return g.Concat(*parts, axis=0), g.Concat(*lengths, axis=0)


def stack_unequal(g: Graph, items: TensorList) -> ir.Value:
    """Return all elements in one tensor; TensorFlow stacks them only if they have the same shape."""
    if items.parts is not None:
        parts = [g.Unsqueeze(p, [0]) for p in _all_parts(g, items)]
        return g.Concat(*parts, axis=0) if len(parts) > 1 else parts[0]
    joined, lengths = join_elements(g, items)
    dims = g.shape(joined)
    longest = g.ReduceMax(g.Concat([0], lengths, axis=0), [0], keepdims=1)
    shape = g.Concat(g.Shape(lengths), longest, g.Shape(joined, start=1, end=len(dims)), axis=0)
    return g.facts(g.Reshape(joined, shape, allowzero=1), items.dtype, [_number(items.count), None, *dims[1:]])


def read_unequal(g: Graph, items: TensorList, index: ir.Value) -> ir.Value:
    """Return the element at `index`."""
    place = _number(index)
    if items.parts is not None and place is not None:
        part = items.parts[place]
        if part is None:
            raise Unsupported("an element of unknown shape that was not written is read")
        return part
    joined, lengths = join_elements(g, items)
    at = g.Reshape(int64(g, index), [1])
    ends = g.CumSum(lengths, g.const(np.array(0, np.int64)))
    end, length = g.Gather(ends, at, axis=0), g.Gather(lengths, at, axis=0)
    return g.facts(g.Slice(joined, g.Sub(end, length), end, [0]), items.dtype, [None, *g.shape(joined)[1:]])


# -- what a loop writes -----------------------------------------------------------------------------------------------


def is_unequal(element: Sequence[Dim] | None) -> bool:
    """Return whether the elements written by the iterations may have different lengths."""
    return element is not None and [*element[:1]] == [None]


def joined_elements(g: Graph, inside: Graph, item: ir.Value, element: Sequence[Dim]) -> ir.Value:
    """Return the loop-carried concatenation of all elements written so far in a loop's body `inside`; initially empty.

    The empty value has 0 for unknown dims, and takes those of the first element.
    """
    whole = before = inside.input("joined", inside.dtype(item), element)
    if not all(isinstance(d, int) for d in element[1:]):
        dims = inside.Shape(item, start=1, end=len(element))
        whole = inside.Reshape(before, inside.Concat(inside.Shape(before, start=0, end=1), dims, axis=0), allowzero=1)
    inside.output(inside.Concat(whole, item, axis=0), inside.unique("joined"))
    rest = [d if isinstance(d, int) else 0 for d in element[1:]]
    return g.Expand(g.const(0, inside.dtype(item)), np.array([0, *rest], np.int64))


def length_of(g: Graph, item: ir.Value) -> ir.Value:
    """Return the length of an element, an int64 scalar."""
    return g.Squeeze(g.Shape(item, start=0, end=1), [0])


def unequal_list(
    g: Graph, joined: ir.Value, lengths: ir.Value, dtype: ir.DataType, element: tuple[Dim, ...]
) -> TensorList:
    """Return the list that a loop wrote."""
    count = g.Squeeze(g.Shape(g.facts(lengths, ir.DataType.INT64, [None])), [0])
    return TensorList(dtype, element, count, joined=g.facts(joined, dtype, element), lengths=lengths)
