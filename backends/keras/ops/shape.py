"""Operators that read, set or change shapes, and tensors created from shapes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import keras
import numpy as np
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported

from ..constants import Constant
from ..emitter import Emitter
from ..rules import OWN, channels_last, onnx_op
from ..tensors import Tensor, is_floating, ones_along, permute_axes, places_below, plus, with_rank


@onnx_op("Shape")
def shape(k, x, *, start, end):
    return k.vector(k.sizes_of(0, x)[start:end])


@onnx_op("Size")
def size(k, x):
    sizes = [k.size(d) for d in k.sizes_of(0, x)]
    return reduce(ops.multiply, sizes, np.array(1, np.int64))


@onnx_op("Reshape")
def reshape(k, x, shape, *, allowzero):
    target = k.ints(shape)
    if target is None:
        return _to_computed_shape(k, k.tensor(x), shape, allowzero)
    if isinstance(x, Constant):
        own = [x.shape[i] if d == 0 and not allowzero else d for i, d in enumerate(target)]
        return x.reshaped(*np.empty(x.shape, np.bool_).reshape(own).shape)
    if not allowzero:
        target = [x.shape[i] if d == 0 else d for i, d in enumerate(target)]
    return _reshape_tensor(k, x, target, kept=not allowzero and bool(target) and k.ints(shape)[0] == 0)


def _to_computed_shape(k: Emitter, x: KerasTensor, shape: KerasTensor, allowzero: int) -> KerasTensor:
    """Return `x` reshaped to a run-time shape, a vector of known length; 0 is a dim of `x`, and -1 is inferred."""
    facts = k.dims()
    own = [k.size(d) for d in k.sizes_of(0, x)]
    lengths = [ops.cast(shape[i], "int64") for i in range(len(facts))]
    if not allowzero:
        lengths = [ops.where(ops.equal(n, 0), own[i], n) if i < len(own) else n for i, n in enumerate(lengths)]
    others = reduce(ops.multiply, [ops.maximum(n, 1) for n in lengths], np.array(1, np.int64))
    left = ops.floor_divide(reduce(ops.multiply, own, np.array(1, np.int64)), others)
    sizes = [
        d if isinstance(d, int) else k.size(d) if k.has(d) else ops.where(ops.equal(n, -1), left, n)
        for d, n in zip(facts, lengths, strict=True)
    ]
    return _by_places(k, x, sizes)


def _by_places(k: Emitter, x: KerasTensor, sizes: Sequence[int | KerasTensor | None]) -> KerasTensor:
    """Return `x` reshaped to a shape with several run-time dims, although Keras can infer only one. None is inferred.

    The rows of the known last dims are gathered at indices i, or i · n + j, or (i · n + j) · m + k.
    """
    last = max((i for i, n in enumerate(sizes) if not isinstance(n, int)), default=-1)
    if 0 in sizes[last + 1 :]:
        raise Unsupported("a shape of dims of dynamic size, and one of 0")
    rows = ops.reshape(x, (-1, *sizes[last + 1 :]))
    others = [n for n in sizes[: last + 1] if n is not None]
    product = reduce(ops.multiply, [np.array(n) if isinstance(n, int) else n for n in others], np.array(1, np.int64))
    left = ops.floor_divide(ops.sum(ones_along(rows, 0, "int64")), ops.maximum(product, 1))
    places: Any = np.zeros([], np.int64)
    for size in (left if n is None else n for n in sizes[: last + 1]):
        places = plus(ops.multiply(ops.expand_dims(places, -1), size), k.places(size, "int64"))
    return ops.take(rows, places, axis=0)


def _reshape_tensor(k: Emitter, x: KerasTensor, target: Sequence[int | None], kept: bool = False) -> KerasTensor:
    """Return `x` in another shape: None is the dim of `x` at that position, -1 is inferred. kept: the first dim may be
    that of `x`.
    """
    given = list(target)
    facts = k.dims()
    if len(facts) == len(target):
        target = [f if isinstance(f, int) else d for f, d in zip(facts, target, strict=True)]
    unknown = [i for i, d in enumerate(target) if d is None or d == -1]
    target = [-1 if i in unknown else d for i, d in enumerate(target)]
    if len(unknown) < 2:
        if kept and unknown == [0] and len(target) > 1:
            return k.layer(layers.Reshape, x, target_shape=tuple(target[1:]))
        return ops.reshape(x, target)
    if kept and unknown[0] == 0 and len(unknown) == 2:
        return k.layer(layers.Reshape, x, target_shape=tuple(target[1:]))
    own = k.sizes_of(0, x)
    return _by_places(k, x, [k.size(own[i]) if d is None else None if d == -1 else d for i, d in enumerate(given)])


@onnx_op("Flatten")
def flatten(k, x, *, axis):
    rank = len(x.shape)
    axis = axis + rank if axis < 0 else axis
    if axis == 1 and rank > 1 and is_floating(x):
        return k.layer(layers.Flatten, x, data_format="channels_last")
    before, after = x.shape[:axis], x.shape[axis:]
    if None not in after and 0 not in after:
        return ops.reshape(x, (-1, int(np.prod(after))))
    if None not in before:
        return ops.reshape(x, (int(np.prod(before)), -1))
    behind = reduce(ops.multiply, [k.size(d) for d in k.sizes_of(0, x)[axis:]])
    return _by_places(k, x, [None, behind])


@onnx_op("Squeeze")
def squeeze(k, x, axes):
    chosen = [] if axes is None else k.ints(axes, "axes")
    if isinstance(x, Constant) and chosen:
        return x.reshaped(*np.squeeze(np.empty(x.shape, np.bool_), tuple(chosen)).shape)
    if not chosen:  # all dims of size 1, as in onnxruntime
        return ops.squeeze(x)
    rank = len(x.shape)
    gone = [a % rank for a in chosen]
    if any(x.shape[a] is None for a in gone):
        return x[tuple(0 if i in gone else slice(None) for i in range(rank))]
    return ops.squeeze(x, axis=gone)


@onnx_op("Unsqueeze")
def unsqueeze(k, x, axes):
    chosen = k.ints(axes, "axes")
    rank = len(x.shape) + len(chosen)
    if isinstance(x, Constant):
        return x.reshaped(*np.expand_dims(np.empty(x.shape, np.bool_), tuple(chosen)).shape)
    return ops.expand_dims(x, axis=sorted(a % rank for a in chosen))


@onnx_op("Transpose")
def transpose(k, x, *, perm):
    return permute_axes(x, perm if perm is not None else list(reversed(range(len(x.shape)))))


@onnx_op("Expand")
def expand(k, x, shape):
    x = k.live(x) if isinstance(x, Constant) else x
    if not isinstance(shape, Constant):
        return _repeated(x, shape)
    target = k.ints(shape)
    x = with_rank(x, len(target))
    own = list(x.shape)
    target = [1] * (len(own) - len(target)) + target
    if any(d is None and n != 1 for d, n in zip(own, target, strict=True)):
        return _repeated(x, ops.add(k.index(), np.array(target)))
    repeats = [n if d == 1 else 1 for d, n in zip(own, target, strict=True)]
    return ops.tile(x, repeats) if any(n != 1 for n in repeats) else x


def _repeated(x: KerasTensor, shape: KerasTensor) -> KerasTensor:
    """Return `x` broadcast to run-time sizes, a vector of known length, by multiplying with ones."""
    (count,) = shape.shape
    if count is None:
        raise Unsupported("a rank computed at run time")
    rank = max(count, len(x.shape))
    x, dtype = with_rank(x, rank), keras.backend.standardize_dtype(x.dtype)
    for axis in range(rank - count, rank):
        if x.shape[axis] in (None, 1):
            ones = ops.cast(ops.ones_like(places_below(shape[axis - rank + count])), dtype)
            ones = ops.reshape(ones, [-1 if i == axis else 1 for i in range(rank)])
            x = ops.logical_and(x, ones) if dtype == "bool" else ops.multiply(x, ones)
    return x


def _dims(names: Sequence[str]) -> list[int | str]:
    return [int(name) if name.isdigit() else name for name in names]


@onnx_op(f"{OWN}::Expand")
def expand_to_dims(k, x, *, dims):
    dims = _dims(dims)
    for own, d in zip(reversed(k.input_dims(0)), reversed(dims), strict=False):
        if own not in (1, d):
            return _repeated(x, ops.add(k.index(), ops.cast(k.vector(dims), "int32")))
    return k.broadcast(k.live(x) if isinstance(x, Constant) else x, dims)


@onnx_op(f"{OWN}::ConstantOfShape")
def constant_of_dims(k, *, dims, value=None):
    fill = np.zeros([1], np.float32) if value is None else value.numpy()
    return k.broadcast(k.live(k.known(fill.reshape((1,) * len(dims)))), _dims(dims))


@onnx_op("Tile")
def tile(k, x, repeats):
    return ops.tile(k.tensor(x), k.ints(repeats, "repeats"))


@onnx_op("ConstantOfShape")
def constant_of_shape(k, shape, *, value):
    fill = np.zeros([1], np.float32) if value is None else value.numpy()
    if isinstance(shape, Constant):
        return np.full(k.ints(shape), fill.reshape(()), fill.dtype)
    return _repeated(k.live(k.known(fill)), shape)


@onnx_op("Range")
def range_(k, start, limit, delta):
    (dim,) = k.dims()
    dtype = str(start.dtype)
    if all(isinstance(x, Constant) for x in (start, limit, delta)):
        # Counted in float64, as in onnxruntime; integers exactly.
        wide = np.int64 if start.array.dtype.kind in "iu" else np.float64
        first, end, step = (x.array.reshape(()).astype(wide) for x in (start, limit, delta))
        dim = max(-int((first - end) // step) if wide is np.int64 else int(np.ceil((end - first) / step)), 0)
    elif not k.has(dim):
        places = places_below(_number_of_steps(*k.tensors(start, limit, delta)))
        return ops.add(k.tensor(start), ops.multiply(ops.cast(places, dtype), k.tensor(delta)))
    return ops.add(k.tensor(start), ops.multiply(k.places(dim, dtype), k.tensor(delta)))


def _number_of_steps(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """Return ⌈(limit − start) / delta⌉ of scalars; floats are counted in float64, as in onnxruntime."""
    if is_floating(start):
        start, limit, delta = (ops.cast(x, "float64") for x in (start, limit, delta))
        return ops.cast(ops.ceil(ops.divide(ops.subtract(limit, start), delta)), "int64")
    start, limit, delta = (ops.cast(x, "int64") for x in (start, limit, delta))
    return ops.negative(ops.floor_divide(ops.subtract(start, limit), delta))


def eye_like(out, x, *, dtype, k):
    """EyeLike-22. Here `k` is ONNX's attribute for the diagonal, so the emitter is `out`."""
    rows, columns = (out.places(d, "int64") for d in out.sizes_of(0, x))
    hit = ops.equal(ops.expand_dims(columns, 0), ops.add(ops.expand_dims(rows, 1), k))
    return ops.cast(hit, str(x.dtype) if dtype is None else out.dtype_of(dtype))


onnx_op("EyeLike")(eye_like)


_FAR = 1 << 30
"""A distance from the diagonal beyond every element. Keras computes it in int32 under TensorFlow, so sums must not
overflow.
"""


@onnx_op("Trilu")
def trilu(k, x, diagonal, *, upper):
    (offset,) = (0,) if diagonal is None else k.ints(diagonal, "a diagonal")
    offset = max(-_FAR, min(offset, _FAR))
    x = k.tensor(x)
    if offset == 0 or (offset > 0) == bool(upper):
        return (ops.triu if upper else ops.tril)(x, k=offset)
    # The kernel for this case rejects diagonals outside the matrix, so the opposite diagonal is used as a mask.
    ones = ops.ones_like(x, dtype="int32")
    gone = ops.tril(ones, k=offset - 1) if upper else ops.triu(ones, k=offset + 1)
    return ops.where(ops.equal(gone, 0), x, ops.zeros_like(x))


@onnx_op("Concat")
def concat(k, *values, axis):
    tensors = k.tensors(*values)
    axis %= len(tensors[0].shape)
    symbolic = all(not isinstance(x, np.ndarray) and is_floating(x) for x in tensors)
    if symbolic and axis > 0 and len(tensors) > 1:
        return k.layer(layers.Concatenate, tensors, axis=axis)
    return ops.concatenate(tensors, axis=axis)


@onnx_op("Split")
def split(k, x, sizes, *, axis, num_outputs):
    x = k.tensor(x)
    if sizes is not None:
        parts = k.ints(sizes, "sizes")
    elif x.shape[axis] is None:
        raise Unsupported("a split of a dim of dynamic size")
    else:
        count = num_outputs or len(k.node.outputs)
        part = -(-x.shape[axis] // count)
        parts = [min(part, x.shape[axis] - i * part) for i in range(count)]
    if len(parts) == 1:
        return (x,)
    ends = [int(i) for i in np.cumsum(parts)]
    if x.shape[axis] is None:
        # Keras computes the length of the last part from the total length.
        whole = (slice(None),) * (axis % len(x.shape))
        return tuple(x[(*whole, slice(end - part, end))] for part, end in zip(parts, ends, strict=True))
    return tuple(ops.split(x, ends[:-1], axis=axis))


@channels_last("DepthToSpace")
def depth_to_space(k, x, *, blocksize, mode):
    if blocksize == 1:
        return x
    channels = x.shape[-1] // blocksize**2
    if mode == "CRD" and channels > 1:
        # Channels are blocks of channels: reorder them first.
        order = np.arange(x.shape[-1]).reshape(channels, -1).T.ravel()
        x = ops.take(x, order.astype(np.int32), axis=-1)
    return ops.depth_to_space(x, blocksize, data_format="channels_last")


@channels_last("SpaceToDepth")
def space_to_depth(k, x, *, blocksize, mode="DCR"):
    if blocksize == 1:
        return x
    y = ops.space_to_depth(x, blocksize, data_format="channels_last")
    if mode == "CRD" and x.shape[-1] > 1:
        order = np.arange(y.shape[-1]).reshape(-1, x.shape[-1]).T.ravel()
        y = ops.take(y, order.astype(np.int32), axis=-1)
    return y
