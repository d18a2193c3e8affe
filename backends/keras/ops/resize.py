"""Resize: UpSampling layers if they compute the same, else weighted sums of gathered rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported
from convert.graph.metadata import CHANNELS_LAST
from convert.rules import Rule
from convert.semantics.interpolation import Interpolation, keep_aspect_ratio, resized_length, weight_matrix

from ..emitter import Emitter, Value
from ..rules import onnx_op
from ..tensors import is_floating
from ..windows import layer_by_rank
from .resize_dynamic import resample_dynamic

# Maximum number of inputs per output that are gathered; more use a matrix product.
_TAPS = 4


def _resize_rule(to_axis: Callable[[int, int], int]) -> Rule:
    """Return the rule of Resize; `to_axis(a, rank)` gives the tensor's axis for ONNX's axis `a`."""

    def rule(
        k, x, roi, scales, sizes,
        *, antialias, axes, coordinate_transformation_mode, cubic_coeff_a, exclude_outside, extrapolation_value,
        keep_aspect_ratio_policy, mode, nearest_mode,
    ):  # fmt: skip
        method = Interpolation(
            mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias)
        )
        rank = len(x.shape)
        chosen = [a % rank for a in axes] if axes is not None else list(range(rank))
        wanted = _sizes_and_scales(k, x, scales, sizes, chosen, keep_aspect_ratio_policy, to_axis)
        wanted = {axis: pair for axis, pair in wanted.items() if pair[1] != 1 or pair[0] != x.shape[axis]}
        upsampled = _upsample(k, x, wanted, method)
        if upsampled is not None:
            return upsampled
        if mode != "nearest" and not is_floating(x):
            raise Unsupported("interpolation of integers")
        for axis, (size, scale) in wanted.items():
            if x.shape[axis] is None or scale is None or not isinstance(size, int):
                x = resample_dynamic(k, k.tensor(x), axis, size, scale, method)
                continue
            x = _resample_axis(x, axis, weight_matrix(x.shape[axis], size, scale, method))
        keeps = keep_aspect_ratio_policy != "stretch"
        if keeps and any(isinstance(d, int) and d != n for d, n in zip(k.dims(), x.shape, strict=True)):
            raise Unsupported(f"the size {tuple(x.shape)}, where the graph says {k.dims()}")
        return x

    return rule


def _sizes_and_scales(
    k: Emitter,
    x: KerasTensor,
    scales: Value,
    sizes: Value,
    chosen: Sequence[int],
    policy: str,
    to_axis: Callable[[int, int], int],
) -> dict[int, tuple[Any, float | None]]:
    """Return the new size and the scale by axis of `x`. A size is a tensor if it is computed; each is None if it
    follows from the other.
    """
    rank = len(x.shape)
    own = {a: x.shape[to_axis(a, rank)] for a in chosen}
    if scales is not None and 0 not in scales.shape:
        numbers = k.static(scales)
        if numbers is None:
            raise Unsupported("scales computed at run time")
        pairs: dict[int, tuple[Any, float | None]] = {
            a: (None if own[a] is None else resized_length(own[a], float(s)), float(s))
            for a, s in zip(chosen, numbers, strict=True)
        }
    else:
        known = k.ints(sizes)
        given = (
            known
            if known is not None
            else [_size_of(k, to_axis(a, rank), sizes, place) for place, a in enumerate(chosen)]
        )
        if policy != "stretch":
            if None in own.values() or None in given:
                raise Unsupported("Resize that keeps the aspect ratio of dims of dynamic size")
            lengths = [n for a in chosen if (n := own[a]) is not None]
            ratio, wanted = keep_aspect_ratio(lengths, [n for n in given if isinstance(n, int)], policy)
            pairs = {a: (n, ratio) for a, n in zip(chosen, wanted, strict=True)}
        else:
            pairs = {}
            for a, n in zip(chosen, given, strict=True):
                if n is None:
                    pairs[a] = (own[a], 1.0)  # batch and channels stay
                elif own[a] is None or not isinstance(n, int):
                    pairs[a] = (n, None)
                else:
                    pairs[a] = (n, n / own[a])
    return {to_axis(a, rank): pair for a, pair in pairs.items()}


def _size_of(k: Emitter, axis: int, sizes: KerasTensor, place: int) -> Any:
    """Return a size computed at run time: None if it is the input's own size, a number if the graph knows it."""
    d = k.dims()[axis]
    if isinstance(d, int):
        return d
    return None if d is not None and d == k.input_dims(0)[axis] else sizes[place]


def _upsample(
    k: Emitter, x: KerasTensor, wanted: dict[int, tuple[Any, float | None]], method: Interpolation
) -> KerasTensor | None:
    """Return the result of a layer for integer factors (repeated, or bilinear between pixel centres in 2D), else
    None.
    """
    rank = len(x.shape) - 2
    factors = [wanted.get(axis, (None, 1.0))[1] or 0.0 for axis in range(1, rank + 1)]
    inside = 0 < rank < 4 and all(0 < axis <= rank for axis in wanted)
    if not inside or not wanted or any(f < 1 or f != int(f) for f in factors) or not is_floating(x):
        return None
    size = tuple(int(f) for f in factors)
    if method.mode == "nearest" and all(_is_repetition(f, method) for f in size):
        kind = layer_by_rank("UpSampling", rank)
        config: dict[str, Any] = {} if rank == 1 else {"data_format": "channels_last"}
        return k.layer(kind, x, size=size if rank > 1 else size[0], **config)
    if rank == 2 and method.mode == "linear" and method.coordinates in ("half_pixel", "pytorch_half_pixel"):
        if None in x.shape[1:-1]:
            return _smooth_repetitions(k, x, size)
        if x.dtype == "float32":  # the layer returns float32 for every dtype
            return k.layer(layers.UpSampling2D, x, size=size, interpolation="bilinear", data_format="channels_last")
    return None


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


def _is_repetition(factor: int, method: Interpolation) -> bool:
    """Return whether resizing by this factor repeats each element for every size of the input."""
    n = 5
    return np.array_equal(weight_matrix(n, n * factor, factor, method), np.repeat(np.eye(n), factor, axis=0))


def _resample_axis(x: KerasTensor, axis: int, weights: np.ndarray) -> KerasTensor:
    """Return sums of inputs along `axis`, weighted by the rows of `weights`."""
    taps = int((weights != 0).sum(1).max())
    dtype = x.dtype
    if taps > _TAPS:
        y = ops.tensordot(x, weights.T.astype(dtype), axes=[[axis], [0]])
        rank = len(x.shape)
        others = [i for i in range(rank) if i != axis]
        return ops.transpose(y, [rank - 1 if i == axis else others.index(i) for i in range(rank)])
    order = np.argsort(weights == 0, axis=1, kind="stable")[:, :taps]
    factors = np.take_along_axis(weights, order, 1)
    parts = []
    for tap in range(taps):
        part = ops.take(x, order[:, tap].astype(np.int32), axis=axis)
        if not (factors[:, tap] == 1).all():
            part = part * factors[:, tap].astype(dtype).reshape([-1 if i == axis else 1 for i in range(len(x.shape))])
        parts.append(part)
    return sum(parts[1:], parts[0])


onnx_op("Resize")(_resize_rule(lambda axis, rank: axis))
onnx_op(f"{CHANNELS_LAST}::Resize")(
    _resize_rule(lambda axis, rank: axis if axis == 0 else rank - 1 if axis == 1 else axis - 1)
)
