"""Sliding windows over channels-last tensors: pads that depend on dynamic sizes, and the padding itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from convert.semantics.windows import Window

Dim = Any
"""A number, or an int32 scalar tensor if it is unknown."""


def windows(
    t: Any,
    x: Any,
    kernel: Sequence[Dim],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
) -> Window:
    """Return the windows over a channels-last tensor. The pads of `auto_pad` may depend on sizes that are tensors."""
    made = Window.of(kernel, strides, dilations, pads).with_auto_pad(spatial_shape(t, x), auto_pad, maximum)
    assert made is not None  # no size is None
    known = all(isinstance(p, int) for p in made.pads)
    return replace(made, same=auto_pad == "SAME_UPPER" and not known)


def maximum(a: Dim, b: Dim) -> Dim:
    """Return the larger number, as a tensor if one of them is."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else tf.maximum(a, b)


def pad_spatial(x: Any, before: Sequence[Dim], after: Sequence[Dim], value: Any = 0) -> Any:
    """Pad the spatial dims of a channels-last tensor; negative amounts crop."""
    amounts = [*before, *after]
    if all(isinstance(p, int) for p in amounts):
        if not any(amounts):
            return x
        if min(amounts) < 0:
            x = crop_spatial(x, [max(-b, 0) for b in before], [max(-a, 0) for a in after])
            return pad_spatial(x, [max(b, 0) for b in before], [max(a, 0) for a in after], value)
    else:
        x = crop_dynamic(x, before, after)
        before, after = ([tf.maximum(p, 0) for p in side] for side in (before, after))
    paddings = [[0, 0], *([b, a] for b, a in zip(before, after, strict=True)), [0, 0]]
    y = tf.pad(x, paddings, constant_values=value)
    y.set_shape([x.shape[0], *y.shape[1:-1], x.shape[-1]])  # unknown amounts leave every dim unknown otherwise
    return y


def crop_spatial(x: Any, before: Sequence[int], after: Sequence[int]) -> Any:
    """Crop the ends of the spatial dims of a channels-last tensor."""
    if not any((*before, *after)):
        return x
    spatial = tuple(slice(b or None, -a or None) for b, a in zip(before, after, strict=True))
    return x[(slice(None), *spatial, slice(None))]


def crop_dynamic(x: Any, before: Sequence[Dim], after: Sequence[Dim]) -> Any:
    """Crop dims by pads that are known at run time only; negative pads crop."""
    start = tf.stack([0, *(tf.maximum(-b, 0) for b in before), 0])
    end = tf.shape(x) - tf.stack([0, *(tf.maximum(-a, 0) for a in after), 0])
    y = tf.strided_slice(x, start, end)
    y.set_shape([x.shape[0], *([None] * len(before)), x.shape[-1]])
    return y


def take_strided(x: Any, strides: Sequence[int]) -> Any:
    """Return every stride-th element along the spatial dims of a channels-last tensor."""
    if all(s == 1 for s in strides):
        return x
    return x[(slice(None), *(slice(None, None, s) for s in strides), slice(None))]


def spatial_shape(t: Any, x: Any) -> list[Dim]:
    """Return the spatial dims of a channels-last tensor."""
    return t.shape(x)[1:-1]


def kernel_shape_of(t: Any, weight: Any) -> list[Dim]:
    """Return the spatial dims of an ONNX convolution weight [O, I, *kernel]."""
    return list(t.shape(weight)[2:])
