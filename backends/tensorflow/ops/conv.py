"""Convolutions. Data is channels-last; weights have ONNX's layout and are permuted when they are created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tensorflow as tf

from convert.errors import Unsupported
from convert.semantics.windows import Window

from ..constants import Constant
from ..emit import Dim, Emitter, Value, fusion_barrier
from ..rules import channels_last
from .shape import pack_dims
from .windows import kernel_shape_of, maximum, pad_spatial, spatial_shape, take_strided, windows

# Dtypes that TensorFlow's convolutions support; integers are converted to a wider one of them.
FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)

# oneDNN is slow if it fuses these (sum, Relu6, Elu, Swish) with a convolution whose weight is not reordered.
_SLOW_IF_FUSED = {"Add", "Sum", "Clip", "Elu", "Sigmoid", "Swish"}


@channels_last("Conv")
def conv(t, x, w, bias, *, auto_pad, dilations, group, kernel_shape, pads, strides):
    kernel = kernel_shape or kernel_shape_of(t, w)
    window = windows(t, x, kernel, strides, dilations, pads, auto_pad)
    y = convolve(t, x, w, window, group)
    if bias is None:
        # oneDNN fuses Pad, Conv3D and LeakyRelu (or an equivalent maximum) into a kernel that uses a slope of 1
        # (TensorFlow 2.21).
        return fusion_barrier(y) if len(kernel) == 3 else y
    if (window.strides[-1] > 1 and window.dilations[-1] > 1) or _may_hold_padding_only(window):
        # With a fused bias, oneDNN crashes the process if a window along the width holds padding only.
        y = fusion_barrier(y)
    # BiasAdd after a grouped convolution is fused into a kernel that exists with oneDNN only.
    y = tf.nn.bias_add(y, bias) if group == 1 and y.dtype.is_floating else y + bias
    lies = not isinstance(w, Constant) or w.variable
    return fusion_barrier(y) if lies and t.readers() & _SLOW_IF_FUSED else y


def _may_hold_padding_only(window: Window) -> bool:
    """Return whether a whole window fits into the padding along the width."""
    reach, amounts = window.spans[-1], (window.before[-1], window.after[-1])
    return isinstance(reach, int) and any(isinstance(p, int) and p >= reach for p in amounts)


def convolve(t: Emitter, x: tf.Tensor, w: Value, window: Window, group: int) -> tf.Tensor:
    """Return the convolution of x [N, spatial…, I] with w [O, I / group, kernel…]: [N, spatial…, O]."""
    rank = len(window.kernel)
    if rank > 3:
        raise Unsupported(f"a convolution over {rank} spatial dims")
    # Permute before splitting or reshaping: a weight is permuted when it is created, other values when the model runs.
    return _convolve(t, x, t.permuted(w, (*range(2, rank + 2), 1, 0)), window, group)


def _convolve(t: Emitter, x: tf.Tensor, kernel: tf.Tensor, window: Window, group: int) -> tf.Tensor:
    """Return the convolution with a kernel [kernel…, I / group, O]."""
    rank = len(window.kernel)
    if rank == 1:
        return _convolve_1d(t, x, kernel, window, group)
    if rank == 3:
        return _convolve_3d(t, x, kernel, window, group)
    if group > 1 and kernel.shape[-2] == 1:
        return _depthwise(t, x, kernel, window, group)
    if group > 1 and any(d > 1 for d in window.dilations):
        return _convolve_groups(t, x, kernel, window, group)
    x, kernel, window = _apart_from_one_column(t, x, kernel, window)
    x, padding = _padding_2d(x, window)
    return tf.nn.conv2d(x, kernel, window.strides, padding, dilations=window.dilations)


def _apart_from_one_column(
    t: Emitter, x: tf.Tensor, kernel: tf.Tensor, window: Window
) -> tuple[tf.Tensor, tf.Tensor, Window]:
    """Return an equivalent convolution that oneDNN computes correctly.

    oneDNN reads elements outside the window if there is a single input channel, a stride along the width only, and room
    for one window along the width (TensorFlow 2.21). A single window needs no stride, so the stride is dropped. If the
    width is unknown, a channel of zeros is added.
    """
    if kernel.shape[-2] != 1 or window.strides[-1] == 1 or window.strides[-2] > 1:
        return x, kernel, window
    width, reach = t.shape(x)[-2], window.spans[-1]
    windows_along = window.counts(spatial_shape(t, x))[-1]
    if not isinstance(windows_along, int) or not isinstance(reach, int):
        # No Pad here: oneDNN fuses one with the convolution and drops the added channel.
        return tf.concat([x, tf.zeros_like(x)], -1), tf.concat([kernel, tf.zeros_like(kernel)], -2), window
    if windows_along != 1:
        return x, kernel, window
    left = reach - width - window.before[-1]  # crop what the window does not cover
    return x, kernel, replace(window, strides=(*window.strides[:-1], 1), after=(*window.after[:-1], left))


def _padding_2d(x: tf.Tensor, window: Window) -> tuple[tf.Tensor, str | list[list[int]]]:
    """Return the input and the padding argument of conv2d: explicit if the pads are known, else the input is padded."""
    if window.is_unpadded:
        return x, "VALID"
    if window.same:
        return x, "SAME"
    amounts = (*window.before, *window.after)
    if all(isinstance(p, int) and p >= 0 for p in amounts):
        (top, left), (bottom, right) = window.before, window.after
        return x, [[0, 0], [top, bottom], [left, right], [0, 0]]
    return pad_spatial(x, window.before, window.after), "VALID"


def _convolve_1d(t: Emitter, x: tf.Tensor, kernel: tf.Tensor, window: Window, group: int) -> tf.Tensor:
    """Convolve over a height of one, with equal strides as depthwise kernels require."""
    s, d = window.strides[0], window.dilations[0]
    flat = Window((1, *window.kernel), (s, s), (d, d), (0, *window.before), (0, *window.after), window.same)
    x, kernel = tf.expand_dims(x, 1), tf.expand_dims(kernel, 0)
    if group > 1 and kernel.shape[-2] == 1:
        y = _depthwise(t, x, kernel, flat, group)
    elif group > 1 and d > 1:
        y = _convolve_groups(t, x, kernel, flat, group)
    else:
        x, padding = _padding_2d(x, flat)
        y = tf.nn.conv2d(x, kernel, (1, s), padding, dilations=(1, d))
    return tf.squeeze(y, [1])


def _depthwise(t: Emitter, x: tf.Tensor, kernel: tf.Tensor, window: Window, channels: int) -> tf.Tensor:
    """Convolve with one group per channel: kernel [kh, kw, C, O / C]."""
    multiplier = t.shape(kernel)[-1] // channels
    kernel = tf.reshape(kernel, pack_dims([*window.kernel, channels, multiplier]))
    if x.dtype == tf.float16:
        # The float16 kernel sums in half precision.
        return tf.cast(_depthwise_windows(tf.cast(x, tf.float32), tf.cast(kernel, tf.float32), window), x.dtype)
    return _depthwise_windows(x, kernel, window)


def _depthwise_windows(x: tf.Tensor, kernel: tf.Tensor, window: Window) -> tf.Tensor:
    strides, dilations = window.strides, window.dilations
    at_once = strides[0] == strides[1] and 1 in (max(strides), max(dilations))
    if at_once and window.has_same_pads(x.shape[1:-1]):
        return tf.nn.depthwise_conv2d(x, kernel, [1, *strides, 1], "SAME", dilations=dilations)
    if kernel.shape[-1] == 1 and _has_own_pads(x, window):
        # Explicit pads avoid a Pad, which copies all of x. With a fused bias they abort under oneDNN (TensorFlow 2.21).
        (top, left), (bottom, right) = window.before, window.after
        pads = [[0, 0], [top, bottom], [left, right], [0, 0]]
        return fusion_barrier(tf.nn.depthwise_conv2d(x, kernel, [1, *strides, 1], pads))
    x = pad_spatial(x, window.before, window.after)
    if strides[0] == strides[1] and set(dilations) == {1}:
        return tf.nn.depthwise_conv2d(x, kernel, [1, *strides, 1], "VALID")
    # Kernels do not support unequal strides, or strides with dilations. Compute all windows and drop some.
    return take_strided(tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "VALID", dilations=dilations), strides)


def _has_own_pads(x: tf.Tensor, window: Window) -> bool:
    """Return whether to pass pads to the depthwise kernel: the pads are known, and strides above 1 make x larger than
    the result.

    With explicit pads, bias and activation are not fused; otherwise this costs more than a Pad.
    """
    (high, wide), dilations, amounts = window.strides, set(window.dilations), (*window.before, *window.after)
    known = all(isinstance(p, int) and p >= 0 for p in amounts)
    return known and any(amounts) and high == wide > 1 and dilations == {1} and x.dtype in (tf.float32, tf.float64)


def _convolve_3d(t: Emitter, x: tf.Tensor, kernel: tf.Tensor, window: Window, group: int) -> tf.Tensor:
    if group > 1:
        return _convolve_groups(t, x, kernel, window, group)
    x, kernel, window = _apart_from_one_column(t, x, kernel, window)
    x = pad_spatial(x, window.before, window.after)
    if isinstance(x, tf.Tensor) and x.op.type in ("Pad", "PadV2"):
        # oneDNN fuses Pad and Conv3D into one operator, but TensorFlow infers its shape without the pads. It then
        # removes a slice that seems to cut nothing, and a mean that seems to be over one element (TensorFlow 2.21).
        x = fusion_barrier(x)
    if set(window.dilations) == {1}:
        return tf.nn.conv3d(x, kernel, [1, *window.strides, 1], "VALID")
    # The CPU kernel has no dilations; TensorFlow's space-to-batch form has no strides with them.
    y = tf.nn.convolution(x, kernel, padding="VALID", dilations=window.dilations)
    return take_strided(y, window.strides)


def _convolve_groups(t: Emitter, x: tf.Tensor, kernel: tf.Tensor, window: Window, group: int) -> tf.Tensor:
    """Convolve each group separately, for kernels without groups; the kernel is split along its output channels."""
    parts = zip(tf.split(x, group, -1), tf.split(kernel, group, -1), strict=True)
    return tf.concat([_convolve(t, part, own, window, 1) for part, own in parts], -1)


@channels_last("ConvTranspose")
def conv_transpose(
    t, x, w, bias, *, auto_pad, dilations, group, kernel_shape, output_padding, output_shape, pads, strides
):
    sizes, given = spatial_shape(t, x), Window.of(kernel_shape or kernel_shape_of(t, w), strides, dilations, pads)
    extra = output_padding or [0] * given.rank
    made = given.transposed(sizes, extra, auto_pad, output_shape, maximum)
    assert made is not None  # no size is None
    window, extra = made
    full = [(n - 1) * s + r for n, s, r in zip(sizes, window.strides, window.spans, strict=True)]
    order = (*range(2, window.rank + 2), 1, 0)
    moved = _dilate_kernel(t, t.permuted(w, order), window.dilations)
    if group == 1 and window.rank == 2 and window.is_transposed_same(extra):
        # TensorFlow Lite fuses a bias with such a convolution, but not with one whose result is cropped.
        shape = [t.shape(x)[0], *(n * s for n, s in zip(sizes, window.strides, strict=True)), t.shape(moved)[-2]]
        y = tf.nn.conv2d_transpose(x, moved, pack_dims(shape), window.strides, "SAME")
        return y if bias is None else tf.add(y, bias)
    y = _conv_transpose_groups(t, x, moved, window.strides, full, group)
    y = pad_spatial(y, [-b for b in window.before], [e - a for e, a in zip(extra, window.after, strict=True)])
    return y if bias is None else tf.add(y, bias)


def _dilate_kernel(t: Emitter, kernel: tf.Tensor, dilations: Sequence[int]) -> tf.Tensor:
    """Return the kernel [kernel…, O, I] with zeros between its elements."""
    for axis, d in enumerate(dilations):
        if d > 1:
            dims, k = t.shape(kernel)[:], t.shape(kernel)[axis]
            wide = tf.expand_dims(kernel, axis + 1)
            wide = tf.pad(wide, [[0, d - 1] if i == axis + 1 else [0, 0] for i in range(wide.shape.rank)])
            wide = tf.reshape(wide, pack_dims([*dims[:axis], k * d, *dims[axis + 1 :]]))
            kernel = wide[(slice(None),) * axis + (slice(0, (k - 1) * d + 1),)]
    return kernel


def _conv_transpose_groups(
    t: Emitter, x: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int], full: Sequence[Dim], group: int
) -> tf.Tensor:
    """Return the full result, (n − 1)·stride + kernel along each dim, before cropping; kernel [kernel…, O, I]."""
    if group == 1:
        return _conv_transpose(t, x, kernel, strides, full)
    per_group, channels = kernel.shape.as_list()[-2:]
    if per_group == 1 and group == channels and len(strides) == 2 and strides[0] == strides[1]:
        depthwise = tf.reshape(kernel, pack_dims([*t.shape(kernel)[:2], group, 1]))
        shape = pack_dims([t.shape(x)[0], *full, group])
        return tf.nn.depthwise_conv2d_backprop_input(shape, depthwise, x, [1, *strides, 1], "VALID")
    parts = zip(tf.split(x, group, -1), tf.split(kernel, group, -1), strict=True)
    return tf.concat([_conv_transpose(t, part, own, strides, full) for part, own in parts], -1)


def _conv_transpose(
    t: Emitter, x: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int], full: Sequence[Dim]
) -> tf.Tensor:
    rank, outputs = len(strides), t.shape(kernel)[-2]
    shape = [t.shape(x)[0], *full, outputs]
    if rank == 1:
        flat = pack_dims([shape[0], 1, *full, outputs])
        x, kernel = tf.expand_dims(x, 1), tf.expand_dims(kernel, 0)
        return tf.squeeze(tf.nn.conv2d_transpose(x, kernel, flat, (1, *strides), "VALID"), [1])
    if rank == 2:
        return tf.nn.conv2d_transpose(x, kernel, pack_dims(shape), strides, "VALID")
    if rank == 3:
        return tf.nn.conv3d_transpose(x, kernel, pack_dims(shape), [1, *strides, 1], "VALID")
    raise Unsupported(f"a transposed convolution over {rank} spatial dims")
