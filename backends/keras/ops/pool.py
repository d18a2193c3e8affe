"""Pooling over windows and over all spatial dims. Data is channels-last."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from keras import KerasTensor, ops

from convert.errors import Unsupported
from convert.semantics.windows import Window

from ..emitter import Emitter
from ..rules import channels_last
from ..tensors import halves_in_float32, is_floating
from ..windows import layer_by_rank, pad_zeros, spatial_sizes, windows


@channels_last("MaxPool")
def max_pool(k, x, *, auto_pad, dilations, kernel_shape, pads, storage_order, strides):
    if k.outputs > 1:
        raise Unsupported("the indices of a MaxPool")
    floating = is_floating(x)
    plain = floating and (dilations is None or set(dilations) == {1})
    window = windows(x, kernel_shape, strides, dilations, pads, auto_pad, plain)
    if plain and window.has_same_pads(spatial_sizes(x)):
        return _pool_layer(k, "MaxPooling", x, window, "same")
    if not window.is_unpadded:
        lowest = -np.inf if floating else int(np.iinfo(x.dtype).min)
        x = ops.pad(x, [(0, 0), *window.pairs, (0, 0)], constant_values=lowest)
    return _pool_layer(k, "MaxPooling", x, window) if plain else _pool_axes(x, window, ops.maximum)


def _pool_layer(k: Emitter, kind: str, x: KerasTensor, window: Window, padding: str = "valid") -> KerasTensor:
    return k.layer(
        layer_by_rank(kind, window.rank),
        x,
        pool_size=window.kernel,
        strides=window.strides,
        padding=padding,
        data_format="channels_last",
    )


def _pool_axes(x: KerasTensor, window: Window, join: Callable[..., KerasTensor]) -> KerasTensor:
    """Combine the elements of each window, one axis after the other."""
    for axis, (n, d, s, r) in enumerate(
        zip(window.kernel, window.dilations, window.strides, window.spans, strict=True), start=1
    ):
        ahead = (slice(None),) * axis
        x = reduce(join, [x[(*ahead, slice(i * d, (i * d - r + 1) or None, s))] for i in range(n)])
    return x


@channels_last("AveragePool")
@halves_in_float32
def average_pool(k, x, *, auto_pad, count_include_pad, dilations, kernel_shape, pads, strides):
    plain = (dilations is None or set(dilations) == {1}) and not count_include_pad
    window = windows(x, kernel_shape, strides, dilations, pads, auto_pad, plain)
    if plain and window.has_same_pads(spatial_sizes(x)):
        return _pool_layer(k, "AveragePooling", x, window, "same")
    y = _mean_pool(k, pad_zeros(x, window.pairs), window)
    if window.is_unpadded or count_include_pad:
        return y
    return ops.divide(y, _mean_pool(k, pad_zeros(ops.ones_like(x[..., :1]), window.pairs), window))


def _mean_pool(k: Emitter, x: KerasTensor, window: Window) -> KerasTensor:
    """Return the mean of each window of an input that is already padded."""
    if set(window.dilations) == {1}:
        return _pool_layer(k, "AveragePooling", x, window)
    return ops.divide(_pool_axes(x, window, ops.add), int(np.prod(window.kernel)))


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
