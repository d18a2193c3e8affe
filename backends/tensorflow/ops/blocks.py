"""Operators that fold blocks into images, put maxima back in position, and update caches."""

from __future__ import annotations

from functools import reduce

import tensorflow as tf

from convert.errors import Unsupported

from ..emit import Emitter, Value
from ..rules import onnx_op
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
