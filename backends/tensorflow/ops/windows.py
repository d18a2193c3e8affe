"""Sliding windows: pads from auto_pad, ceil_mode and dynamic sizes, and the padding itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from convert.semantics.windows import axis_pads, extent, open_ceil_pad, window_count

Dim = Any
"""A number, or an int32 scalar tensor if it is unknown."""


@dataclass(frozen=True)
class SpatialWindows:
    """One window per spatial dim: its size, stride, dilation, and the pads before and after."""

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Dim, ...]
    after: tuple[Dim, ...]
    same: bool = False
    """Whether unknown pads are those of TensorFlow's padding SAME."""

    @property
    def reach(self) -> tuple[Dim, ...]:
        """The extent of the dilated kernel."""
        return tuple(extent(k, d) for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def unpadded(self) -> bool:
        return all(isinstance(p, int) and p == 0 for p in (*self.before, *self.after))

    def outputs(self, sizes: Sequence[Dim]) -> list[Dim]:
        """Return the number of windows along each dim of the padded input."""
        parts = zip(sizes, self.reach, self.strides, self.before, self.after, strict=True)
        return [window_count(*part) for part in parts]


def windows(
    sizes: Sequence[Dim],
    kernel: Sequence[Dim],
    *,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int = 0,
) -> SpatialWindows:
    """Resolve ONNX's attributes for the spatial `sizes` of the input."""
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = list(pads or [0] * 2 * rank)
    found = []
    for i, (n, k, s, d) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        span, own = extent(k, d), (pads[i], pads[rank + i])
        fixed = isinstance(n, int) or not isinstance(span, int)
        pad_after = None if fixed or not ceil_mode or auto_pad != "NOTSET" else open_ceil_pad(span, s, own[1])
        found.append(
            (own[0], pad_after)
            if pad_after is not None
            else axis_pads(n, span, s, own, auto_pad, ceil_mode, _minimum, _maximum)
        )
    before, after = tuple(b for b, _ in found), tuple(a for _, a in found)
    same = auto_pad == "SAME_UPPER" and not all(isinstance(p, int) for p in (*before, *after))
    return SpatialWindows(tuple(kernel), tuple(strides), tuple(dilations), before, after, same)


def _minimum(a: Dim, b: Dim) -> Dim:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else tf.minimum(a, b)


def _maximum(a: Dim, b: Dim) -> Dim:
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
