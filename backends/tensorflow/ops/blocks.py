"""Operators that fold blocks into images, put maxima back in position, and update caches."""

from __future__ import annotations

from functools import reduce

import tensorflow as tf

from convert.errors import Unsupported

from ..emit import Emitter, Value
from ..rules import LITE, onnx_op
from .scatter import scatter_updates
from .shape import pack_dims


@onnx_op("Col2Im")
def col2im(t, x, image_shape, block_shape, *, dilations, pads, strides):
    lengths = (image_shape.shape[0], block_shape.shape[0], len(dilations or strides or (pads or [])[::2]))
    rank = next((n for n in lengths if n), None)
    if rank is None:
        raise Unsupported("Col2Im of an image of unknown rank")
    image, block = _vector_elements(t, image_shape, rank), _vector_elements(t, block_shape, rank)
    dilations, strides, pads = dilations or [1] * rank, strides or [1] * rank, pads or [0] * 2 * rank
    padded = [n + pads[i] + pads[i + rank] for i, n in enumerate(image)]
    counts = [(padded[i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)]
    # The index of each element in the padded image: axes [block…, columns…].
    place = tf.zeros([1] * 2 * rank, tf.int32)
    for i in range(rank):
        along = tf.range(block[i])[:, None] * dilations[i] + tf.range(counts[i])[None, :] * strides[i]
        shape = [1] * 2 * rank
        shape[i], shape[rank + i] = block[i], counts[i]
        place = place * padded[i] + tf.reshape(along, pack_dims(shape))
    n, rows = t.shape(x)[0], t.shape(x)[1]
    channels = rows // reduce(lambda a, b: a * b, block)
    # Booleans are counted: an element is set if at least one block sets it.
    numbers = tf.cast(x, tf.int32) if x.dtype == tf.bool else x
    columns = tf.transpose(tf.reshape(numbers, pack_dims([n * channels, -1])))
    total = reduce(lambda a, b: a * b, padded)
    sums = tf.math.unsorted_segment_sum(columns, tf.reshape(place, [-1]), total)
    y = tf.cast(tf.reshape(tf.transpose(sums), pack_dims([n, channels, *padded])), x.dtype)
    return tf.slice(y, [0, 0, *pads[:rank]], pack_dims([n, channels, *image]))


def _vector_elements(t: Emitter, x: Value, count: int) -> list[int] | list[tf.Tensor]:
    """Return the elements of a vector: known numbers, else int32 scalars."""
    known = t.ints(x)
    return known if known is not None else tf.unstack(tf.cast(x, tf.int32), num=count)


@onnx_op("MaxUnpool", f"{LITE}::MaxUnpool")
def max_unpool(t, x, indices, output_shape, *, kernel_shape, pads, strides):
    rank = len(kernel_shape)
    strides, pads = strides or [1] * rank, pads or [0] * 2 * rank
    dims = t.shape(x)
    spatial = [
        (d - 1) * s - (pads[i] + pads[rank + i]) + k
        for i, (d, s, k) in enumerate(zip(dims[2:], strides, kernel_shape, strict=True))
    ]
    shape = pack_dims([*dims[:2], *spatial])
    places = tf.reshape(indices, [-1, 1])
    total = tf.cast(tf.reduce_prod(shape), tf.int64)
    # Two maxima may have the same position, where the value is written once.
    flat = scatter_updates(t, tf.zeros([total], x.dtype), places, tf.reshape(x, [-1]), "none")
    y = tf.reshape(flat, shape)
    if output_shape is None:
        return y
    missing = tf.cast(output_shape, tf.int32) - shape
    return tf.pad(y, tf.stack([tf.zeros_like(missing), missing], 1))


@onnx_op("TensorScatter")
def tensor_scatter(t, cache, update, write_indices, *, axis, mode):
    rank = t.rank(cache)
    axis %= rank
    size, count, batch = t.shape(cache)[axis], t.shape(update)[axis], t.shape(cache)[0]
    start = tf.zeros([batch], tf.int32) if write_indices is None else tf.cast(write_indices, tf.int32)
    # The index of the update element, if any, that is written to each cache position.
    number = tf.range(size)[None, :] - start[:, None]
    if mode == "circular":
        number = tf.math.floormod(number, size)
    written = (number >= 0) & (number < count)
    if axis == 0:
        new = tf.gather(update, tf.clip_by_value(number[0], 0, count - 1), axis=0)
    else:
        new = tf.gather(update, tf.clip_by_value(number, 0, count - 1), axis=axis, batch_dims=1)
        new = tf.reshape(new, tf.shape(cache))
    shape = pack_dims([batch if i == 0 else size if i == axis else 1 for i in range(rank)])
    return tf.where(tf.reshape(written, shape), new, cache)
