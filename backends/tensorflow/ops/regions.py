"""Regions of interest and deformed windows: sampling at fractional places. Data is channels-last."""

from __future__ import annotations

import itertools

import tensorflow as tf

from convert.errors import Unsupported

from ..rules import channels_last
from .shape import packed
from .windows import kernel_shape_of


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
    rows = samples(rois[:, 1], rois[:, 3], output_height, height, sampling_ratio, half)
    columns = samples(rois[:, 0], rois[:, 2], output_width, width, sampling_ratio, half)
    images = tf.gather(x, tf.cast(batch_indices, tf.int32))
    if mode == "avg":
        down, across = (averages(s, n) for s, n in ((rows, height), (columns, width)))
        y = tf.einsum("nph,nhwc->npwc", tf.cast(down, x.dtype), images)
        return tf.einsum("nqw,npwc->npqc", tf.cast(across, x.dtype), y)
    if mode != "max":
        raise Unsupported(f"RoiAlign with mode {mode!r}")
    return largest(images, rows, columns)


def samples(start, end, bins: int, size, ratio: int, half: bool):
    """Along one axis: lower and upper neighbour of each sample, their weights, and which samples count.

    Each is [rois, bins, samples a bin]; a bin of adaptive size has as many as its roi needs, the others are masked.
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
    weights = [tf.where(inside & counted, w, 0.0) for w in (1 - upper, upper)]
    low = tf.cast(low, tf.int32)
    return (low, tf.minimum(low + 1, tf.cast(last, tf.int32))), weights, counted


def averages(sampled, size):
    """The share of each input element in each bin along one axis: [rois, bins, size]."""
    places, weights, counted = sampled
    total = tf.reduce_sum(tf.cast(counted, tf.float32), -1, keepdims=True)
    share = sum(tf.one_hot(p, size) * w[..., None] for p, w in zip(places, weights, strict=True))
    return tf.reduce_sum(share, 2) / tf.maximum(total, 1.0)


def largest(images, rows, columns):
    """The largest of all weighted neighbours of a bin's samples, as ONNX's reference and onnxruntime have it."""
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


@channels_last("DeformConv")
def deform_conv(t, x, w, offset, bias, mask, *, dilations, group, kernel_shape, offset_group, pads, strides):
    kernel = kernel_shape or kernel_shape_of(w)
    if len(kernel) != 2 or None in kernel:
        raise Unsupported("a deformed convolution over other than two spatial dims")
    strides, dilations, pads = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
    w = tf.convert_to_tensor(w)
    offsets = tf.reshape(offset, _grouped(t, offset, offset_group, (*kernel, 2)))
    masks = None if mask is None else tf.reshape(mask, _grouped(t, mask, offset_group, kernel))
    n, _, height, width = t.shape(offset)
    rows = tf.cast(tf.range(height) * strides[0] - pads[0], x.dtype)[:, None]
    columns = tf.cast(tf.range(width) * strides[1] - pads[1], x.dtype)[None, :]
    y = None
    for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
        down = rows + i * dilations[0] + offsets[:, :, i, j, 0]
        across = columns + j * dilations[1] + offsets[:, :, i, j, 1]
        sampled = bilinear(t, x, down, across, offset_group)
        if masks is not None:
            sampled = sampled * masks[:, :, i, j][..., None]
        # Offset groups divide the channels in order.
        sampled = tf.reshape(tf.transpose(sampled, [0, 2, 3, 1, 4]), packed([n, height, width, t.shape(x)[-1]]))
        part = by_group(sampled, w[:, :, i, j], group)
        y = part if y is None else y + part
    return y if bias is None else y + bias


def _grouped(t, x, groups: int, kernel):
    n, _, height, width = t.shape(x)
    return packed([n, groups, *kernel, height, width])


def bilinear(t, x, down, across, groups: int):
    """x sampled at [batch, groups, rows, columns] places, zero outside: [batch, groups, rows, columns, channels]."""
    n, height, width, channels = t.shape(x)
    x = tf.transpose(tf.reshape(x, packed([n, height * width, groups, channels // groups])), [0, 2, 1, 3])
    total = None
    top, left = tf.floor(down), tf.floor(across)
    for dy, dx in itertools.product((0, 1), (0, 1)):
        row, column = top + dy, left + dx
        weight = (1 - tf.abs(down - row)) * (1 - tf.abs(across - column))
        inside = (row >= 0) & (row < tf.cast(height, row.dtype)) & (column >= 0) & (column < tf.cast(width, row.dtype))
        index = tf.cast(row, tf.int32) * width + tf.cast(column, tf.int32)
        value = tf.gather(x, tf.where(inside, index, 0), axis=2, batch_dims=2)
        value = value * tf.where(inside, weight, tf.zeros([], weight.dtype))[..., None]
        total = value if total is None else total + value
    return total


def by_group(x, w, group: int):
    """Each group of channels times its [outputs, inputs] weights."""
    if group == 1:
        return tf.einsum("nhwc,oc->nhwo", x, w)
    parts = zip(tf.split(x, group, -1), tf.split(w, group, 0), strict=True)
    return tf.concat([tf.einsum("nhwc,oc->nhwo", a, b) for a, b in parts], -1)
