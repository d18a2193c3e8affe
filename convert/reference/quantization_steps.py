"""Rounds numbers as a narrower format stores them: to half precision, or to the steps of a range."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def round_to_float16(array: np.ndarray) -> np.ndarray:
    """Return the array rounded to float16, in its own dtype."""
    return array.astype(np.float16).astype(array.dtype)


def round_to_bfloat16(array: np.ndarray) -> np.ndarray:
    """Return the array rounded to bfloat16, in its own dtype."""
    return array.astype(ml_dtypes.bfloat16).astype(array.dtype)


def round_blocks(array: np.ndarray, size: int, axis: int, furthest: int) -> np.ndarray:
    """Return an array rounded to steps in blocks of `size` numbers along `axis`, as in MatMulNBits.

    furthest: the steps that the number furthest from 0 in a block becomes. onnxruntime's symmetric weights of n bits
    have -2ⁿ⁻¹, and activations, which have 8 bits, 127. All others have as many steps at most, and positive weights one
    fewer.
    """
    rows = np.moveaxis(array, axis, -1).astype(np.float64)
    length = rows.shape[-1]
    blocks = np.pad(rows, ((0, 0),) * (rows.ndim - 1) + ((0, -length % size),)).reshape(*rows.shape[:-1], -1, size)
    most = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)
    scale = np.where(most != 0, most / furthest, 1).astype(np.float32).astype(np.float64)
    low, high = (furthest, -furthest - 1) if furthest < 0 else (-furthest, furthest)
    steps = np.clip(np.round(blocks / scale), low, high) * scale
    return np.moveaxis(steps.reshape(*rows.shape[:-1], -1)[..., :length], -1, axis).astype(array.dtype)


def round_symmetric(array: np.ndarray, axis: int | None) -> np.ndarray:
    """Return the array rounded to 255 steps around 0.

    The largest finite element along `axis` (None: of all) sets the scale.
    """
    others = tuple(i for i in range(array.ndim) if axis is None or i != axis % array.ndim)
    sizes = np.where(np.isfinite(array), np.abs(array), 0.0)
    scale = sizes.max(axis=others, keepdims=True, initial=0.0) / 127
    scale = np.where(scale > 0, scale, 1)
    return (np.clip(np.round(array / scale), -127, 127) * scale).astype(array.dtype)


def round_to_steps(array: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Return the array rounded to 256 steps from `low` to `high`, one of which is 0; other values saturate."""
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    scale = (high - low) / 255
    scale = np.where(scale > 0, scale, 1)
    zero = np.round(-low / scale)
    return (np.clip(np.round(array / scale) + zero, 0, 255) - zero) * scale
