"""Resize of float32 images by TensorFlow Lite's RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR.

These are the operators that delegates of phones compute. Every other Resize is written out, and so is each Resize in a
SavedModel (`passes/legalize.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from convert.graph.metadata import CHANNELS_LAST
from convert.graph.values import constant, constant_integers, known_dims
from convert.legalize.resize import interpolation_of
from convert.semantics.interpolation import Interpolation, nearest_indices, resized_length, source_coordinates

from ..emit import Dim
from ..rules import channels_last
from .windows import spatial_shape

_SPATIAL = (2, 3)
_LENGTHS = (1, 2, 3, 5, 8, 61)
"""Lengths that are tried in place of one that is not known."""


@dataclass(frozen=True)
class _Kernel:
    """The two flags of the kernels."""

    align_corners: bool = False
    half_pixel_centers: bool = False

    def coordinates(self, length: int, size: int) -> np.ndarray:
        """Return the coordinate of each output among `length` inputs, float32[size], as the kernels compute it."""
        one, half = np.float32(1), np.float32(0.5)
        aligned = self.align_corners and size > 1
        scale = np.float32(length - one) / np.float32(size - one) if aligned else np.float32(length) / np.float32(size)
        places = np.arange(size, dtype=np.float32)
        return (places + half) * scale if self.half_pixel_centers else places * scale

    def is_exact(self, length: int, size: int, scale: float, how: Interpolation) -> bool:
        """Return whether this kernel computes the Resize of an axis.

        A nearest element must be the same everywhere. Coordinates between elements may differ by their rounding.
        """
        mine, theirs = self.coordinates(length, size), source_coordinates(length, size, scale, how)
        if how.mode == "nearest":
            chosen = np.floor(mine + np.float32(0.5)) if self.align_corners else np.floor(mine)
            return np.array_equal(np.clip(chosen, 0, length - 1), nearest_indices(theirs, length, how.nearest))
        mine = mine.astype(np.float64) - (0.5 if self.half_pixel_centers else 0)
        apart = np.abs(np.clip(mine, 0, length - 1) - np.clip(theirs, 0, length - 1))
        return bool(apart.max(initial=0) <= length * 2.0**-22)


_KERNELS = (_Kernel(), _Kernel(half_pixel_centers=True), _Kernel(align_corners=True))


def _kernel_of(node: ir.Node) -> _Kernel | None:
    """Return the flags with which the kernels compute a Resize, or None if they do not compute it."""
    x, how = node.inputs[0], interpolation_of(node)
    lengths = None if x is None else known_dims(x)
    if x is None or x.dtype != ir.DataType.FLOAT or lengths is None or len(lengths) != 4 or 0 in lengths:
        return None
    if node.domain == CHANNELS_LAST:
        lengths = (lengths[0], lengths[3], *lengths[1:3])
    unlike = how.antialias or how.exclude_outside or how.coordinates == "tf_crop_and_resize"
    if unlike or how.mode not in ("nearest", "linear"):
        return None
    cases = [list(_cases(node, axis, lengths[axis], how)) for axis in range(4)]
    if any(length != size for axis in (0, 1) for length, size, _ in cases[axis]) or not all(cases):
        return None
    if any(size < 1 for axis in cases for _, size, _ in axis):
        return None
    spatial = [case for axis in _SPATIAL for case in cases[axis]]
    return next((k for k in _KERNELS if all(k.is_exact(*case, how) for case in spatial)), None)


def _cases(node: ir.Node, axis: int, length: int | str | None, how: Interpolation) -> Iterator[tuple[int, int, float]]:
    """Yield (length, size, scale) of an axis: one if they are known, several if they depend on the run.

    Yields nothing if sizes of the run could be such that no kernel is known to compute them.
    """
    lengths = (length,) if isinstance(length, int) else _LENGTHS
    axes = [a % 4 for a in node.attributes.get_ints("axes", range(4))]
    if axis not in axes:
        yield from ((n, n, 1.0) for n in lengths)
        return
    _, _, scales, sizes = [*node.inputs, None, None][:4]
    if scales is not None and scales.shape is not None and list(scales.shape) != [0]:
        given = constant(scales)
        scale = 1.0 if given is None else float(given.numpy().ravel()[axes.index(axis)])
        # The kernels take the ratio of the sizes for the scale.
        if given is not None and all(np.float32(resized_length(n, scale) / n) == np.float32(scale) for n in lengths):
            yield from ((n, resized_length(n, scale), scale) for n in lengths)
        return
    if node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        return
    numbers = None if sizes is None else constant_integers(sizes)
    if numbers is not None:
        yield from ((n, numbers[axes.index(axis)], numbers[axes.index(axis)] / n) for n in lengths)
    elif how.mode == "linear":  # ties between elements depend on the sizes
        yield from ((n, m, m / n) for n in lengths for m in _LENGTHS)


@channels_last("Resize", when=lambda node: _kernel_of(node) is not None)
def resize(
    t, x, roi, scales, sizes,
    *, axes, coordinate_transformation_mode, cubic_coeff_a, exclude_outside, extrapolation_value,
    keep_aspect_ratio_policy, mode, nearest_mode,
):  # fmt: skip
    kernel = _kernel_of(t.node)
    assert kernel is not None
    resized = [a % 4 for a in (range(4) if axes is None else axes)]
    factors = None if scales is None else t.static(scales)
    size = []
    for axis, length in zip(_SPATIAL, spatial_shape(t, x), strict=True):
        place = resized.index(axis) if axis in resized else None
        if place is None:
            size.append(length)
        elif factors is None or not factors.size:
            size.append(_element(t, sizes, place))
        else:
            factor = float(factors.ravel()[place])
            size.append(resized_length(length, factor) if isinstance(length, int) else length * int(factor))
    operator = tf.raw_ops.ResizeBilinear if mode == "linear" else tf.raw_ops.ResizeNearestNeighbor
    return operator(
        images=x,
        size=tf.stack(size) if any(isinstance(n, tf.Tensor) for n in size) else size,
        align_corners=kernel.align_corners,
        half_pixel_centers=kernel.half_pixel_centers,
    )


def _element(t: Any, sizes: Any, place: int) -> Dim:
    """Return an element of a vector of sizes, as a number if it is known."""
    known = t.ints(sizes)
    return tf.cast(sizes[place], tf.int32) if known is None else known[place]
