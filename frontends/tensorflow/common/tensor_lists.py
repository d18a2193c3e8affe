"""TensorFlow's lists of tensors during lowering: their elements stacked in one tensor, or not written yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph

from . import shape_values
from .lazy_reshape import int64
from .unequal_lists import TensorList, append_part, stack_unequal, write_part


def tensor_list_from_stacked(g: Graph, stacked: ir.Value) -> TensorList:
    """Return the list of the slices of `stacked` along its first dim."""
    dims = g.shape(stacked)
    count = g.const(np.array(dims[0], np.int64)) if isinstance(dims[0], int) else _first_dim(g, stacked)
    return TensorList(g.dtype(stacked), dims[1:], count, stacked)


def _first_dim(g: Graph, x: ir.Value) -> ir.Value:
    count = g.Squeeze(g.Shape(x, start=0, end=1), [0])
    name = g.shape(x)[0]
    if name is not None:
        shape_values.set_content(count, np.array(name, dtype=object))
    return count


def pad_to_size(g: Graph, x: ir.Value, size: ir.Value) -> ir.Value:
    """Return `x` zero-padded at the end to `size` elements."""
    wanted, dims = g.Reshape(int64(g, size), [1]), g.shape(x)
    lacking = g.Sub(wanted, g.Shape(x, start=0, end=1))
    none = np.zeros(len(dims) - 1, np.int64)
    content = shape_values.content(size)
    longer = g.Pad(x, g.Concat(np.zeros(1, np.int64), none, lacking, none, axis=0))
    return g.facts(longer, g.dtype(x), [None if content is None else content.item(), *dims[1:]])


def merge_dims(first: Sequence[Dim] | None, second: Sequence[Dim] | None) -> tuple[Dim, ...] | None:
    """Merge two statements about the same dims; the second gives names to dims that the first leaves open."""
    if first is None or second is None:
        return tuple(second) if first is None and second is not None else None if first is None else tuple(first)
    if len(first) != len(second):
        raise Unsupported(f"a list with elements of rank {len(first)} and of rank {len(second)}")
    return tuple(a if isinstance(a, int) or b is None else b for a, b in zip(first, second, strict=True))


def element_dims(shape: ir.Value) -> tuple[Dim, ...] | None:
    """Return the dims in an `element_shape`; None for -1, which says nothing."""
    content = shape_values.content(shape)
    if content is None or content.ndim == 0:
        return None
    return tuple(None if d == -1 else d for d in content.tolist())


def stack_elements(g: Graph, items: TensorList) -> ir.Value:
    """Return all elements in one tensor; those that were never written are zeros, as in TensorFlow."""
    if items.blank:
        raise Unsupported("a list that is read in the loop that writes it, one element a round")
    if items.stacked is not None:
        return items.stacked
    if items.parts is not None or items.joined is not None:
        return stack_unequal(g, items)
    nothing = shape_values.content(items.count)
    if items.element is not None and nothing is not None and nothing.item() == 0:
        dims = [d if isinstance(d, int) else 0 for d in items.element]  # without elements, any size is right
        empty = g.Expand(g.const(0, items.dtype), np.array([0, *dims], np.int64))
        return g.facts(empty, items.dtype, [0, *items.element])
    if items.element is None or None in items.element:
        raise Unsupported("a list whose elements' shape is not known before the first is written")
    parts = [g.Reshape(int64(g, items.count), [1])]
    parts += [
        g.const(np.array([d], np.int64)) if isinstance(d, int) else _named_dim_size(g, str(d)) for d in items.element
    ]
    zeros = g.Expand(g.const(0, items.dtype), g.Concat(*parts, axis=0) if len(parts) > 1 else parts[0])
    count = shape_values.content(items.count)
    return g.facts(zeros, shape=[None if count is None else count.item(), *items.element])


def write_element(g: Graph, items: TensorList, index: ir.Value, item: ir.Value) -> TensorList:
    """Return the list with `item` at `index`."""
    if not isinstance(item, ir.Value):
        raise Unsupported("a list of ragged or complex tensors")
    element = merge_dims(items.element, None if item.shape is None else g.shape(item))
    if items.blank:
        count = g.Add(int64(g, items.count), np.int64(1)) if items.longer else items.count
        return replace(items, element=element, item=item, count=count)
    parts = write_part(g, items, index, item)
    if parts is not None:
        return parts
    items = replace(items, element=element)
    at = g.Reshape(int64(g, index), [1, 1])
    new = g.ScatterND(stack_elements(g, items), at, g.Unsqueeze(item, [0]))
    return replace(items, stacked=new)


def write_growing(g: Graph, items: TensorList, index: ir.Value, item: ir.Value) -> TensorList:
    """Return the list with `item` at `index`, extended with zeros if `index` is after its end."""
    if items.blank or not isinstance(item, ir.Value):
        return write_element(g, items, index, item)
    if item.shape is None:
        raise Unsupported("a list that grows by elements of unknown rank")
    element = merge_dims(items.element, g.shape(item))
    items, before, at = replace(items, element=element), shape_values.content(items.count), shape_values.content(index)
    parts = append_part(g, items, index, item)
    if parts is not None:
        return parts
    if before is not None and at is not None and before.item() == at.item() == 0:
        return tensor_list_from_stacked(g, g.Unsqueeze(item, [0]))
    whole, dims = stack_elements(g, items), g.Shape(item)
    # A list without elements takes the dims of the first element that is written.
    whole = g.Reshape(whole, g.Concat(g.Shape(whole, start=0, end=1), dims, axis=0), allowzero=1)
    place = g.Reshape(int64(g, index), [1])
    lacking = g.Max(g.Sub(g.Add(place, [1]), g.Shape(whole, start=0, end=1)), [0])
    longer = g.Concat(whole, g.Expand(g.const(0, items.dtype), g.Concat(lacking, dims, axis=0)), axis=0)
    new = g.ScatterND(longer, g.Unsqueeze(place, [0]), g.Unsqueeze(item, [0]))
    return tensor_list_from_stacked(g, g.facts(new, items.dtype, [None, *(element or ())]))


def grow_to(g: Graph, items: TensorList, size: ir.Value) -> TensorList:
    """Return the list zero-padded at the end to at least `size` elements, [1]."""
    whole = stack_elements(g, items)
    rank, have = g.rank(whole), g.Shape(whole, start=0, end=1)
    dims = g.Concat(g.Max(g.Sub(size, have), [0]), g.Shape(whole, start=1, end=rank), axis=0)
    longer = g.Concat(whole, g.Expand(g.const(0, items.dtype), dims), axis=0)
    return tensor_list_from_stacked(g, g.facts(longer, items.dtype, [None, *g.shape(whole)[1:]]))


def _named_dim_size(g: Graph, name: str) -> ir.Value:
    """Return a named dim as a tensor of shape [1], from a model input that has it."""
    top = g
    while top.parent is not None:
        top = top.parent
    for value in top.graph.inputs:
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, ir.SymbolicDim) and dim.value == name:
                return g.Shape(value, start=axis, end=axis + 1)
    raise Unsupported("a list whose elements' shape depends on data")
