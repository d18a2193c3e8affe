"""Shapes that are known at run time only: reshapes by named dims, broadcasting, and axes moved to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from .. import shape_inference
from ..blob import Blob, Dim
from ..net import Net
from .dtypes import ARITHMETIC, NUMBERS, cast, widen


@dataclass(frozen=True)
class Axis:
    """A target dim of a reshape: dim `index` of the reshaped blob, multiplied and divided by a number."""

    index: int
    times: int = 1
    divided: int = 1


Target: TypeAlias = int | Axis


def dims(net: Net, x: Blob) -> Blob:
    """Return the shape of `x` as an int64 vector: a constant if it is static, else computed at run time."""
    if x.shape is not None and all(isinstance(d, int) for d in x.shape):
        return net.const(np.array(x.shape, dtype=np.int64))
    return net.Shape(x)


def dim(net: Net, x: Blob, axis: int) -> Blob:
    """Return one dim of `x` as an int64 vector of length 1."""
    size = x.shape[axis] if x.shape is not None else None
    if isinstance(size, int):
        return net.const(np.array([size], dtype=np.int64))
    return net.facts(net.Shape(x, axes=[net.axis(x, axis)]), shape=(1,))


def reshape(net: Net, x: Blob, target: Sequence[Target]) -> Blob:
    """Return `x` with the dims `target`.

    Unknown dims stay dynamic: as 0 (the input's dim at the same position) or -1 (inferred) if that suffices, else as a
    shape that is computed at run time.
    """
    resolved = [_resolve_target(net, x, t) for t in target]
    if all(isinstance(d, int) for d in resolved) and list(net.shape(x)) == resolved:
        return x
    left = [d for i, d in enumerate(resolved) if isinstance(d, Axis) and d != Axis(i)]
    if len(left) <= 1:
        made = [d if isinstance(d, int) else 0 if d == Axis(i) else -1 for i, d in enumerate(resolved)]
        y = net.Reshape(x, shape=made, outputs=2)[0]
    else:
        parts = [_target_dim(net, x, d) for d in resolved]
        y = net.Reshape(x, concat(net, parts), outputs=2)[0]
    return net.facts(y, x.dtype, [d if isinstance(d, int) else _dim_name(net, x, d) for d in resolved])


def reshape_fixed(net: Net, x: Blob, shape: Sequence[int]) -> Blob:
    """Return `x` with the static dims `shape`; a constant is reshaped now."""
    if x.shape is not None and list(x.shape) == list(shape):
        return x
    content = x.content
    if content is not None:
        return net.const(content.numpy().reshape(shape))
    if 0 in shape:
        # A 0 would copy a dim of the input, which has no such dim.
        return net.const(np.zeros(list(shape), x.dtype.numpy()))
    return net.facts(net.Reshape(x, shape=list(shape), outputs=2)[0], x.dtype, shape)


def reshape_to(net: Net, x: Blob, shape: Sequence[Dim] | None) -> Blob | None:
    """Reshape `x` to dims that are ints or names of dims of `x`; one may be unknown. Return None for other dims."""
    if shape is None:
        return None
    names = [] if x.shape is None else list(x.shape)
    made: list[int] = []
    for i, d in enumerate(shape):
        if isinstance(d, int):
            made.append(d)
        elif d is not None and i < len(names) and names[i] == d:
            made.append(0)
        else:
            made.append(-1)
    if made.count(-1) <= 1:
        return net.facts(net.Reshape(x, shape=made, outputs=2)[0], x.dtype, shape)
    if all(isinstance(d, int) or d in names for d in shape if d is not None) and None not in shape:
        return reshape(net, x, [d if isinstance(d, int) else Axis(names.index(d)) for d in shape])
    return None


def concat(net: Net, parts: Sequence[Blob], axis: int = 0) -> Blob:
    """Concatenate along `axis`; adjacent small constants of rank 1 are joined now."""
    merged: list[Blob] = []
    for part in parts:
        last = merged[-1] if merged else None
        if last is not None and last.content is not None and part.content is not None and part.shape == (1,):
            merged[-1] = net.const(np.concatenate([last.content.numpy(), part.content.numpy()]))
        else:
            merged.append(part)
    return merged[0] if len(merged) == 1 else net.op("Concat", merged, axis=axis, outputs=2)[0]


def broadcast(net: Net, *xs: Blob) -> list[Blob]:
    """Return the blobs with one common shape, because some operators read past the end of a smaller one.

    If a shape is unknown, zeros in the shapes of the other blobs are subtracted from each blob. This is exact for every
    number, NaN, infinity and negative zero.
    """
    if all(x.shape is not None and None not in x.shape and x.shape == xs[0].shape for x in xs):
        return list(xs)
    common = shape_inference.broadcast(*(x.shape for x in xs))
    if common is not None and all(isinstance(d, int) for d in common):
        target = net.const(np.array(common, dtype=np.int64))
        return [x if x.shape == common else _expand(net, x, target, common) for x in xs]
    return [_stretch(net, x, [y for y in xs if y is not x], common) for x in xs]


def expand(net: Net, x: Blob, target: Blob, shape: Sequence[Dim] | None) -> Blob:
    """Return `x` broadcast to the int64 vector `target`; `shape` holds the known entries of `target`."""
    return _expand(net, x, target, None if shape is None else tuple(shape))


def move_axis_last(net: Net, x: Blob, axis: int) -> tuple[Blob, list[int]]:
    """Return `x` with `axis` moved to the end, and the axes that move it back (empty if it already was the last)."""
    rank = net.rank(x)
    axis = net.axis(x, axis)
    if axis == rank - 1:
        return x, []
    axes = [i for i in range(rank) if i != axis] + [axis]
    return transpose(net, x, axes), np.argsort(axes).tolist()


def transpose(net: Net, x: Blob, axes: Sequence[int]) -> Blob:
    """Return `x` with permuted axes; dtypes without a kernel are widened for it."""
    if list(axes) == list(range(len(axes))):
        return x
    if x.content is not None:
        return net.transposed_constant(x, axes)
    shape = None if x.shape is None else [x.shape[a] for a in axes]
    wide = widen(net, x, ARITHMETIC)
    return cast(net, net.facts(net.Transpose(wide, axes=list(axes)), shape=shape), x.dtype)


def zeros_like(net: Net, x: Blob, dtype: ir.DataType | None = None) -> Blob:
    """Return zeros in the shape of `x`."""
    return full_like(net, x, 0, dtype or x.dtype)


def full_like(net: Net, x: Blob, value: float, dtype: ir.DataType) -> Blob:
    """Return `value` in the shape of `x`. `value` must be representable in float32 if `dtype` is floating-point."""
    if dtype == ir.DataType.FLOAT16:
        return net.FloatToHalf(full_like(net, x, value, ir.DataType.FLOAT))
    filled = float(value) if dtype.is_floating_point() else int(value)
    return net.facts(net.ConstantFill(x, value=filled, dtype=NUMBERS[dtype]), dtype, x.shape)


def fill(net: Net, target: Blob, shape: Sequence[Dim] | None, value: float, dtype: ir.DataType) -> Blob:
    """Return `value` in the shape of the int64 vector `target`; `shape` holds the known entries of `target`."""
    if dtype == ir.DataType.FLOAT16:
        return net.FloatToHalf(fill(net, target, shape, value, ir.DataType.FLOAT))
    number = float(value) if dtype.is_floating_point() else int(value)
    return net.facts(net.ConstantFill(target, value=number, dtype=NUMBERS[dtype], input_as_shape=1), dtype, shape)


def _resolve_target(net: Net, x: Blob, target: Target) -> Target:
    if isinstance(target, int):
        return target
    size = net.shape(x)[target.index]
    return size * target.times // target.divided if isinstance(size, int) else target


def _target_dim(net: Net, x: Blob, target: Target) -> Blob:
    if isinstance(target, int):
        return net.const(np.array([target], dtype=np.int64))
    part = dim(net, x, target.index)
    if target.times != 1:
        part = net.Mul(part, net.const(np.array([target.times], dtype=np.int64)))
    if target.divided != 1:
        part = net.Div(part, net.const(np.array([target.divided], dtype=np.int64)))
    return part


def _dim_name(net: Net, x: Blob, target: Axis) -> Dim:
    return net.shape(x)[target.index] if target.times == target.divided == 1 else None


def _expand(net: Net, x: Blob, target: Blob, shape: tuple[Dim, ...] | None) -> Blob:
    wide = widen(net, x, ARITHMETIC)
    return cast(net, net.facts(net.Expand(wide, target), shape=shape), x.dtype)


def _stretch(net: Net, x: Blob, others: Sequence[Blob], common: tuple[Dim, ...] | None) -> Blob:
    wide = widen(net, x, ARITHMETIC)
    for other in others:
        if _broadcasts_into(other, x):
            continue
        wide = net.Sub(wide, zeros_like(net, other, wide.dtype))
    if wide is x:
        return x
    return cast(net, net.facts(wide, shape=common), x.dtype)


def _broadcasts_into(other: Blob, x: Blob) -> bool:
    ones = other.shape is not None and all(d == 1 for d in other.shape)
    return ones and x.shape is not None and other.shape is not None and len(other.shape) <= len(x.shape)
