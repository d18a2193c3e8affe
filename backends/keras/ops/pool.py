"""Pooling over windows and over all spatial dims. Data is channels-last."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from keras import KerasTensor, ops

from convert.errors import Unsupported

from ..emitter import Emitter
from ..rules import channels_last
from ..tensors import halves_in_float32, is_floating
from ..windows import KerasWindows, layer_by_rank, pad_value, pad_zeros, spatial_sizes, windows


@channels_last("MaxPool")
def max_pool(k, x, *, auto_pad, ceil_mode, dilations, kernel_shape, pads, storage_order, strides):
    if k.outputs > 1:
        raise Unsupported("the indices of a MaxPool")
    window = windows(
        spatial_sizes(x),
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    floating = is_floating(x)
    plain = set(window.dilations) == {1} and floating
    if plain and window.has_same_pads:
        return _pool_layer(k, "MaxPooling", x, window)
    if window.same:
        raise Unsupported("auto_pad of a MaxPool with dilations, or of integers")
    lowest = -np.inf if floating else int(np.iinfo(x.dtype).min)
    x = pad_value(x, window.before, window.after, lowest)
    return _pool_layer(k, "MaxPooling", x, window.bare) if plain else _pool_axes(x, window, ops.maximum)


def _pool_layer(k: Emitter, kind: str, x: KerasTensor, window: KerasWindows) -> KerasTensor:
    return k.layer(
        layer_by_rank(kind, len(window.kernel)),
        x,
        pool_size=window.kernel,
        strides=window.strides,
        padding="same" if window.has_same_pads else "valid",
        data_format="channels_last",
    )


def _pool_axes(x: KerasTensor, window: KerasWindows, join: Callable[..., KerasTensor]) -> KerasTensor:
    """Combine the elements of each window, one axis after the other."""
    for axis, (n, d, s, r) in enumerate(
        zip(window.kernel, window.dilations, window.strides, window.reach, strict=True), start=1
    ):
        ahead = (slice(None),) * axis
        x = reduce(join, [x[(*ahead, slice(i * d, (i * d - r + 1) or None, s))] for i in range(n)])
    return x


@channels_last("AveragePool")
@halves_in_float32
def average_pool(k, x, *, auto_pad, ceil_mode, count_include_pad, dilations, kernel_shape, pads, strides):
    arguments = {"strides": strides, "dilations": dilations, "pads": pads, "auto_pad": auto_pad}
    window = windows(spatial_sizes(x), kernel_shape, **arguments, ceil_mode=ceil_mode)
    if window.unpadded or (window.has_same_pads and not count_include_pad and max(window.dilations) == 1):
        return _mean_pool(k, x, window)
    if window.same:
        raise Unsupported("auto_pad of an AveragePool with dilations, or one that counts its pads")
    y = _mean_pool(k, pad_zeros(x, window.before, window.after), window, padded=True)
    # Padding that ceil_mode adds is never counted; `pads` only with count_include_pad.
    own = windows(spatial_sizes(x), kernel_shape, **arguments) if count_include_pad else None
    if own == window:
        return y
    counted = ops.ones_like(x[..., :1])
    if own is not None:
        counted = pad_value(counted, own.before, own.after, 1)
        more = [a - o for a, o in zip(window.after, own.after, strict=True)]
        counted = pad_zeros(counted, [0] * len(more), more)
    else:
        counted = pad_zeros(counted, window.before, window.after)
    return ops.divide(y, _mean_pool(k, counted, window, padded=True))


def _mean_pool(k: Emitter, x: KerasTensor, window: KerasWindows, padded: bool = False) -> KerasTensor:
    """Return the mean of each window. The input is already padded, or Keras pads it by "same"."""
    if padded:
        window = window.bare
    if set(window.dilations) == {1}:
        return _pool_layer(k, "AveragePooling", x, window)
    return ops.divide(_pool_axes(x, window, ops.add), int(np.prod(window.kernel)))


@channels_last("LpPool")
@halves_in_float32
def lp_pool(k, x, *, auto_pad, ceil_mode, dilations, kernel_shape, p, pads, strides):
    window = windows(
        spatial_sizes(x),
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    if window.same:
        raise Unsupported("auto_pad of an LpPool")
    raised = pad_zeros(ops.power(ops.abs(x), p), window.before, window.after)
    mean = _mean_pool(k, raised, window, padded=True)
    return ops.power(ops.multiply(mean, int(np.prod(window.kernel))), 1 / p)


def _global_pool(k: Emitter, x: KerasTensor, kind: str) -> KerasTensor:
    return k.layer(
        layer_by_rank(f"Global{kind}Pooling", len(x.shape) - 2), x, keepdims=True, data_format="channels_last"
    )


@channels_last("GlobalAveragePool")
def global_average_pool(k, x):
    return _global_pool(k, x, "Average")


@channels_last("GlobalMaxPool")
def global_max_pool(k, x):
    return _global_pool(k, x, "Max")


@channels_last("GlobalLpPool")
@halves_in_float32
def global_lp_pool(k, x, *, p):
    axes = list(range(1, len(x.shape) - 1))
    return ops.power(ops.sum(ops.power(ops.abs(x), p), axis=axes, keepdims=True), 1 / p)
