"""Resize of images by whole factors: UpSampling layers. Every other Resize is written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from keras import KerasTensor, layers, ops

from convert.graph.metadata import CHANNELS_LAST
from convert.graph.values import constant, known_dims
from convert.legalize.resize import interpolation_of
from convert.rules import Rule
from convert.semantics.interpolation import Interpolation, weight_matrix

from ..emitter import Emitter
from ..rules import onnx_op
from ..windows import layer_by_rank


def _is_layer(node: ir.Node) -> bool:
    """Return whether an UpSampling layer computes the node: repeated elements, or bilinear between pixel centres."""
    x, _, scales, sizes = [*node.inputs, None, None, None][:4]
    dims, how = known_dims(x) if x is not None else None, interpolation_of(node)
    if x is None or x.dtype is None or not x.dtype.is_floating_point() or dims is None or not 2 < len(dims) < 6:
        return False
    axes = node.attributes.get_ints("axes", range(len(dims)))
    numbers = [None if v is None else v.numpy() for v in map(constant, (scales, sizes))]
    stretched = node.attributes.get_string("keep_aspect_ratio_policy", "stretch") == "stretch"
    factors = _whole_factors(dims, axes, *numbers) if stretched else None
    if factors is None or set(factors) == {1} or how.antialias or how.coordinates == "tf_crop_and_resize":
        return False
    if how.mode == "nearest":
        return all(_is_repetition(f, how) for f in factors)
    # UpSampling2D returns float32 for every dtype.
    fits = x.dtype == ir.DataType.FLOAT or not all(isinstance(n, int) for n in dims[2:])
    centred = how.coordinates in ("half_pixel", "pytorch_half_pixel") and not how.exclude_outside
    return len(dims) == 4 and how.mode == "linear" and centred and fits


def _whole_factors(
    dims: Sequence[Any], axes: Sequence[int], scales: np.ndarray | None, sizes: np.ndarray | None
) -> tuple[int, ...] | None:
    """Return the factor of each spatial dim if all are whole and batch and channels stay, else None."""
    found: list[float] = [1.0] * len(dims)
    for i, a in enumerate(axes):
        if scales is not None and scales.size:
            found[a] = float(scales.ravel()[i])
        elif sizes is not None and isinstance(dims[a], int) and dims[a]:
            found[a] = float(sizes.ravel()[i]) / dims[a]
        else:
            return None
    if found[:2] != [1, 1] or any(f < 1 or f != int(f) for f in found):
        return None
    return tuple(map(int, found[2:]))


def _is_repetition(factor: int, method: Interpolation) -> bool:
    """Return whether resizing by this factor repeats each element for every size of the input."""
    n = 5
    return np.array_equal(weight_matrix(n, n * factor, factor, method), np.repeat(np.eye(n), factor, axis=0))


def _upsampling_rule(channels_first: bool) -> Rule:
    """Return the rule of an image whose channels are first or last."""

    def rule(
        k, x, roi, scales, sizes,
        *, axes, coordinate_transformation_mode, cubic_coeff_a, exclude_outside, extrapolation_value, mode,
        nearest_mode,
    ):  # fmt: skip
        rank = len(x.shape)
        x = ops.transpose(x, [0, *range(2, rank), 1]) if channels_first else x
        dims = [x.shape[0], x.shape[-1], *x.shape[1:-1]]
        numbers = [None if v is None else k.static(v) for v in (scales, sizes)]
        size = _whole_factors(dims, range(rank) if axes is None else axes, *numbers)
        assert size is not None
        y = _upsample(k, x, size, mode)
        return ops.transpose(y, [0, rank - 1, *range(1, rank - 1)]) if channels_first else y

    return rule


onnx_op("Resize", when=_is_layer)(_upsampling_rule(channels_first=True))
onnx_op(f"{CHANNELS_LAST}::Resize")(_upsampling_rule(channels_first=False))


def _upsample(k: Emitter, x: KerasTensor, size: tuple[int, ...], mode: str) -> KerasTensor:
    if mode == "linear" and None in x.shape[1:-1]:
        return _smooth_repetitions(k, x, size)
    config: dict[str, Any] = {} if len(size) == 1 else {"data_format": "channels_last"}
    if mode == "linear":
        config["interpolation"] = "bilinear"
    kind = layer_by_rank("UpSampling", len(size))
    return k.layer(kind, x, size=size if len(size) > 1 else size[0], **config)


def _smooth_repetitions(k: Emitter, x: KerasTensor, size: tuple[int, ...]) -> KerasTensor:
    """Upsample an image of dynamic size bilinearly; Keras's own layer works in eager mode only.

    Averaging `size` repeated pixels interpolates linearly between two pixels. For an even factor, a second average of
    two moves the result to pixel centres. At the border the outermost pixels are repeated.
    """
    x = k.layer(layers.UpSampling2D, x, size=size, data_format="channels_last")
    x = ops.pad(x, [(0, 0), *((n // 2, n // 2) for n in size), (0, 0)], mode="symmetric")
    for window in (size, tuple(2 - n % 2 for n in size)):
        if max(window) > 1:
            x = k.layer(layers.AveragePooling2D, x, pool_size=window, strides=1, data_format="channels_last")
    return x
