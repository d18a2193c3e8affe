"""Operators that read, set or change shapes, and tensors created from shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from convert.graph.values import known_dims

from ..constants import tf_dtype
from ..emit import Dim, Emitter, Value
from ..rules import LITE, channels_last, onnx_op


def dims_product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dims that may be numbers or scalars."""
    product = 1
    for d in dims:
        product = product * d
    return product


def pack_dims(dims: Sequence[Dim]) -> tf.Tensor | np.ndarray:
    """Return dims as one int32 vector (numpy if all are known)."""
    if all(isinstance(d, int) for d in dims):
        return np.array(dims, dtype=np.int32)
    return tf.stack([tf.cast(d, tf.int32) for d in dims])


@onnx_op("Shape")
def shape(t, x, *, start, end):
    if x.shape.rank is not None and None not in x.shape.as_list()[start:end]:
        return np.array(x.shape.as_list()[start:end], dtype=np.int64)
    return tf.shape(x, tf.int64)[start:end]


@onnx_op("Size")
def size(t, x):
    if x.shape.is_fully_defined():
        return np.array(x.shape.num_elements(), dtype=np.int64)
    return tf.size(x, tf.int64)


@onnx_op("Reshape")
def reshape(t, x, shape, *, allowzero):
    target = t.ints(shape)
    if target is None:
        target = _computed_target(t, x, shape, allowzero=allowzero)
    elif not allowzero and 0 in target:
        target = _with_copies(t, x, target)
    return tf.reshape(x, target)


def _computed_target(t: Emitter, x: Value, shape: tf.Tensor, *, allowzero: int) -> tf.Tensor:
    """Return a shape computed at run time, with the sizes that the graph knows filled in.

    The converter to TensorFlow Lite does not see those sizes in a computed shape, and cannot convert a convolution with
    an unknown number of channels. The declared shape of a model output may be wrong and is not used.
    """
    target = shape
    if not allowzero and x.shape.rank != 0:
        wide = tf.shape(x, tf.int64)
        count, own = tf.size(shape), tf.size(wide)
        # A zero copies the input's dim at the same position, if there is one.
        copied = tf.gather(wide, tf.minimum(tf.range(count), own - 1))
        target = tf.where(tf.equal(shape, tf.zeros([], tf.int64)), copied, shape)
    value = t.node.outputs[0] if t.node is not None else None
    known = None if value is None or value.is_graph_output() else known_dims(value)
    if not known or all(not isinstance(d, int) for d in known):
        return target
    return tf.stack([tf.constant(d, tf.int64) if isinstance(d, int) else target[i] for i, d in enumerate(known)])


def _with_copies(t: Emitter, x: Value, target: Sequence[int]) -> tf.Tensor | np.ndarray:
    """Return the shape with zeros replaced by the dims of `x`, and a -1 by its size if the graph knows it.

    With another unknown dim, TensorFlow cannot infer the -1, and TensorFlow Lite cannot convert a convolution with that
    many channels.
    """
    known = known_dims(t.node.outputs[0]) if t.node is not None else None
    if known is not None and len(known) == len(target):
        target = [k if d == -1 and isinstance(k, int) else d for d, k in zip(target, known, strict=True)]
    return pack_dims([t.shape(x)[i] if d == 0 else d for i, d in enumerate(target)])


@onnx_op("Flatten")
def flatten(t, x, *, axis):
    if x.shape.rank is None:
        dims = tf.shape(x)
        return tf.reshape(x, [tf.reduce_prod(dims[:axis]), tf.reduce_prod(dims[axis:])])
    dims = t.shape(x)
    axis = axis + len(dims) if axis < 0 else axis
    after = dims[axis:]
    if all(isinstance(d, int) for d in after) and 0 not in after:
        return tf.reshape(x, pack_dims([-1, dims_product(after)]))
    return tf.reshape(x, pack_dims([dims_product(dims[:axis]), dims_product(after)]))


@onnx_op("Squeeze")
def squeeze(t, x, axes):
    known = [] if axes is None else t.ints(axes)
    if known is not None:  # empty axes mean all axes of size 1, in onnxruntime as in TensorFlow
        return tf.squeeze(x, known)
    if axes.shape[0] == 0:
        return tf.squeeze(x)
    rank = tf.rank(x)
    axes = tf.where(axes < 0, axes + tf.cast(rank, axes.dtype), axes)
    gone = tf.reduce_any(tf.equal(tf.range(rank)[:, None], tf.cast(axes, tf.int32)), 1)
    if axes.shape[0] is None:
        gone |= (tf.size(axes) == 0) & tf.equal(tf.shape(x), 1)
    return tf.reshape(x, tf.boolean_mask(tf.shape(x), ~gone))


@onnx_op(f"{LITE}::Squeeze")
def squeeze_of_lite(t, x, axes):
    """Squeeze for TensorFlow Lite, as a Reshape, which costs as little.

    TensorFlow's converter swaps a Squeeze with a Transpose before it, and produces a SQUEEZE that fails its own checks
    (2.21).
    """
    known = t.ints(axes)
    if not known or x.shape.rank is None:
        return squeeze(t, x, axes)
    gone = {axis % x.shape.rank for axis in known}
    return tf.reshape(x, pack_dims([d for axis, d in enumerate(t.shape(x)) if axis not in gone]))


@onnx_op("Unsqueeze")
def unsqueeze(t, x, axes):
    known = t.ints(axes)
    if known is None or (x.shape.rank is None and min(known) < 0):
        rank = tf.rank(x) + tf.size(axes)
        axes = tf.cast(axes, tf.int32)
        added = tf.reduce_any(tf.equal(tf.range(rank)[:, None], tf.where(axes < 0, axes + rank, axes)), 1)
        return tf.reshape(x, tf.tensor_scatter_nd_update(tf.ones_like(tf.range(rank)), tf.where(~added), tf.shape(x)))
    for axis in sorted(a if a >= 0 else a + t.rank(x) + len(known) for a in known):
        x = tf.expand_dims(x, axis)
    return tf.convert_to_tensor(x)


@onnx_op("Transpose")
def transpose(t, x, *, perm):
    return t.permuted(x, perm if perm is not None else list(reversed(range(t.rank(x)))))


@onnx_op("Expand")
def expand(t, x, shape):
    known = t.ints(shape)
    if known is not None and x.shape.is_fully_defined():
        return _broadcast(x, np.broadcast_shapes(tuple(x.shape.as_list()), tuple(known)))
    target = tf.constant(known, tf.int32) if known is not None else tf.cast(shape, tf.int32)
    y = _broadcast(x, tf.broadcast_dynamic_shape(t.dims(x), target))
    if y.shape.rank is None and x.shape.rank is not None and target.shape[0] is not None:
        y.set_shape([None] * max(x.shape.rank, target.shape[0]))  # TensorFlow does not infer it
    return y


def _broadcast(x: Value, dims: Sequence[int] | tf.Tensor) -> tf.Tensor:
    """Broadcast x in steps, because `tf.broadcast_to` supports five groups of dims: first four dims, then three each.

    TensorFlow Lite's converter merges a broadcast that adds dims with an addition as if the axes were unchanged (2.21).
    So the leading dims of 1 are added first.
    """
    if isinstance(dims, Sequence):
        own = (*[1] * (len(dims) - x.shape.rank), *x.shape.as_list())
        x = x if len(own) == x.shape.rank else tf.reshape(x, own)
        for count in _first_dims(len(dims)):
            x = tf.broadcast_to(x, np.broadcast_shapes(own, (*dims[:count], *[1] * (len(dims) - count))))
    else:
        rank = max(x.shape.rank or 0, dims.shape[0] or 0)
        for count in _first_dims(rank):
            front = tf.concat([dims[:count], [1] * (rank - count)], 0)
            x = tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x), front))
    return tf.broadcast_to(x, dims)


def _first_dims(rank: int) -> range:
    """Return how many leading dims are repeated in each step before the last."""
    return range(4, rank - 1, 3)


@onnx_op("Tile")
def tile(t, x, repeats):
    known = t.ints(repeats)
    return tf.tile(x, repeats if known is None else known)


@onnx_op(f"{LITE}::Tile")
def tile_of_lite(t, x, repeats):
    """Tile for TensorFlow Lite without TILE, which TensorFlow's converter drops before arithmetic with a number.

    It does so if a length is unknown, because it treats unknown lengths as equal. It also forgets lengths that we know,
    for example after a convolution with dilations.
    """
    known = t.ints(repeats)
    count = repeats.shape.num_elements() if known is None else len(known)  # the rank, by definition
    x = tf.convert_to_tensor(x) if count is None else t.of_rank(x, count)
    for axis in range(t.rank(x)):
        if known is None:
            x = _repeat_by_gather(x, axis, tf.cast(repeats[axis], tf.int32))
        elif not 0 < known[axis] <= _MOST_COPIES:
            x = _repeat_by_gather(x, axis, known[axis])
        elif known[axis] > 1:
            x = tf.concat([x] * known[axis], axis)
    return x


_MOST_COPIES = 8


def _repeat_by_gather(x: tf.Tensor, axis: int, count: int | tf.Tensor) -> tf.Tensor:
    size = x.shape[axis]
    if size is not None and isinstance(count, int):
        return tf.gather(x, np.tile(np.arange(size, dtype=np.int32), count), axis=axis)
    size = tf.shape(x)[axis]
    return tf.gather(x, tf.range(size * count) % tf.maximum(size, 1), axis=axis)


@onnx_op("ConstantOfShape", f"{LITE}::ConstantOfShape")
def constant_of_shape(t, shape, *, value):
    fill = np.zeros([1], np.float32) if value is None else value.numpy()
    known = t.ints(shape)
    if known is not None and np.prod(known) <= 4096:
        return np.full(known, fill.reshape(()), fill.dtype)
    dtype = tf_dtype(ir.DataType.from_numpy(fill.dtype))
    content = tf.constant(fill.reshape(()), dtype)
    if t.node.domain == LITE and known is None:
        # TensorFlow's converter confuses the shape vector of Fill with the shape of its result, and gets the dtype
        # wrong if the other one is requested.
        return tf.broadcast_to(content, shape)
    return tf.fill(shape if known is None else known, content)


@onnx_op("Range", f"{LITE}::Range")
def range_(t, start, limit, delta):
    known = [t.static(x) for x in (start, limit, delta)]
    start, limit, delta = (tf.reshape(x, []) for x in (start, limit, delta))
    if start.dtype.is_integer:
        wide = tf.int32 if start.dtype.size < 4 else start.dtype
        return tf.cast(_integer_range(*(tf.cast(x, wide) for x in (start, limit, delta)), *known), start.dtype)
    # Each element is start + i · delta, as ONNX defines it. The number of elements is onnxruntime's, which computes it
    # in float64: 0.3 is slightly more than three times 0.1.
    if t.node is not None and t.node.domain == LITE:
        count = _steps(start, limit, delta)
    else:
        first, end, step = (tf.cast(x, tf.float64) for x in (start, limit, delta))
        count = tf.cast(tf.math.ceil(tf.divide(tf.subtract(end, first), step)), tf.int32)
    return tf.add(start, tf.multiply(tf.cast(tf.range(tf.maximum(count, 0)), start.dtype), delta))


def _steps(start: tf.Tensor, limit: tf.Tensor, delta: tf.Tensor) -> tf.Tensor:
    """Return how many steps of `delta` begin before `limit`, all in float32, for targets that cannot divide float64.

    That is the nearest whole number of steps, plus one if they do not reach the limit. The comparison is exact: sums
    and products are kept as the rounded result plus the rounding error (Dekker, "A floating-point technique for
    extending the available precision", 1971, and Knuth's two-sum).
    """
    span = tf.subtract(limit, start)
    taken = tf.subtract(limit, span)
    cut = tf.subtract(tf.subtract(limit, tf.add(span, taken)), tf.subtract(start, taken))
    steps = tf.round(tf.divide(span, delta))
    (a, b), (c, d) = _halves(steps), _halves(delta)
    reached = tf.multiply(steps, delta)
    lost = a * c - reached + a * d + b * c + b * d
    left = tf.add(tf.subtract(tf.subtract(span, reached), lost), cut)
    return tf.cast(steps, tf.int32) + tf.cast(tf.greater(left * tf.sign(delta), 0.0), tf.int32)


def _halves(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return a float32 as the sum of two numbers with 12 bits each."""
    wide = tf.multiply(x, float(2**12 + 1))
    high = tf.subtract(wide, tf.subtract(wide, x))
    return high, tf.subtract(x, high)


def _integer_range(
    start: tf.Tensor,
    limit: tf.Tensor,
    delta: tf.Tensor,
    first: np.ndarray | None,
    end: np.ndarray | None,
    step: np.ndarray | None,
) -> tf.Tensor:
    """Return numbers from `start` to `limit`, or none if `limit` is in the wrong direction, which tf.range rejects.

    first, end, step: the known values of the three, or None.
    """
    if first is not None and end is not None and step is not None and (end - first) * step >= 0:
        return tf.range(start, limit, delta)
    ahead, back = tf.maximum(start, limit), tf.minimum(start, limit)
    if step is not None:
        return tf.range(start, ahead if step > 0 else back, delta)
    return tf.range(start, tf.where(delta > tf.zeros([], delta.dtype), ahead, back), delta)


@onnx_op("EyeLike")
def eye_like(t, x, *, dtype, k):
    kind = x.dtype if dtype is None else tf_dtype(ir.DataType(dtype))
    rows, columns = t.shape(x)
    return tf.cast(tf.equal(tf.range(columns)[None, :] - tf.range(rows)[:, None], k), kind)


@onnx_op("Trilu")
def trilu(t, x, k, *, upper):
    diagonal = tf.constant(0, tf.int64) if k is None else tf.reshape(k, [])
    dims = t.shape(x)
    offset = tf.cast(tf.range(dims[-1])[None, :] - tf.range(dims[-2])[:, None], tf.int64)
    kept = tf.greater_equal(offset, diagonal) if upper else tf.less_equal(offset, diagonal)
    return tf.where(kept, x, tf.zeros([], x.dtype))


@channels_last("DepthToSpace")
def depth_to_space(t, x, *, blocksize, mode):
    n, h, w, c = t.shape(x)
    b = blocksize
    if b == 1:
        return tf.convert_to_tensor(x)
    if isinstance(c, int) and c == b * b:
        mode = "DCR"  # with one output channel both orders are the same
    if mode == "DCR" and x.dtype in (tf.float32, tf.float16):
        return tf.nn.depth_to_space(x, b)
    depth = c // (b * b)  # no −1: reshape could not infer it for an empty tensor
    blocks = [b, b, depth] if mode == "DCR" else [depth, b, b]
    order = [0, 1, 3, 2, 4, 5] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
    x = tf.transpose(tf.reshape(x, pack_dims([n, h, w, *blocks])), order)
    return tf.reshape(x, pack_dims([n, h * b, w * b, depth]))


@channels_last("SpaceToDepth")
def space_to_depth(t, x, *, blocksize, mode="DCR"):
    if blocksize == 1:
        return tf.convert_to_tensor(x)
    if mode == "DCR" and x.dtype in (tf.float32, tf.float16):
        return tf.nn.space_to_depth(x, blocksize)
    n, h, w, c = t.shape(x)
    b = blocksize
    x = tf.reshape(x, pack_dims([n, h // b, b, w // b, b, c]))
    order = [0, 1, 3, 2, 4, 5] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    return tf.reshape(tf.transpose(x, order), pack_dims([n, h // b, w // b, c * b * b]))
