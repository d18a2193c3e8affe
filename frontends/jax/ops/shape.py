"""Shapes: broadcasts, which are not written until an operator needs them, reshapes, and operators that move
elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.graph.values import constant, constant_integers, known_dims
from convert.numerics.bits import bitcast

from ..rules import stablehlo_op, tensor_op
from ..sizes import Size, number, of_dim
from ..types import FLOATS, FOUR_BITS
from ..values import NamedGraph, Pair, Tensor, shape_vector, whole


def int64(g: Graph, value: ir.Value) -> ir.Value:
    """Return an integer value as int64."""
    return value if value.dtype == ir.DataType.INT64 else g.Cast(value, to=ir.DataType.INT64)


def dims_of_sizes(sizes: np.ndarray | None, known: tuple[int | None, ...]) -> tuple[Dim, ...]:
    """Return the dims in a shape operand; if its content is unknown, those of the result's type."""
    if sizes is None or len(sizes) != len(known):
        return known
    return tuple(s.dim if d is None else d for s, d in zip(sizes.tolist(), known, strict=True))


@tensor_op("broadcast_in_dim")
def broadcast_in_dim(g, x, *, broadcast_dimensions, result):
    return broadcast(g, x, broadcast_dimensions, result.dims, None)


@tensor_op("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(
    g, x, shape, *, broadcast_dimensions, result, known_expanding_dimensions=None, known_nonexpanding_dimensions=None
):
    dims = dims_of_sizes(shape.sizes, result.dims)
    computed = None if all(isinstance(d, int) for d in dims) else int64(g, whole(g, shape).value)
    return broadcast(g, x, broadcast_dimensions, dims, computed)


def broadcast(g: Graph, x: Tensor, axes: list[int], dims: tuple[Dim, ...], computed: ir.Value | None) -> Tensor:
    """Return `x` with its axes as `axes` of a value of shape `dims`; missing axes and axes of size 1 are broadcast."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    if order != list(range(len(axes))):
        moved = g.Transpose(whole(g, x).value, perm=order)
        x = Tensor(moved, tuple(x.dims[i] for i in order))
        axes = [axes[i] for i in order]
    stretched = {axis for axis in range(len(dims)) if axis not in axes and dims[axis] != 1}
    for i, axis in enumerate(axes):
        same = x.dims[i] == dims[axis] and x.dims[i] is not None
        if i in x.stretched or not (same or (isinstance(x.dims[i], int) and x.dims[i] != 1)):
            stretched.add(axis)  # a size that may also be 1
    value = x.value
    rank = len(known_dims(value) or ())
    missing = x.rank - rank  # leading axes that the value does not have
    present = axes[missing:]
    first = present[0] if present else len(dims)
    added = [axis for axis in range(first, len(dims)) if axis not in present]
    if added:
        value = g.Unsqueeze(value, [axis - first for axis in added])
    if first and not stretched:  # leading axes of size 1
        value = g.Unsqueeze(value, list(range(first)))
    return Tensor(value, dims, frozenset(stretched), computed)


@tensor_op("broadcast")
def leading_broadcast(g, x, *, broadcast_sizes):
    """Return `x` repeated along new leading axes."""
    added = len(broadcast_sizes)
    return broadcast(g, x, list(range(added, added + x.rank)), (*broadcast_sizes, *x.dims), None)


@tensor_op("chlo.constant_like")
def constant_like(g, x, *, value, result):
    """Return a number, broadcast to the shape of `x`."""
    computed = g.Shape(whole(g, x).value) if None in x.dims else x.shape
    return Tensor(g.const(value, result.dtype), x.dims, frozenset(range(x.rank)), computed)


def broadcast_operands(g: Graph, operands: Sequence[Any], axes: Sequence[int] | None) -> list[Any]:
    """Return operands of CHLO's broadcasting operators, broadcast to one shape.

    axes: the axes of the result that those of an operand of lower rank are, if they are not the last ones.
    Raises `Unsupported` for sizes of which it is unknown whether they are equal.
    """
    rank = max(len(t.dims) for t in operands)
    places = [
        list(axes) if axes is not None and len(t.dims) == len(axes) else list(range(rank - len(t.dims), rank))
        for t in operands
    ]
    dims: list[Dim] = []
    for axis in range(rank):
        sizes = {t.dims[own.index(axis)] for t, own in zip(operands, places, strict=True) if axis in own} - {1}
        if len(sizes) > 1 or None in sizes:
            raise Unsupported("operands with sizes that may be equal, or 1")
        dims.append(sizes.pop() if sizes else 1)

    def spread(tensor: Any, own: list[int]) -> Any:
        if isinstance(tensor, Pair):
            return Pair(spread(tensor.real, own), spread(tensor.imag, own))
        return broadcast(g, tensor, own, tuple(dims), None)

    return [spread(t, own) for t, own in zip(operands, places, strict=True)]


@tensor_op("reshape")
def reshape(g, x, *, result):
    return reshaped(g, x, result.dims)


@tensor_op("dynamic_reshape")
def dynamic_reshape(g, x, shape, *, result):
    dims = dims_of_sizes(shape.sizes, result.dims)
    computed = None if all(isinstance(d, int) for d in dims) else int64(g, whole(g, shape).value)
    return reshaped(g, x, dims, computed)


def reshaped(g: Graph, x: Tensor, dims: tuple[Dim, ...], computed: ir.Value | None = None) -> Tensor:
    """Return `x` in another shape; a broadcast number needs no operator."""
    if len(known_dims(x.value) or (1,)) == 0 and x.rank:
        return Tensor(x.value, dims, frozenset(range(len(dims))), computed)
    x = whole(g, x)
    dims = resolved_dims(x.dims, dims)
    if dims == x.dims and None not in dims:
        return x
    if (row := _row(g, x, dims)) is not None:
        return Tensor(g.facts(row, shape=dims), dims)
    return Tensor(reshape_node(g, x.value, x.dims, dims, computed), dims)


def _row(g: Graph, x: Tensor, dims: tuple[Dim, ...]) -> ir.Value | None:
    """Return a Gather if `x` is one row, at a computed place, and the reshape removes the first axis; else None."""
    node = x.value.producer()
    if node is None or node.op_type != "Slice" or len(node.inputs) > 4 or x.dims[:1] != (1,) or dims != x.dims[1:]:
        return None
    source, begin, _, axes = node.inputs
    if begin is None or constant_integers(axes) != [0] or constant(begin) is not None:
        return None
    maker = begin.producer()
    scalar = maker.inputs[0] if maker is not None and maker.op_type == "Unsqueeze" else None
    row: ir.Value = g.Gather(source, g.Squeeze(begin, [0]) if scalar is None else scalar, axis=0)
    return row


def reshape_node(
    g: Graph, x: ir.Value, old: tuple[Dim, ...], new: tuple[Dim, ...], computed: ir.Value | None = None
) -> ir.Value:
    """The Reshape of a tensor of dims `old`. A 0 in the shape copies a dim only where there are elements."""
    found = g.Reshape(x, reshape_target(g, old, new, computed), allowzero=int(0 in new))
    return g.facts(found, shape=new)


def resolved_dims(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return the dims of a reshape, with the only unknown dim of its type computed from the others."""
    if sum(d is None for d in new) != 1:
        return new
    sizes, others = [of_dim(d) for d in old], [of_dim(d) for d in new if d is not None]
    if any(s is None for s in sizes):
        return new
    left = quotient([s for s in sizes if s is not None], [s for s in others if s is not None])
    return tuple(left if d is None else d for d in new)


def quotient(above: list[Size], below: list[Size]) -> Dim:
    """Return the product of sizes divided by the product of others, if it is found by cancelling common factors."""
    above = list(above)
    for size in below:
        if size in above:
            above.remove(size)
        elif size.number != 1:
            product = number(1)
            for factor in above:
                product = product * factor
            if not size.number or any(count % size.number for _, count in product.terms):
                return None
            above = [Size(tuple((names, count // size.number) for names, count in product.terms))]
    product = number(1)
    for factor in above:
        product = product * factor
    return product.dim


def reshape_target(g: Graph, old: tuple[Dim, ...], new: tuple[Dim, ...], computed: ir.Value | None = None) -> ir.Value:
    """Return the second operand of Reshape: a constant if at most one dim cannot be copied from its position."""
    numbers: list[int | None] = [d if isinstance(d, int) else None for d in new]
    for axis, dim in enumerate(new):
        if isinstance(dim, str) and axis < len(old) and old[axis] == dim:
            numbers[axis] = 0
    open_axes = [axis for axis, n in enumerate(numbers) if n is None]
    no_elements = any(d == 0 for d in new)
    if len(open_axes) == 1 and not no_elements:
        numbers[open_axes[0]] = -1
        open_axes = []
    if not open_axes and not no_elements:
        return g.const(np.array(numbers, np.int64))
    vector = shape_vector(g, new, computed)
    if vector is None:
        raise Unsupported("a reshape to unknown sizes")
    return vector


@stablehlo_op("transpose")
def transpose(g, x, *, permutation):
    perm = list(permutation)
    return x if perm == sorted(perm) else g.Transpose(x, perm=perm)


@tensor_op("concatenate")
def concatenate(g, *operands, dimension, result):
    """Return the concatenation without empty operands; shape inference adds up named dims."""
    parts = [whole(g, t) for t in operands if t.dims[dimension] != 0] or [whole(g, operands[0])]
    dims = list(result.dims)
    sizes = [size for t in parts if (size := of_dim(t.dims[dimension])) is not None]
    if dims[dimension] is None and len(sizes) == len(parts):
        dims[dimension] = sum(sizes, number(0)).dim
    if len(parts) == 1:
        return replace(parts[0], sizes=None)
    value = g.Concat(*(t.value for t in parts), axis=dimension)
    found = known_dims(value) or dims
    whole_dims = tuple(d if d is not None else f for d, f in zip(dims, found, strict=True))
    g.facts(value, shape=whole_dims)
    return Tensor(value, whole_dims)


@stablehlo_op("reverse")
def reverse(g, x, *, dimensions):
    if not dimensions:
        return x
    axes = list(dimensions)
    last = [-1] * len(axes)
    return g.facts(g.Slice(x, last, [-(2**62)] * len(axes), axes, last), shape=g.shape(x))


@stablehlo_op("slice")
def slice_rule(g, x, *, start_indices, limit_indices, strides):
    """Return the slice along the axes that are not taken whole."""
    return sliced(g, x, start_indices, limit_indices, strides)


def sliced(g: Graph, x: ir.Value, starts: list[int], ends: list[int], steps: list[int] | None = None) -> ir.Value:
    """Return the elements of each axis from a start to an end, with a step."""
    steps = steps or [1] * len(starts)
    dims = g.shape(x)
    axes = [
        axis
        for axis, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True))
        if (start, end, step) != (0, dims[axis], 1)
    ]
    if not axes:
        return x
    return g.Slice(x, [starts[a] for a in axes], [ends[a] for a in axes], axes, [steps[a] for a in axes])


@stablehlo_op("iota")
def iota(g, *, iota_dimension, result):
    """Return a constant: one row, broadcast."""
    shape = [1] * result.rank
    shape[iota_dimension] = result.dims[iota_dimension]
    row = np.arange(shape[iota_dimension]).astype(result.dtype.numpy()).reshape(shape)
    stretched = {a for a, d in enumerate(result.dims) if a != iota_dimension and d != 1}
    lead = min([iota_dimension, *(a for a in range(result.rank) if result.dims[a] == 1)])
    return Tensor(g.const(ir.Tensor(row.reshape(shape[lead:]), dtype=result.dtype)), result.dims, frozenset(stretched))


@tensor_op("dynamic_iota")
def dynamic_iota(g, shape, *, iota_dimension, result):
    """Return a Range of the given size, broadcast."""
    dims = dims_of_sizes(shape.sizes, result.dims)
    computed = int64(g, whole(g, shape).value)
    vector = shape_vector(g, dims, computed)
    end = g.Squeeze(g.Slice(vector, [iota_dimension], [iota_dimension + 1], [0]), [0])
    row = g.Range(g.const(0, ir.DataType.INT64), end, g.const(1, ir.DataType.INT64))
    row = row if result.dtype == ir.DataType.INT64 else g.Cast(row, to=result.dtype)
    g.facts(row, shape=[dims[iota_dimension]])
    return broadcast(g, Tensor(row, (dims[iota_dimension],)), [iota_dimension], dims, computed)


@tensor_op("get_dimension_size")
def get_dimension_size(g, x, *, dimension, result):
    dim = x.dims[dimension]
    if isinstance(dim, int):
        return Tensor(g.const(dim, result.dtype), ())
    size = of_dim(dim)
    found = g.compute_size(size) if size is not None else None
    if found is None:
        found = g.Shape(whole(g, x).value, start=dimension, end=dimension + 1)
    scalar = g.Squeeze(found, [0])
    return Tensor(scalar if result.dtype == ir.DataType.INT64 else g.Cast(scalar, to=result.dtype), ())


@tensor_op("real_dynamic_slice")
def real_dynamic_slice(g, x, starts, ends, steps, *, result):
    """Return the slice for starts, ends and steps as vectors, which JAX computes from constants and sizes of dims."""
    x = whole(g, x)
    operands = [whole(g, t) for t in (starts, ends, steps)]
    dims = list(result.dims)
    rows: list[tuple[Size, ...]] = []
    known = [t.sizes.tolist() for t in operands if t.sizes is not None]
    if len(known) == len(operands):
        rows = list(zip(*known, strict=True))
    for axis, (a, b, c) in enumerate(rows):
        if dims[axis] is None and c.number == 1:
            dims[axis] = (b - a).dim
    # Axes that are taken whole are left out.
    axes = [
        axis
        for axis in range(x.rank)
        if not rows or (rows[axis][0].number, rows[axis][1], rows[axis][2].number) != (0, of_dim(x.dims[axis]), 1)
    ]
    if not axes:
        return x
    bounds = [_of_axes(g, t, axes) for t in operands]
    value = g.Slice(
        x.value, *bounds[:2], axes, None if rows and all(rows[a][2].number == 1 for a in axes) else bounds[2]
    )
    g.facts(value, shape=dims)
    return Tensor(value, tuple(dims))


def _of_axes(g: Graph, vector: Tensor, axes: list[int]) -> ir.Value:
    """Return the elements of a vector for some axes as int64, computed from sizes of dims if these are known."""
    if vector.sizes is not None and isinstance(g, NamedGraph):
        computed = [g.compute_size(vector.sizes.tolist()[axis]) for axis in axes]
        parts = [p for p in computed if p is not None]
        if len(parts) == len(axes):
            joined: ir.Value = parts[0] if len(parts) == 1 else g.Concat(*parts, axis=0)
            return joined
    content = int64(g, vector.value)
    chosen: ir.Value = content if vector.dims == (len(axes),) else g.Gather(content, axes, axis=0)
    return chosen


@stablehlo_op("bitcast_convert")
def bitcast_convert(g, x, *, result):
    """If the width of the elements changes, the last axis has the parts of each element."""
    source, target = g.dtype(x), result.dtype
    if not all(d in FLOATS or (d.is_integer() and d not in FOUR_BITS) for d in (source, target)):
        raise Unsupported(f"the bits of {source.name.lower()} as {target.name.lower()}")
    if source.is_integer() and target.is_integer() and source.itemsize == target.itemsize:
        return x if source == target else g.Cast(x, to=target)
    return bitcast(g, x, target)
