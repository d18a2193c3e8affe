"""Slices at computed starts, which are clamped so that the slice lies inside, and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.graph.values import constant

from ..rules import stablehlo_op, tensor_op
from ..sizes import Size, compare, number, of_dim
from ..values import NamedGraph, Tensor, shape_vector, whole
from .shape import int64

UPDATE_KEY = "convert.jax.update"
"""In the `meta` of a tensor with another one in it: the tensor, what was put in, and the `Size` of its place along the
first axis if that is known.
"""


def inside(g: Graph, start: ir.Value, size: ir.Value | int, length: int | None, x: ir.Value, axis: int) -> ir.Value:
    """Return a start (int64, any shape), clamped so that a slice of this size lies inside the axis."""
    zero = g.const(0, ir.DataType.INT64)
    if length is not None and isinstance(size, int):
        last = g.const(length - size, ir.DataType.INT64)
        known = constant(start)
        if known is not None:
            return g.const(np.clip(known.numpy(), 0, length - size))
    else:
        whole_length = g.Squeeze(g.Shape(x, start=axis, end=axis + 1), [0])
        last = g.Sub(whole_length, size if isinstance(size, ir.Value) else g.const(size, ir.DataType.INT64))
    return g.Min(g.Max(start, zero), last)


def _length(x: ir.Value, g: Graph, axis: int) -> int | None:
    dim = g.shape(x)[axis]
    return dim if isinstance(dim, int) else None


def _known_start(g: Graph, start: np.ndarray | None, length: Dim, dim: Dim) -> ir.Value | None:
    """Return a start (int64, one element) at which a slice of this length is known to fit, else None."""
    whole_length, size = of_dim(dim), of_dim(length)
    if start is None or size is None or whole_length is None or not isinstance(g, NamedGraph):
        return None
    place = start.item()
    fits = compare(place, number(0)) in (0, 1) and compare(whole_length - size, place) in (0, 1)
    return g.compute_size(place) if fits else None


@stablehlo_op("dynamic_slice")
def dynamic_slice(g, x, *starts, slice_sizes, sizes):
    """Return the slice; axes that are taken whole are left out, for any start."""
    dims = g.shape(x)
    axes = [a for a, size in enumerate(slice_sizes) if dims[a] != size]
    if not axes:
        return x
    begins = []
    for a in axes:
        known = _known_start(g, sizes[1 + a], slice_sizes[a], dims[a])
        if known is None:
            known = g.Unsqueeze(inside(g, int64(g, starts[a]), slice_sizes[a], _length(x, g, a), x, a), [0])
        begins.append(known)
    begin = g.Concat(*begins, axis=0) if len(begins) > 1 else begins[0]
    end = g.Add(begin, g.const(np.array([slice_sizes[a] for a in axes], np.int64)))
    return g.Slice(x, begin, end, axes)


@stablehlo_op("dynamic_update_slice")
def dynamic_update_slice(g, x, update, *starts, sizes):
    """Join the part before the update, the update, and the part after it along one axis. The middle part is made in the
    same way along the next axis.
    """
    axes = [a for a in range(len(starts)) if g.shape(x)[a] != g.shape(update)[a] or g.shape(x)[a] is None]
    found = _updated(g, x, update, starts, axes, sizes[2:])
    found.meta[UPDATE_KEY] = (x, update, sizes[2].item() if starts and sizes[2] is not None else None)
    return found


def _computed_length(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    length: ir.Value = g.Squeeze(g.Shape(x, start=axis, end=axis + 1), [0])
    return length


def _updated(
    g: Graph, x: ir.Value, update: ir.Value, starts: tuple[ir.Value, ...], axes: list[int], sizes: Sequence[Any]
) -> ir.Value:
    if not axes:
        return update
    axis, rest = axes[0], axes[1:]
    size = g.shape(update)[axis]
    length: ir.Value | int = (
        size if isinstance(size, int) else g.Squeeze(g.Shape(update, start=axis, end=axis + 1), [0])
    )
    begin = _known_start(g, sizes[axis], size, g.shape(x)[axis])
    if begin is None:
        begin = g.Unsqueeze(inside(g, int64(g, starts[axis]), length, _length(x, g, axis), x, axis), [0])
    end = g.Add(begin, length if isinstance(length, ir.Value) else g.const(np.array([length], np.int64)))
    before = g.Slice(x, [0], begin, [axis])
    after = g.Slice(x, end, [2**62], [axis])
    middle = _updated(g, g.Slice(x, begin, end, [axis]), update, starts, rest, sizes) if rest else update
    found = g.Concat(before, middle, after, axis=axis)
    g.facts(found, shape=g.shape(x))
    return found


@stablehlo_op("pad")
def pad(g, x, value, *, edge_padding_low, edge_padding_high, interior_padding):
    return padded(g, x, value, edge_padding_low, edge_padding_high, interior_padding)


def padded(g: Graph, x: ir.Value, value: ir.Value, low: list[int], high: list[int], interior: list[int]) -> ir.Value:
    """Return `x` with `value` inserted before, after and between its elements; negative amounts remove elements."""
    for axis, count in enumerate(interior):
        if count and g.shape(x)[axis] not in (0, 1):
            x = _spread(g, x, value, axis, count)
    rank = len(low)
    wide = [max(n, 0) for n in (*low, *high)]
    if any(wide):
        x = _pad_node(g, x, value, g.const(np.array(wide, np.int64)))
    if all(n >= 0 for n in (*low, *high)):
        return x
    axes = [a for a in range(rank) if low[a] < 0 or high[a] < 0]
    starts = [max(-low[a], 0) for a in axes]
    ends = [high[a] if high[a] < 0 else 2**62 for a in axes]
    return g.Slice(x, starts, ends, axes)


def _pad_node(g: Graph, x: ir.Value, value: ir.Value, pads: ir.Value) -> ir.Value:
    """Return a Pad. Booleans are padded as bytes, because onnxruntime 1.22 pads only some dtypes."""
    if x.dtype == ir.DataType.BOOL:
        bytes_, number = (g.Cast(v, to=ir.DataType.INT32) for v in (x, value))
        return g.Cast(g.Pad(bytes_, pads, number), to=ir.DataType.BOOL)
    return g.Pad(x, pads, value)


def _spread(g: Graph, x: ir.Value, value: ir.Value, axis: int, count: int) -> ir.Value:
    """Insert `count` elements between neighbours along an axis: pad a new axis, and flatten it into the old one."""
    dims = g.shape(x)
    length = dims[axis]
    apart = g.Unsqueeze(x, [axis + 1])
    pads = np.zeros(2 * (len(dims) + 1), np.int64)
    pads[len(dims) + 1 + axis + 1] = count
    filled = _pad_node(g, apart, value, g.const(pads))
    scale = np.ones(len(dims), np.int64)
    scale[axis] = count + 1
    vector = shape_vector(g, dims, g.Shape(x))
    flat = g.Reshape(filled, g.Mul(vector, g.const(scale)))
    g.facts(flat, shape=[*dims[:axis], length * (count + 1) if isinstance(length, int) else None, *dims[axis + 1 :]])
    return g.Slice(flat, [0], [-count], [axis])


@tensor_op("dynamic_pad")
def dynamic_pad(g, x, value, low, high, interior, *, result):
    """Return the result of `pad` for amounts in vectors, which JAX computes from sizes of dims."""
    x, value, low, high, interior = (whole(g, t) for t in (x, value, low, high, interior))
    sizes = [t.sizes.tolist() for t in (low, high, interior) if t.sizes is not None]
    if len(sizes) == 3 and all(size.number is not None for row in sizes for size in row):
        found = padded(g, x.value, value.value, *([size.number for size in row] for row in sizes))
        dims = tuple(f if d is None else d for d, f in zip(result.dims, g.shape(found), strict=True))
        return Tensor(found, dims)
    if interior.sizes is None or any(size.number != 0 for size in interior.sizes.tolist()):
        raise Unsupported("padding between elements by a number that depends on the sizes of inputs")
    found = padded_by(g, x.value, value.value, int64(g, low.value), int64(g, high.value))
    dims = tuple(
        _padded_dim(x.dims[axis], [row[axis] for row in sizes]) if dim is None and len(sizes) == 3 else dim
        for axis, dim in enumerate(result.dims)
    )
    return Tensor(g.facts(found, shape=dims), dims)


def padded_by(g: Graph, x: ir.Value, value: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """Return `x` with `value` before and after its elements, by amounts (int64, one for each axis) that are computed;
    negative amounts remove elements.
    """
    rank = g.rank(x)
    zeros = g.const(np.zeros(rank, np.int64))
    wide = _pad_node(g, x, value, g.Concat(g.Max(low, zeros), g.Max(high, zeros), axis=0))
    ends = g.Add(g.Shape(wide), g.Min(high, zeros))
    found: ir.Value = g.Slice(wide, g.Max(g.Neg(low), zeros), ends, g.const(np.arange(rank, dtype=np.int64)))
    return found


def _padded_dim(dim: Dim, added: list[Size]) -> Dim:
    size = of_dim(dim)
    return None if size is None else (size + added[0] + added[1]).dim
