"""NonMaxSuppression for TensorFlow Lite, whose kernel takes one class of one image and pads its result."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ..emit import Emitter, Value
from ..rules import LITE, onnx_op
from .sampling import box_corners

_APART = 128
"""Maximum number of image and class pairs that are unrolled; more use a loop."""
_LEAST = np.float32(np.finfo(np.float32).tiny)
_NEXT = np.float32(2.0**-24 * (1 + 2.0**-10))
"""A number plus this fraction of it rounds to the next float."""


@onnx_op(f"{LITE}::NonMaxSuppression")
def non_max_suppression(
    t, boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold, *, center_point_box
):
    batch, classes, count = t.shape(scores)
    boxes, scores = _without_empty(box_corners(boxes, center_point_box), count), tf.convert_to_tensor(scores)
    limit = _limit(t, max_output_boxes_per_class, count)
    overlap = _overlap_above(t, iou_threshold)
    least = tf.constant(-np.inf, tf.float32) if score_threshold is None else tf.reshape(score_threshold, [])

    sizes, order = tf.math.top_k(scores, count)
    ranks = tf.cast(tf.range(count, 0, -1), tf.float32)

    def picked(image: Value, kind: Value) -> tf.Tensor:
        """Return the selected rows of one class. The kernel gets ranks as scores, because it may pick any of equal
        scores while onnxruntime picks the first.
        """
        own, best = tf.gather(tf.gather(order, image), kind), tf.gather(tf.gather(sizes, image), kind)
        places, valid = tf.raw_ops.NonMaxSuppressionV4(
            boxes=tf.gather(tf.gather(boxes, image), own),
            scores=tf.where(best > least, ranks, tf.zeros_like(ranks)),
            max_output_size=limit,
            iou_threshold=overlap,
            score_threshold=tf.zeros([]),
            pad_to_max_output_size=True,
        )
        kept = tf.gather(own, tf.gather(places, tf.where(tf.range(limit) < valid)[:, 0]))
        first = [tf.fill([tf.size(kept)], tf.cast(number, tf.int32)) for number in (image, kind)]
        return tf.stack([*first, kept], 1)

    if isinstance(batch, int) and isinstance(classes, int) and 0 < batch * classes <= _APART:
        rows = [picked(image, kind) for image in range(batch) for kind in range(classes)]
        return tf.cast(tf.concat(rows, 0) if len(rows) > 1 else rows[0], tf.int64)

    def one_more(number: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return number + 1, tf.concat([rows, picked(number // classes, number % classes)], 0)

    start = tf.zeros([], tf.int32), tf.zeros([0, 3], tf.int32)
    shapes = tf.TensorShape([]), tf.TensorShape([None, 3])
    _, rows = tf.while_loop(lambda number, rows: number < batch * classes, one_more, start, shapes)
    return tf.cast(rows, tf.int64)


def _without_empty(boxes: tf.Tensor, count: Value) -> tf.Tensor:
    """Return boxes with empty ones moved away from all others and from each other, so that they still overlap with
    nothing.

    In its original position, an empty box is selected repeatedly by the kernel (LiteRT 2.3).
    """
    low, high = tf.minimum(boxes[..., :2], boxes[..., 2:]), tf.maximum(boxes[..., :2], boxes[..., 2:])
    sides = high - low
    filled = sides[..., :1] * sides[..., 1:] > 0
    unit = 1 + tf.reduce_max(tf.abs(boxes))
    places = tf.reshape(tf.cast(tf.range(count), tf.float32), [1, -1, 1])
    apart = [-unit * (2 * places + 3), -unit * (2 * places + 2)]
    return tf.where(filled, boxes, tf.concat([apart[0], apart[0], apart[1], apart[1]], -1))


def _limit(t: Emitter, most: Value, count: Value) -> Value:
    """Return how many boxes of a class may be selected: a number if it is known, so that dims are known."""
    if most is None:
        return tf.constant(0, tf.int32)
    known = t.ints(most)
    if known is not None and isinstance(count, int):
        return tf.constant(max(0, min(known[0], count)), tf.int32)
    limit = tf.minimum(tf.reshape(most, []), tf.cast(count, tf.int64))
    return tf.maximum(tf.cast(limit, tf.int32), 0)


def _overlap_above(t: Emitter, threshold: Value) -> Value:
    """Return the next float above a threshold: the kernel drops boxes at the threshold, ONNX only those above it."""
    if threshold is None:
        return tf.constant(_LEAST)
    known = t.static(threshold)
    if known is not None:
        return tf.constant(np.maximum(np.nextafter(np.ravel(known)[0].astype(np.float32), np.float32(2)), _LEAST))
    threshold = tf.reshape(threshold, [])
    return tf.maximum(threshold + threshold * _NEXT, _LEAST)
