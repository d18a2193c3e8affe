"""The integers of a model's constants, found again from the real numbers in a file.

A constant in the file may have another order of axes, or another name, than in the model; its sorted numbers are the
same. The integers are used for a constant only if its scales turn them into exactly these numbers.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .steps import Steps


@dataclass(frozen=True)
class _Weight:
    raw: np.ndarray
    scale: np.ndarray
    zero: np.ndarray

    @property
    def shift(self) -> int:
        """Return the offset that turns unsigned integers into int8."""
        return 128 if self.raw.dtype == np.uint8 else 0


class KnownWeights:
    """The constants of a model that are stored as integers."""

    def __init__(self, stored: Sequence[Mapping[str, np.ndarray]]) -> None:
        self._found: dict[bytes, list[_Weight]] = defaultdict(list)
        sizes = set()
        for entry in stored:
            raw, scale, zero = entry["raw"], entry["scale"], entry["zero"]
            shape = [1] * raw.ndim
            if scale.ndim:
                shape[int(entry["axis"])] = -1
            steps = raw.astype(np.int64) - zero.reshape(shape if scale.ndim else [])
            numbers = steps.astype(np.float32) * scale.reshape(shape if scale.ndim else [])
            self._found[_fingerprint(numbers)].append(_Weight(raw, scale.ravel(), zero.ravel()))
            sizes.add(raw.size)
        self._sizes = sizes

    def _candidates(self, content: np.ndarray) -> list[_Weight]:
        if content.dtype != np.float32 or content.size not in self._sizes:
            return []
        return self._found.get(_fingerprint(content), [])

    def integers_of(self, content: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the integers of a weight around 0, and one scale or a scale for each index of `axis`."""
        for weight in self._candidates(content):
            if (weight.zero == weight.shift).all():
                found = _integers(content, weight.scale, 0, axis, -128, 127)
                if found is not None:
                    return found.astype(np.int8), weight.scale
        return None

    def steps_of(self, content: np.ndarray) -> Steps | None:
        """Return the scale of a constant that has a single one. For a single number, that number is a whole multiple of
        the scale.
        """
        for weight in self._candidates(content):
            if weight.scale.size == 1:
                steps = Steps(float(weight.scale[0]), int(weight.zero[0]) - weight.shift)
                if self.exactly(content, steps) is not None:
                    return steps
        number = float(content.ravel()[0]) if content.dtype == np.float32 and content.size else 0.0
        if number and np.isfinite(number) and (content == number).all():
            return Steps(abs(number), 0)
        return None

    def exactly(self, content: np.ndarray, steps: Steps) -> np.ndarray | None:
        """Return the integers of a constant at this scale, if they represent it exactly."""
        limits = np.iinfo(steps.dtype)
        return _integers(content, np.array([steps.scale], np.float32), steps.zero, 0, limits.min, limits.max)

    def stored_as(self, content: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int] | None:
        """Return the integers of a constant for DEQUANTIZE, its scales with their axis, and the zero point."""
        for weight in self._candidates(content):
            zeros = set((weight.zero - weight.shift).tolist())
            if len(zeros) != 1 or weight.raw.dtype not in (np.int8, np.uint8):
                continue
            (zero,) = zeros
            axes = [a for a in range(content.ndim) if weight.scale.size in (1, content.shape[a])]
            for axis in axes or [0]:
                found = _integers(content, weight.scale, zero, axis, -128, 127)
                if found is not None and (weight.scale.size == 1 or zero == 0):
                    return found.astype(np.int8), weight.scale, axis, zero
        return None


def quantized_bias(content: np.ndarray, given: Steps, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a bias at the scale of a kernel's sums, and this scale; None if the bias has no integer at this scale."""
    steps = np.float32(given.scale) * scale.astype(np.float32)
    with np.errstate(all="ignore"):
        sums = np.round(content.astype(np.float64) / steps.astype(np.float64))
    dtype = np.int64 if given.dtype == "int16" else np.int32
    if not np.isfinite(sums).all() or (np.abs(sums) > np.iinfo(np.int32).max).any():
        return None
    return sums.astype(dtype), steps


def _integers(content: np.ndarray, scale: np.ndarray, zero: int, axis: int, least: int, most: int) -> np.ndarray | None:
    """Return the integers whose real numbers are `content`, to the last bit."""
    if scale.size > 1 and (not content.ndim or content.shape[axis] != scale.size):
        return None
    steps = scale.reshape([-1 if i == axis else 1 for i in range(content.ndim)]) if scale.size > 1 else scale[0]
    with np.errstate(all="ignore"):
        found = np.round(content.astype(np.float64) / np.asarray(steps, np.float64))
    if not np.isfinite(found).all() or (found + zero < least).any() or (found + zero > most).any():
        return None
    exact = np.array_equal((found.astype(np.float32) * steps).astype(np.float32), content)
    return (found + zero).astype(np.int64) if exact else None


def _fingerprint(numbers: np.ndarray) -> bytes:
    ordered = np.sort(numbers.astype(np.float32).ravel()) + np.float32(0)  # -0 and 0 are the same number
    return hashlib.sha256(ordered.tobytes()).digest()
