"""Convolutions. Data is channels-last, weights come as ONNX has them and are permuted when they are created."""

from __future__ import annotations

import tensorflow as tf

from convert.errors import Unsupported

from ..rules import channels_last
from .shape import packed
from .windows import Windows, kernel_shape_of, padded, spatial_shape, strided, windows

# Types that TensorFlow's convolutions compute in; integers are widened.
FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)


@channels_last("Conv")
def conv(t, x, w, bias, *, auto_pad, dilations, group, kernel_shape, pads, strides):
    kernel = kernel_shape or kernel_shape_of(w)
    if None in kernel:
        raise Unsupported("the shape of the kernel is not known")
    window = windows(spatial_shape(t, x), kernel, strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad)
    y = convolve(t, x, w, window, group)
    if bias is None:
        return y
    # BiasAdd after a grouped convolution is fused into a kernel that does not exist without oneDNN.
    return tf.nn.bias_add(y, bias) if group == 1 and y.dtype.is_floating else y + bias


def convolve(t, x, w, window: Windows, group: int):
    """Sum of products under each window: x [N, spatial…, I] with w [O, I / group, kernel…] gives [N, spatial…, O]."""
    rank = len(window.kernel)
    if rank == 1:
        return _convolve_1d(t, x, w, window, group)
    if rank > 3:
        raise Unsupported(f"a convolution over {rank} spatial dims")
    if rank == 3:
        return _convolve_3d(t, x, w, window, group)
    if group > 1 and w.shape.as_list()[1] == 1:
        return _depthwise(t, x, w, window, group)
    if group > 1 and any(d > 1 for d in window.dilations):
        return _by_groups(t, x, w, window, group)
    x, padding = _padding_2d(x, window)
    return tf.nn.conv2d(x, t.permuted(w, (2, 3, 1, 0)), window.strides, padding, dilations=window.dilations)


def _padding_2d(x, window: Windows):
    """The input and the padding argument of conv2d: explicit where the pads are known, done before where not."""
    if window.unpadded:
        return x, "VALID"
    amounts = (*window.before, *window.after)
    if all(isinstance(p, int) and p >= 0 for p in amounts):
        (top, left), (bottom, right) = window.before, window.after
        return x, [[0, 0], [top, bottom], [left, right], [0, 0]]
    return padded(x, window.before, window.after), "VALID"


def _convolve_1d(t, x, w, window: Windows, group: int):
    """As a convolution over a height of one (with equal strides, which depthwise kernels ask for)."""
    s, d = window.strides[0], window.dilations[0]
    flat = Windows((1, *window.kernel), (s, s), (d, d), (0, *window.before), (0, *window.after))
    if group > 1 and w.shape.as_list()[1] == 1:
        y = _depthwise(t, tf.expand_dims(x, 1), w, flat, group)
    elif group > 1 and d > 1:
        return _by_groups(t, x, w, window, group)
    else:
        x, padding = _padding_2d(tf.expand_dims(x, 1), flat)
        kernel = tf.expand_dims(t.permuted(w, (2, 1, 0)), 0)
        y = tf.nn.conv2d(x, kernel, (1, s), padding, dilations=(1, d))
    return tf.squeeze(y, [1])


def _depthwise(t, x, w, window: Windows, channels: int):
    """One group a channel: kernel [kh, kw, C, O / C]. Padded before: explicit pads and a bias abort under oneDNN."""
    multiplier = w.shape.as_list()[0] // channels
    moved = t.permuted(w, (2, 3, 1, 0)) if w.shape.rank == 4 else tf.expand_dims(t.permuted(w, (2, 1, 0)), 0)
    kernel = tf.reshape(moved, [*window.kernel, channels, multiplier])
    if x.dtype == tf.float16:
        # The kernel for halves sums in half precision.
        return tf.cast(_depthwise_windows(tf.cast(x, tf.float32), tf.cast(kernel, tf.float32), window), x.dtype)
    return _depthwise_windows(x, kernel, window)


def _depthwise_windows(x, kernel, window: Windows):
    strides, dilations = window.strides, window.dilations
    same = [((r - 1) // 2, r - 1 - (r - 1) // 2) for r in window.reach]
    if set(strides) == {1} and all(p == (b, a) for p, b, a in zip(same, window.before, window.after, strict=True)):
        return tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "SAME", dilations=dilations)
    x = padded(x, window.before, window.after)
    if strides[0] == strides[1] and set(dilations) == {1}:
        return tf.nn.depthwise_conv2d(x, kernel, [1, *strides, 1], "VALID")
    # Kernels have neither unequal strides nor strides with dilations: the windows left out are computed, and dropped.
    return strided(tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "VALID", dilations=dilations), strides)


def _convolve_3d(t, x, w, window: Windows, group: int):
    if group > 1:
        return _by_groups(t, x, w, window, group)
    x = padded(x, window.before, window.after)
    kernel = t.permuted(w, (2, 3, 4, 1, 0))
    if set(window.dilations) == {1}:
        return tf.nn.conv3d(x, kernel, [1, *window.strides, 1], "VALID")
    # The CPU's kernel has no dilations; TensorFlow's space-to-batch form has no strides with them.
    y = tf.nn.convolution(x, kernel, padding="VALID", dilations=window.dilations)
    return strided(y, window.strides)


def _by_groups(t, x, w, window: Windows, group: int):
    """Each group by itself, for kernels that know no groups; w is split along its output channels."""
    parts = zip(tf.split(x, group, -1), tf.split(w, group, 0), strict=True)
    return tf.concat([convolve(t, part, kernel, window, 1) for part, kernel in parts], -1)


@channels_last("ConvTranspose")
def conv_transpose(
    t, x, w, bias, *, auto_pad, dilations, group, kernel_shape, output_padding, output_shape, pads, strides
):
    kernel = kernel_shape or kernel_shape_of(w)
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    full = [(n - 1) * s + r for n, s, r in zip(spatial_shape(t, x), strides, reach, strict=True)]
    before, after = _transpose_pads(reach, full, strides, extra, pads, auto_pad, output_shape)
    if any(d > 1 for d in dilations):
        w = _dilated(w, dilations)
    y = _transposed_groups(t, x, w, strides, full, group)
    y = padded(y, [-b for b in before], [e - a for e, a in zip(extra, after, strict=True)])
    return y if bias is None else tf.add(y, bias)


def _transpose_pads(reach, full, strides, extra, pads, auto_pad, output_shape):
    """What to take off before and after each dim of the full result, output padding not counted."""
    rank = len(reach)
    same = output_shape is None and auto_pad.startswith("SAME")
    if output_shape is None and not same:
        pads = pads if pads is not None and auto_pad == "NOTSET" else [0] * 2 * rank
        return list(pads[:rank]), list(pads[rank:])
    if same:  # as many as n times the stride; n itself cancels out
        totals = [r - s + e for r, s, e in zip(reach, strides, extra, strict=True)]
    else:
        totals = [f + e - o for f, e, o in zip(full, extra, output_shape[-rank:], strict=True)]
    small = [total // 2 for total in totals]
    large = [total - s for total, s in zip(totals, small, strict=True)]
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


def _dilated(w, dilations):
    """[I, O, kernel…] with zeros between the elements of the kernel."""
    for axis, d in enumerate(dilations, 2):
        if d > 1:
            k = w.shape.as_list()[axis]
            w = tf.expand_dims(w, axis + 1)
            w = tf.pad(w, [[0, d - 1] if i == axis + 1 else [0, 0] for i in range(w.shape.rank)])
            shape = w.shape.as_list()
            w = tf.reshape(w, [*shape[:axis], k * d, *shape[axis + 2 :]])
            w = w[(slice(None),) * axis + (slice(0, (k - 1) * d + 1),)]
    return w


def _transposed_groups(t, x, w, strides, full, group):
    """The full result, of (n − 1)·stride + kernel along each dim, before pads are taken off."""
    if group == 1:
        return _transposed(t, x, w, strides, full)
    per_group = w.shape.as_list()[1]
    if per_group == 1 and group == w.shape.as_list()[0] and len(strides) == 2 and strides[0] == strides[1]:
        kernel = tf.reshape(t.permuted(w, (2, 3, 0, 1)), [*w.shape.as_list()[2:], group, 1])
        shape = packed([t.shape(x)[0], *full, group])
        return tf.nn.depthwise_conv2d_backprop_input(shape, kernel, x, [1, *strides, 1], "VALID")
    parts = zip(tf.split(x, group, -1), tf.split(w, group, 0), strict=True)
    return tf.concat([_transposed(t, part, kernel, strides, full) for part, kernel in parts], -1)


def _transposed(t, x, w, strides, full):
    rank, outputs = len(strides), w.shape.as_list()[1]
    shape = [t.shape(x)[0], *full, outputs]
    if rank == 1:
        kernel = tf.expand_dims(t.permuted(w, (2, 1, 0)), 0)
        flat = packed([shape[0], 1, *full, outputs])
        return tf.squeeze(tf.nn.conv2d_transpose(tf.expand_dims(x, 1), kernel, flat, (1, *strides), "VALID"), [1])
    if rank == 2:
        return tf.nn.conv2d_transpose(x, t.permuted(w, (2, 3, 1, 0)), packed(shape), strides, "VALID")
    if rank == 3:
        kernel = t.permuted(w, (2, 3, 4, 1, 0))
        return tf.nn.conv3d_transpose(x, kernel, packed(shape), [1, *strides, 1], "VALID")
    raise Unsupported(f"a transposed convolution over {rank} spatial dims")
