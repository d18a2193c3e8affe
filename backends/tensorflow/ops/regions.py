"""Regions of interest: sampling at fractional coordinates. Data is channels-last."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import tensorflow as tf

from convert.errors import Unsupported

from ..emit import Dim
from ..rules import channels_last


@channels_last("RoiAlign")
def roi_align(
    t,
    x,
    rois,
    batch_indices,
    *,
    coordinate_transformation_mode,
    mode,
    output_height,
    output_width,
    sampling_ratio,
    spatial_scale,
):
    half = coordinate_transformation_mode == "half_pixel"
    rois = tf.cast(rois, tf.float32) * spatial_scale - (0.5 if half else 0.0)
    _, height, width, _ = t.shape(x)
    rows = axis_samples(rois[:, 1], rois[:, 3], output_height, height, sampling_ratio, half)
    columns = axis_samples(rois[:, 0], rois[:, 2], output_width, width, sampling_ratio, half)
    images = tf.gather(x, tf.cast(batch_indices, tf.int32))
    if mode == "avg":
        down, across = (bin_averages(s, n) for s, n in ((rows, height), (columns, width)))
        y = tf.einsum("nph,nhwc->npwc", tf.cast(down, x.dtype), images)
        return tf.einsum("nqw,npwc->npqc", tf.cast(across, x.dtype), y)
    if mode != "max":
        raise Unsupported(f"RoiAlign with mode {mode!r}")
    return largest_samples(images, rows, columns)


def axis_samples(
    start: tf.Tensor, end: tf.Tensor, bins: int, size: Dim, ratio: int, half: bool
) -> tuple[tuple[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return, along one axis, lower and upper neighbour of each sample, their weights, and a mask of valid samples.

    Each is [rois, bins, samples per bin]. With an adaptive ratio, a bin has as many samples as its roi needs; the
    others are masked.
    """
    extent = end - start
    extent = extent if half else tf.maximum(extent, 1.0)
    bin_size = extent / bins
    own = tf.fill(tf.shape(start), ratio) if ratio > 0 else tf.cast(tf.math.ceil(bin_size), tf.int32)
    most = ratio if ratio > 0 else tf.maximum(tf.reduce_max(own), 1)
    number = tf.range(most)
    counted = tf.broadcast_to((number[None, :] < own[:, None])[:, None, :], tf.stack([tf.shape(start)[0], bins, most]))
    fraction = (tf.cast(number, tf.float32)[None, :] + 0.5) / tf.cast(tf.maximum(own, 1), tf.float32)[:, None]
    place = tf.range(bins, dtype=tf.float32)[None, :, None] + fraction[:, None, :]
    place = start[:, None, None] + place * bin_size[:, None, None]
    last = tf.cast(size, tf.float32) - 1
    inside = (place >= -1.0) & (place <= last + 1)
    place = tf.clip_by_value(place, 0.0, last)
    low = tf.floor(place)
    upper = place - low
    lower = 1 - upper
    weights = tf.where(inside & counted, lower, 0.0), tf.where(inside & counted, upper, 0.0)
    low = tf.cast(low, tf.int32)
    return (low, tf.minimum(low + 1, tf.cast(last, tf.int32))), weights, counted


def bin_averages(sampled: tuple[Sequence[tf.Tensor], Sequence[tf.Tensor], tf.Tensor], size: Dim) -> tf.Tensor:
    """Return the weight of each input element in each bin along one axis: [rois, bins, size]."""
    places, weights, counted = sampled
    total = tf.reduce_sum(tf.cast(counted, tf.float32), -1, keepdims=True)
    share = sum(tf.one_hot(p, size) * w[..., None] for p, w in zip(places, weights, strict=True))
    return tf.reduce_sum(share, 2) / tf.maximum(total, 1.0)


def largest_samples(
    images: tf.Tensor,
    rows: tuple[Sequence[tf.Tensor], Sequence[tf.Tensor], tf.Tensor],
    columns: tuple[Sequence[tf.Tensor], Sequence[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Return the maximum over all weighted neighbours of a bin's samples, as ONNX's reference and onnxruntime do."""
    lowest = tf.constant(images.dtype.min, images.dtype)
    best = None
    counted = rows[2][:, :, None, :, None] & columns[2][:, None, :, None, :]
    for (py, wy), (px, wx) in itertools.product(zip(*rows[:2], strict=True), zip(*columns[:2], strict=True)):
        y = tf.gather(images, py, axis=1, batch_dims=1)
        n, bins, each = (tf.shape(px)[i] for i in range(3))
        # [rois, rows, samples, columns · samples, channels]
        y = tf.gather(tf.transpose(y, [0, 3, 1, 2, 4]), tf.reshape(px, [n, -1]), axis=1, batch_dims=1)
        shape = tf.concat([[n, bins, each], tf.shape(y)[2:]], 0)
        y = tf.transpose(tf.reshape(y, shape), [0, 3, 1, 4, 2, 5])
        weight = wy[:, :, None, :, None] * wx[:, None, :, None, :]
        value = tf.where(counted[..., None], y * tf.cast(weight, y.dtype)[..., None], lowest)
        value = tf.reduce_max(value, [3, 4])
        best = value if best is None else tf.maximum(best, value)
    return best


@channels_last("MaxRoiPool")
def max_roi_pool(t, x, rois, *, pooled_shape, spatial_scale):
    _, height, width, _ = t.shape(x)
    # Rows of `rois` are batch index, x1, y1, x2, y2; ties are rounded away from zero.
    scaled = rois[:, 1:] * tf.constant(spatial_scale, rois.dtype)
    corners = tf.cast(tf.sign(scaled) * tf.floor(tf.abs(scaled) + 0.5), tf.int32)
    down = inside_mask(corners[:, 1], corners[:, 3], pooled_shape[0], height)
    across = inside_mask(corners[:, 0], corners[:, 2], pooled_shape[1], width)
    lowest = tf.constant(x.dtype.min, x.dtype)
    # [rois, height, bins, width, channels], then [rois, bins, height, bins, channels]
    images = tf.gather(x, tf.cast(rois[:, 0], tf.int32))[:, :, None]
    y = tf.reduce_max(tf.where(across[:, None, :, :, None], images, lowest), 3)
    y = tf.reduce_max(tf.where(down[:, :, :, None, None], y[:, None], lowest), 2)
    filled = tf.reduce_any(down, 2)[:, :, None] & tf.reduce_any(across, 2)[:, None, :]
    return tf.where(filled[..., None], y, tf.zeros([], x.dtype))


def inside_mask(start: tf.Tensor, end: tf.Tensor, bins: int, size: Dim) -> tf.Tensor:
    """Return which elements along one axis lie in each bin of each region: booleans [regions, bins, size]."""
    extent = tf.cast(tf.maximum(end - start + 1, 1), tf.float32) / bins
    number = tf.range(bins, dtype=tf.float32)[None, :]
    first = start[:, None] + tf.cast(tf.floor(number * extent[:, None]), tf.int32)
    after = start[:, None] + tf.cast(tf.math.ceil((number + 1) * extent[:, None]), tf.int32)
    place = tf.range(size)[None, None, :]
    return (place >= first[..., None]) & (place < after[..., None])
