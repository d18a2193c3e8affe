"""Convolutions. Data is channels-last; kernels have ONNX's layout and are permuted when they are assigned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported
from convert.semantics.windows import axis_pads, split_pads, transposed_same_pads

from ..constants import Constant
from ..emitter import Emitter, Value
from ..rules import channels_last
from ..tensors import fusion_barrier
from ..windows import KerasWindows, layer_by_rank, pad_zeros, spatial_sizes, take_strided, windows


@channels_last("Conv")
def conv(k, x, w, bias, *, auto_pad, dilations, group, kernel_shape, pads, strides):
    if x.shape[-1] is None:
        raise Unsupported("channels of dynamic number")
    kernel = kernel_shape or list(w.shape[2:])
    window = windows(spatial_sizes(x), kernel, strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad)
    window = _without_negative_pads(window, spatial_sizes(x))
    if group == 1 and max(window.dilations) == 1:
        x, w, window = _apart_from_one_column(x, w, window)
    if not window.has_same_pads:
        x = pad_zeros(x, window.before, window.after)
        # oneDNN fuses Pad and Conv3D into one operator, but TensorFlow infers its shape without the pads. It then
        # removes a slice that seems to cut nothing, and a mean that seems to be over one element (2.21). If a window
        # lies entirely in the pads after the input, oneDNN reads beyond them and may crash the process.
        beyond = _end_padding(x) >= window.reach[-1]
        x = fusion_barrier(x) if beyond or (len(kernel) == 3 and _is_padded(x)) else x
    elif len(kernel) == 3 and _is_padded(x):
        # Under oneDNN the layer applies the pads of the Pad before it, and not its own (TensorFlow 2.21).
        x = ops.concatenate([x[:, :1], x[:, 1:]], 1)
    # Layers have either strides or dilations; depthwise layers need equal strides.
    depthwise = group > 1 and w.shape[1] == 1 and len(kernel) < 3
    whole = max(window.dilations) == 1 and not (depthwise and len(set(window.strides)) > 1)
    if not whole and window.same and max(window.strides) > 1:
        raise Unsupported("auto_pad with strides and dilations, or with unequal strides of a depthwise convolution")
    arguments = {
        "strides": window.strides if whole else [1] * len(kernel),
        "padding": "same" if window.has_same_pads else "valid",
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


def _without_negative_pads(window: KerasWindows, sizes: Sequence[int | None]) -> KerasWindows:
    """Return the window with explicit pads if TensorFlow's Conv3D would compute negative ones for "same".

    Without oneDNN, TensorFlow 2.21 pads by (windows - 1) · stride + reach - size, without the maximum with 0. If a
    stride is reach + 2 or more, the first window begins inside the input. Raises `Unsupported` if the pads depend on an
    unknown size.
    """
    steps = list(zip(sizes, window.reach, window.strides, strict=True))
    if not window.same or len(steps) < 3 or all(s < r + 2 for _, r, s in steps):
        return window
    pads = []
    for n, r, s in steps:
        if n is None and r > 2 and s > 1:
            raise Unsupported(
                "auto_pad over three dims of dynamic size with long strides",
                hint="give the sizes: --input NAME:DTYPE[DIMS]",
            )
        # The last window of at most two elements ends at the last element or one after it.
        pads.append(((r - 1) // 2, r // 2) if n is None else axis_pads(n, r, s, (0, 0), "SAME_UPPER"))
    return replace(window, before=tuple(b for b, _ in pads), after=tuple(a for _, a in pads), same=False)


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


def _apart_from_one_column(x: KerasTensor, w: Value, window: KerasWindows) -> tuple[KerasTensor, Value, KerasWindows]:
    """Return an equivalent convolution that oneDNN computes correctly.

    oneDNN reads elements outside the window if there is a single input channel, a stride along the width only, and room
    for one window along the width (TensorFlow 2.21). A single window needs no stride, so the stride is dropped. If the
    width is unknown, a channel of zeros is added.
    """
    strides, width, reach = window.strides, x.shape[-2], window.reach[-1]
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
    kernel = list(kernel_shape or w.shape[2:])
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    window = KerasWindows(tuple(kernel), tuple(strides), tuple(dilations))
    before, after = _crop_amounts(window, spatial_sizes(x), extra, pads, auto_pad, output_shape)
    if not isinstance(w, Constant) or not (bias is None or isinstance(bias, Constant)):
        raise Unsupported("weights computed at run time")
    if x.shape[-1] is None:
        raise Unsupported("channels of dynamic number")
    if max(dilations) > 1:  # Keras does not combine them with strides; without oneDNN the CPU kernel has no dilations
        w, kernel, dilations = _dilate_kernel(w, dilations), list(window.reach), [1] * rank
    # If the result is padded, the bias is added afterwards.
    inside = min(*before, *after, 0) == 0
    arguments = {"kernel_size": tuple(kernel), "strides": tuple(strides), "dilation_rate": tuple(dilations)}
    y = _conv_transpose_groups(k, x, w, bias if inside else None, group, arguments)
    y = pad_zeros(y, [-b for b in before], [-a for a in after])
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


def _crop_amounts(
    window: KerasWindows,
    sizes: Sequence[int | None],
    extra: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
    output_shape: Sequence[int] | None,
) -> tuple[list[int], list[int]]:
    """Return how much to crop before and after the full result, (n − 1)·stride + max(stride, reach) along each dim."""
    rank = len(sizes)
    reach, strides = window.reach, window.strides
    if output_shape is None and not auto_pad.startswith("SAME"):
        own = list(pads) if pads is not None and auto_pad == "NOTSET" else [0] * 2 * rank
        before, after = own[:rank], own[rank:]
    else:
        if output_shape is None:
            split = [transposed_same_pads(r, s, e, auto_pad) for r, s, e in zip(reach, strides, extra, strict=True)]
        else:
            known = [n for n in sizes if n is not None]
            if len(known) < rank:
                raise Unsupported("output_shape over a dim of dynamic size")
            full = [(n - 1) * s + r for n, s, r in zip(known, strides, reach, strict=True)]
            split = [split_pads(f + e - o, auto_pad) for f, e, o in zip(full, extra, output_shape[-rank:], strict=True)]
        before, after = [b for b, _ in split], [a for _, a in split]
    # A stride longer than the kernel leaves zeros after the last window.
    tail = [max(s - r, 0) for s, r in zip(strides, reach, strict=True)]
    return before, [a - e + t for a, e, t in zip(after, extra, tail, strict=True)]


def _dilate_kernel(w: Constant, dilations: Sequence[int]) -> Constant:
    """Return the kernel [I, O, kernel…] with zeros between its elements."""
    reach = [(n - 1) * d + 1 for n, d in zip(w.shape[2:], dilations, strict=True)]

    def spread(a: np.ndarray) -> np.ndarray:
        out = np.zeros((*a.shape[:2], *reach), a.dtype)
        out[(slice(None), slice(None), *(slice(None, None, d) for d in dilations))] = a
        return out

    return w.map((*w.shape[:2], *reach), spread)
