"""Sampling at coordinates that are computed at run time, and bounding boxes."""

from __future__ import annotations

import itertools
from functools import reduce

import tensorflow as tf

from convert.errors import Unsupported

from ..emit import Dim, Value
from ..rules import channels_last, onnx_op
from .shape import pack_dims

# Keys' cubic convolution, with the coefficient of PyTorch and ONNX.
_ALPHA = -0.75


@channels_last("GridSample")
def grid_sample(t, x, grid, *, align_corners, mode, padding_mode):
    if not x.dtype.is_floating:
        if x.dtype == tf.string:
            raise Unsupported("GridSample of strings")
        wide = tf.cast(x, tf.float64)
        y = grid_sample(t, wide, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode)
        return tf.cast(y, x.dtype)
    sizes = t.shape(x)[1:-1]
    rank = len(sizes)
    kind = tf.float64 if grid.dtype == tf.float64 else tf.float32
    places, weights = [], []
    for axis, n in enumerate(sizes):
        # The grid has the axes in reverse order: x, y, z.
        where = tf.cast(grid[..., rank - 1 - axis], kind)
        size = tf.cast(n, kind)
        where = (where + 1) / 2 * (size - 1) if align_corners else ((where + 1) * size - 1) / 2
        low, high = (0.0, size - 1) if align_corners else (-0.5, size - 0.5)
        where = tf.round(where) if mode == "nearest" else where
        # The cubic mode pads each element beyond the border separately.
        if padding_mode == "border" and mode not in ("cubic", "bicubic"):
            where = tf.clip_by_value(where, 0.0, size - 1)
        elif padding_mode == "reflection":
            where = reflect_coordinates(where, low, high)
        near, factors = neighbor_weights(where, mode)
        around = [clip_to_input(p, f, n, low, high, padding_mode) for p, f in zip(near, factors, strict=True)]
        places.append([p for p, _ in around])
        weights.append([f for _, f in around])
    flat = tf.reshape(x, pack_dims([t.shape(x)[0], reduce(lambda a, b: a * b, sizes), t.shape(x)[-1]]))
    result = None
    for choice in itertools.product(*(range(len(p)) for p in places)):
        index = reduce(
            lambda a, b: a + b,
            [places[i][k] * reduce(lambda a, b: a * b, sizes[i + 1 :], 1) for i, k in enumerate(choice)],
        )
        weight = reduce(tf.multiply, [weights[i][k] for i, k in enumerate(choice)])
        part = tf.gather(flat, index, batch_dims=1) * tf.cast(weight, x.dtype)[..., None]
        result = part if result is None else result + part
    return result


def reflect_coordinates(where: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """Reflect coordinates at the borders until they lie between them."""
    span = high - low
    distance = tf.abs(where - low)
    turns = tf.floor(tf.math.divide_no_nan(distance, span))
    rest = distance - turns * span
    return tf.where(tf.equal(tf.math.floormod(turns, 2.0), 0), low + rest, high - rest)


def neighbor_weights(where: tf.Tensor, mode: str) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Return the elements around a coordinate and their weights along one axis."""
    if mode == "nearest":
        return [where], [tf.ones_like(where)]
    base = tf.floor(where)
    d = where - base
    if mode in ("linear", "bilinear"):
        return [base, base + 1], [1 - d, d]
    if mode not in ("cubic", "bicubic"):
        raise Unsupported(f"GridSample with mode {mode!r}")

    def near(v: tf.Tensor) -> tf.Tensor:
        return ((_ALPHA + 2) * v - (_ALPHA + 3)) * v * v + 1

    def far(v: tf.Tensor) -> tf.Tensor:
        return ((_ALPHA * v - 5 * _ALPHA) * v + 8 * _ALPHA) * v - 4 * _ALPHA

    return [base - 1, base, base + 1, base + 2], [far(d + 1), near(d), near(1 - d), far(2 - d)]


def clip_to_input(
    place: tf.Tensor, weight: tf.Tensor, size: Dim, low: tf.Tensor, high: tf.Tensor, padding: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return an element's index clamped to the input, and its weight, which is zero in the padding."""
    last = size - 1
    if padding == "reflection":
        place = reflect_coordinates(place, low, high)
    elif padding == "zeros":
        within = (place >= 0) & (place <= tf.cast(last, place.dtype))
        weight = tf.where(within, weight, tf.zeros_like(weight))
    return tf.clip_by_value(tf.cast(place, tf.int32), 0, last), weight


def box_corners(boxes: Value, from_centre: int) -> tf.Tensor:
    """Return boxes as two opposite corners; they may be given by centre and size."""
    boxes = tf.convert_to_tensor(boxes)
    if not from_centre:
        return boxes
    centre, size = boxes[..., :2], boxes[..., 2:]
    return tf.concat([centre - size / 2, centre + size / 2], -1)


@onnx_op("NonMaxSuppression")
def non_max_suppression(
    t, boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold, *, center_point_box
):
    batch, classes, count = t.shape(scores)
    boxes = box_corners(boxes, center_point_box)
    limit = (
        tf.zeros([], tf.int32)
        if max_output_boxes_per_class is None
        else tf.cast(tf.minimum(tf.reshape(max_output_boxes_per_class, []), tf.cast(count, tf.int64)), tf.int32)
    )
    limit = tf.maximum(limit, 0)
    overlap = tf.zeros([]) if iou_threshold is None else tf.reshape(iou_threshold, [])
    least = tf.constant(float("-inf")) if score_threshold is None else tf.reshape(score_threshold, [])

    def one(pair):
        image, kind = pair[0], pair[1]
        picked, valid = tf.raw_ops.NonMaxSuppressionV4(
            boxes=boxes[image],
            scores=tf.convert_to_tensor(scores)[image, kind],
            max_output_size=limit,
            iou_threshold=overlap,
            score_threshold=least,
            pad_to_max_output_size=True,
        )
        rows = tf.stack([tf.fill([limit], image), tf.fill([limit], kind), picked], 1)
        return rows, tf.range(limit) < valid

    pairs = tf.reshape(tf.stack(tf.meshgrid(tf.range(batch), tf.range(classes), indexing="ij"), -1), [-1, 2])
    signature = (tf.TensorSpec([None, 3], tf.int32), tf.TensorSpec([None], tf.bool))
    rows, valid = tf.map_fn(one, pairs, fn_output_signature=signature)
    return tf.cast(tf.boolean_mask(rows, valid), tf.int64)
