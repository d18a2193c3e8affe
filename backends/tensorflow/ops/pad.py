"""Pad in all its modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from convert.errors import Unsupported

from ..emit import Dim, Emitter, Value
from ..rules import onnx_op


@onnx_op("Pad")
def pad(t, x, pads, value, axes, *, mode):
    amounts, chosen = t.ints(pads), t.ints(axes) if axes is not None else list(range(t.rank(x)))
    rank = t.rank(x)
    if amounts is None or chosen is None:
        both = _spread_pads(rank, pads, axes)
        begins, ends = [both[0, i] for i in range(rank)], [both[1, i] for i in range(rank)]
    else:
        begins, ends = [0] * rank, [0] * rank
        for axis, b, e in zip(chosen, amounts[: len(chosen)], amounts[len(chosen) :], strict=True):
            begins[axis], ends[axis] = b, e
    if mode == "constant":
        return _pad_constant(x, begins, ends, value)
    if mode == "reflect" and _is_plain_reflection(x, begins, ends):
        return tf.pad(x, list(zip(begins, ends, strict=True)), "REFLECT")
    return _pad_by_gather(t, x, begins, ends, mode)


def _spread_pads(rank: int, pads: Value, axes: Value) -> tf.Tensor:
    """Return pads computed at run time as a [2, rank] matrix for all axes."""
    pairs = tf.reshape(tf.cast(pads, tf.int32), [2, -1])
    if axes is None:
        return pairs
    axes = tf.cast(axes, tf.int32)
    places = tf.where(axes < 0, axes + rank, axes)[:, None]
    return tf.transpose(tf.scatter_nd(places, tf.transpose(pairs), [rank, 2]))


def _pad_constant(x: Value, begins: Sequence[Dim], ends: Sequence[Dim], value: Value) -> tf.Tensor:
    fill = tf.zeros([], x.dtype) if value is None else tf.reshape(value, [])
    if x.dtype == tf.string and value is None:
        fill = tf.constant("")
    known = all(isinstance(p, int) for p in (*begins, *ends))
    if not known or min(*begins, *ends, 0) < 0:
        x = _crop(x, begins, ends)
        begins, ends = [_positive_part(p) for p in begins], [_positive_part(p) for p in ends]
    paddings = list(zip(begins, ends, strict=True))
    if x.dtype == tf.bool:
        return tf.cast(tf.pad(tf.cast(x, tf.int8), paddings, constant_values=tf.cast(fill, tf.int8)), tf.bool)
    return tf.pad(x, paddings, constant_values=fill)


def _positive_part(amount: Dim) -> Dim:
    return max(amount, 0) if isinstance(amount, int) else tf.maximum(amount, 0)


def _crop(x: Value, begins: Sequence[Dim], ends: Sequence[Dim]) -> tf.Tensor:
    """Crop x where pads are negative."""
    start = [tf.maximum(-b, 0) for b in begins]
    size = tf.shape(x) + tf.stack([tf.minimum(b, 0) + tf.minimum(e, 0) for b, e in zip(begins, ends, strict=True)])
    known = all(isinstance(p, int) for p in (*begins, *ends)) and x.shape.is_fully_defined()
    if known:
        size = [n + min(b, 0) + min(e, 0) for n, b, e in zip(x.shape.as_list(), begins, ends, strict=True)]
    return tf.slice(x, start, size)


def _is_plain_reflection(x: Value, begins: Sequence[Dim], ends: Sequence[Dim]) -> bool:
    """Return whether TensorFlow's own reflection applies: known, non-negative amounts shorter than their dim."""
    for n, b, e in zip(x.shape.as_list(), begins, ends, strict=True):
        if not isinstance(b, int) or not isinstance(e, int):
            return False
        if (b or e) and (n is None or min(b, e) < 0 or max(b, e) >= n):
            return False
    return True


def _pad_by_gather(t: Emitter, x: Value, begins: Sequence[Dim], ends: Sequence[Dim], mode: str) -> tf.Tensor:
    """Pad each axis by gathering the indices that the mode repeats."""
    for axis, (n, b, e) in enumerate(zip(t.shape(x), begins, ends, strict=True)):
        if isinstance(b, int) and isinstance(e, int) and b == e == 0:
            continue
        known = all(isinstance(d, int) for d in (n, b, e))
        place = np.arange(-b, n + e, dtype=np.int32) if known else tf.range(-b, n + e)
        minimum, maximum = (np.minimum, np.maximum) if known else (tf.minimum, tf.maximum)
        if mode == "edge":
            place = minimum(maximum(place, 0), n - 1)
        elif mode == "wrap":
            first = maximum(-b, 0)  # negative pads crop first; the mode repeats the remaining elements
            place = first + (place - first) % (n + minimum(e, 0) - first)
        elif mode == "reflect":
            period = maximum(2 * (n - 1), 1)
            place = place % period
            place = minimum(place, period - place)
        else:
            raise Unsupported(f"Pad mode {mode!r}")
        x = tf.gather(x, place, axis=axis)
    return tf.convert_to_tensor(x)
