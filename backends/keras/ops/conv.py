"""Convolutions. Data is channels-last; kernels have ONNX's layout and are permuted when they are assigned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported
from convert.semantics.windows import Window

from ..constants import Constant
from ..emitter import Emitter, Value
from ..rules import channels_last
from ..tensors import fusion_barrier
from ..windows import layer_by_rank, pad_zeros, spatial_sizes, take_strided, windows


@channels_last("Conv")
def conv(k, x, w, bias, *, auto_pad, dilations, group, kernel_shape, pads, strides):
    if x.shape[-1] is None:
        raise Unsupported("channels of dynamic number")
    kernel = kernel_shape or list(w.shape[2:])
    # Layers have either strides or dilations; depthwise layers need equal strides.
    depthwise = group > 1 and w.shape[1] == 1 and len(kernel) < 3
    steps, gaps = strides or [1] * len(kernel), dilations or [1] * len(kernel)
    whole = max(gaps) == 1 and not (depthwise and len(set(steps)) > 1)
    window = windows(x, kernel, strides, dilations, pads, auto_pad, whole and not _has_long_strides(kernel, steps))
    if group == 1 and max(window.dilations) == 1:
        x, w, window = _apart_from_one_column(x, w, window)
    same = window.has_same_pads(spatial_sizes(x)) and (whole or max(steps) == 1)
    same = same and not _has_long_strides(kernel, steps)
    if not same:
        x = pad_zeros(x, window.pairs)
        # oneDNN fuses Pad and Conv3D into one operator, but TensorFlow infers its shape without the pads. It then
        # removes a slice that seems to cut nothing, and a mean that seems to be over one element (2.21). If a window
        # lies entirely in the pads after the input, oneDNN reads beyond them and may crash the process.
        beyond = _end_padding(x) >= window.spans[-1]
        x = fusion_barrier(x) if beyond or (len(kernel) == 3 and _is_padded(x)) else x
    elif len(kernel) == 3 and _is_padded(x):
        # Under oneDNN the layer applies the pads of the Pad before it, and not its own (TensorFlow 2.21).
        x = ops.concatenate([x[:, :1], x[:, 1:]], 1)
    arguments = {
        "strides": window.strides if whole else [1] * len(kernel),
        "padding": "same" if same else "valid",
        "dilation_rate": window.dilations,
        "data_format": "channels_last",
    }
    if not isinstance(w, Constant) or not (bias is None or isinstance(bias, Constant)):
        y = _dynamic_conv(k, x, w, bias, group, arguments)
    elif depthwise:
        y = _depthwise(k, x, w, bias, group, arguments)
    else:
        order = (*range(2, len(w.shape)), 1, 0)
        weights = {"kernel": w.permuted(*order), "bias": bias}
        y = k.layer(
            layer_by_rank("Conv", len(kernel)),
            x,
            weights,
            filters=w.shape[0],
            kernel_size=tuple(kernel),
            groups=group,
            use_bias=bias is not None,
            **arguments,
        )
    return y if whole else take_strided(y, window.strides)


def _has_long_strides(kernel: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether TensorFlow's Conv3D might compute negative pads for "same", without oneDNN (TensorFlow 2.21).

    It pads by (windows - 1) · stride + kernel - size, without the maximum with 0. If a stride is kernel + 2 or more,
    the first window begins inside the input.
    """
    return len(kernel) == 3 and any(s >= n + 2 for n, s in zip(kernel, strides, strict=True))


def _is_padded(x: KerasTensor) -> bool:
    """Return whether a padding operation created x, ignoring layers without effect at inference."""
    operation = _maker(x)
    return isinstance(operation, layers.ZeroPadding3D) or type(operation).__name__ == "Pad"


def _maker(x: KerasTensor) -> Any:
    """Return the layer or operation that created a tensor, ignoring layers without effect at inference."""
    operation = x._keras_history.operation
    while isinstance(operation, (layers.Identity, layers.Dropout)):
        operation = operation.input._keras_history.operation
    return operation


def _end_padding(x: KerasTensor) -> int:
    """Return how much the last spatial dim of [N, spatial…, C] was padded at its end."""
    operation = _maker(x)
    if isinstance(operation, layers.ZeroPadding1D):
        return int(operation.padding[1])
    if isinstance(operation, (layers.ZeroPadding2D, layers.ZeroPadding3D)):
        return int(operation.padding[-1][1])
    return int(operation.pad_width[-2][1]) if type(operation).__name__ == "Pad" else 0


def _apart_from_one_column(x: KerasTensor, w: Value, window: Window) -> tuple[KerasTensor, Value, Window]:
    """Return an equivalent convolution that oneDNN computes correctly.

    oneDNN reads elements outside the window if there is a single input channel, a stride along the width only, and room
    for one window along the width (TensorFlow 2.21). A single window needs no stride, so the stride is dropped. If the
    width is unknown, a channel of zeros is added.
    """
    strides, width, reach = window.strides, x.shape[-2], window.spans[-1]
    if x.shape[-1] != 1 or len(strides) < 2 or strides[-1] == 1 or strides[-2] > 1:
        return x, w, window
    if width is not None and not window.same:
        if width + window.before[-1] + window.after[-1] >= reach + strides[-1]:
            return x, w, window
        after = (*window.after[:-1], reach - width - window.before[-1])  # crop what the window does not cover
        return x, w, replace(window, strides=(*strides[:-1], 1), after=after)
    if width is not None and width > strides[-1]:
        return x, w, window
    x = ops.concatenate([x, ops.zeros_like(x)], -1)
    if isinstance(w, Constant):
        wide = (w.shape[0], 2, *w.shape[2:])
        return x, w.map(wide, lambda a: np.concatenate([a, np.zeros_like(a)], 1)), window
    return x, ops.concatenate([w, ops.zeros_like(w)], 1), window


def _depthwise(
    k: Emitter, x: KerasTensor, w: Constant, bias: Value, channels: int, arguments: dict[str, Any]
) -> KerasTensor:
    """Convolve with one group per channel: the kernel is [kernel…, C, O / C]."""
    multiplier, kernel = w.shape[0] // channels, w.shape[2:]
    order = (*range(2, 2 + len(kernel)), 0, 1)
    content = w.map(
        (*kernel, channels, multiplier), lambda a: a.reshape(channels, multiplier, *kernel).transpose(order)
    )
    return k.layer(
        layer_by_rank("DepthwiseConv", len(kernel)),
        x,
        {"kernel": content, "bias": bias},
        kernel_size=kernel,
        depth_multiplier=multiplier,
        use_bias=bias is not None,
        **arguments,
    )


def _dynamic_conv(
    k: Emitter, x: KerasTensor, w: KerasTensor, bias: Value, group: int, arguments: dict[str, Any]
) -> KerasTensor:
    """Convolve with a kernel that the model computes."""
    kernel = ops.transpose(k.tensor(w), (*range(2, len(w.shape)), 1, 0))
    if len(w.shape) > 5:
        raise Unsupported(f"{len(w.shape) - 2} spatial dims")
    if group > 1:
        parts = zip(ops.split(x, group, -1), ops.split(kernel, group, -1), strict=True)
        y = ops.concatenate([ops.conv(part, own, **arguments) for part, own in parts], -1)
    else:
        y = ops.conv(x, kernel, **arguments)
    return y if bias is None else ops.add(y, k.tensor(bias))


@channels_last("ConvTranspose")
def conv_transpose(
    k, x, w, bias, *, auto_pad, dilations, group, kernel_shape, output_padding, output_shape, pads, strides
):
    made = Window.of(kernel_shape or w.shape[2:], strides, dilations, pads).transposed(
        spatial_sizes(x), output_padding or [0] * (len(x.shape) - 2), auto_pad, output_shape
    )
    if made is None:
        raise Unsupported("output_shape over a dim of dynamic size")
    if not isinstance(w, Constant) or not (bias is None or isinstance(bias, Constant)):
        raise Unsupported("weights computed at run time")
    if x.shape[-1] is None:
        raise Unsupported("channels of dynamic number")
    window, extra = made
    # Keras's layer returns (n − 1)·stride + max(stride, span) elements along each dim.
    tails = [e - max(s - r, 0) for e, s, r in zip(extra, window.strides, window.spans, strict=True)]
    crop = [(-b, t - a) for (b, a), t in zip(window.pairs, tails, strict=True)]
    if max(window.dilations) > 1:  # Keras does not combine them with strides, nor the CPU kernel without oneDNN
        w = _dilate_kernel(w, window.dilations)
    # If the result is padded, the bias is added afterwards.
    inside = max(map(max, crop)) <= 0
    arguments = {"kernel_size": window.spans, "strides": window.strides, "dilation_rate": (1,) * window.rank}
    y = _conv_transpose_groups(k, x, w, bias if inside else None, group, arguments)
    y = pad_zeros(y, crop)
    return y if bias is None or inside else ops.add(y, k.tensor(bias))


def _conv_transpose_groups(
    k: Emitter, x: KerasTensor, w: Constant, bias: Constant | None, group: int, arguments: dict[str, Any]
) -> KerasTensor:
    """Convolve each group with its own layer; Keras's transposed convolutions have no groups."""
    kind, order = layer_by_rank("Conv", len(w.shape) - 2).__name__ + "Transpose", (*range(2, len(w.shape)), 1, 0)
    inputs, outputs = w.shape[0] // group, w.shape[1]
    parts = ops.split(x, group, -1) if group > 1 else [x]
    made = []
    for i, part in enumerate(parts):
        own = w if group == 1 else _part_rows(w, i, inputs)
        mine = bias if bias is None or group == 1 else _part_rows(bias, i, outputs)
        config = {**arguments, "filters": outputs, "use_bias": bias is not None, "data_format": "channels_last"}
        weights = {"kernel": own.permuted(*order), "bias": mine}
        made.append(k.layer(getattr(layers, kind), part, weights, padding="valid", **config))
    return made[0] if group == 1 else ops.concatenate(made, -1)


def _part_rows(x: Constant, index: int, size: int) -> Constant:
    """Return the `index`-th group of `size` rows of a constant."""
    return x.map((size, *x.shape[1:]), lambda a: a[index * size : (index + 1) * size])


def _dilate_kernel(w: Constant, dilations: Sequence[int]) -> Constant:
    """Return the kernel [I, O, kernel…] with zeros between its elements."""
    reach = [(n - 1) * d + 1 for n, d in zip(w.shape[2:], dilations, strict=True)]

    def spread(a: np.ndarray) -> np.ndarray:
        out = np.zeros((*a.shape[:2], *reach), a.dtype)
        out[(slice(None), slice(None), *(slice(None, None, d) for d in dilations))] = a
        return out

    return w.map((*w.shape[:2], *reach), spread)
