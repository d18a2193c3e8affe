"""The ways in which an artefact stores numbers in fewer bits than its source; runners determine them from the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

HALF = "float16"
"""Weights in half precision."""
WEIGHTS = "int8 weights"
"""Weights in 8 bits, and the activations that meet them rounded as they come, with a range for each example."""
FULL = "int8"
"""Weights and activations in 8 bits, with ranges from calibration data and those that TensorFlow Lite prescribes."""
WIDE = "int8 weights and int16 activations"
"""Weights in 8 bits, activations in 16, with ranges from calibration data (TensorFlow Lite). They are judged as if the
activations had 8 bits too, but without prescribed ranges.
"""
HALF_VALUES, BRAIN_VALUES = "float16 values", "bfloat16 values"
"""Every number in this dtype, where its size allows that (ONNX)."""
BRAIN = "bfloat16"
"""Weights in bfloat16 (ONNX)."""
WHOLE_TENSORS = "int8 weights, activations by tensor"
"""Weights in 8 bits, and the activations that meet them with one range for the tensor (ONNX)."""
STEPS = "int8 steps"
"""Weights and activations in 8 bits, with ranges from calibration data alone (ONNX)."""
_BLOCK_WEIGHTS, _BLOCK_STEPS = "int{} weights in blocks of {}", "int{} weights and int8 activations in blocks of {}"
IN_BLOCKS = tuple(form.format(bits, "") for form in (_BLOCK_WEIGHTS, _BLOCK_STEPS) for bits in (2, 4, 8))
"""Weights in 2, 4 or 8 bits, with a scale for each block, and perhaps the activations that meet them in 8 bits in such
blocks. The number of elements of a block follows (ONNX); `Blocks` reads and writes them.
"""
WEIGHT_STEPS = "weights in steps"
"""Weights as integers with scales, and nothing else (ONNX)."""
UNROUNDED = "unrounded"
"""A key of `Options.extra`: run products of narrow weights without rounding the activations, as the graph does.

Runtimes may round them, and need not, so a source is compared without it. The default is to run a file as deployed.
"""
STORED = (HALF, WEIGHTS, FULL, WIDE, HALF_VALUES, BRAIN, BRAIN_VALUES, WHOLE_TENSORS, STEPS, WEIGHT_STEPS, *IN_BLOCKS)
"""The storage formats: ways in which an artefact stores numbers with less precision on purpose."""
CALIBRATED = (FULL, WIDE, STEPS)
"""Storage formats that are only correct within the ranges of their calibration data."""
STEPS_AT_RUN_TIME = (WEIGHTS, WHOLE_TENSORS)
"""Storage formats whose runtime quantizes the activations before a product with weights, with one range for many
numbers.
"""


VALUES = {HALF_VALUES: "float16", BRAIN_VALUES: "bfloat16"}
"""Storage formats with values in a narrower floating dtype, and this dtype."""


@dataclass(frozen=True)
class Blocks:
    """A storage format in blocks: the bits of a weight, the elements of a block, and whether activations are rounded
    to 8 bits in such blocks.

    >>> str(Blocks(4, 32))
    'int4 weights in blocks of 32'
    >>> Blocks.of("int8 weights and int8 activations in blocks of 16")
    Blocks(bits=8, size=16, activations=True)
    """

    bits: int
    size: int
    activations: bool = False

    def __str__(self) -> str:
        return (_BLOCK_STEPS if self.activations else _BLOCK_WEIGHTS).format(self.bits, self.size)

    @classmethod
    def of(cls, stored: str) -> Blocks | None:
        """Return the blocks that a storage format names; None for one without blocks."""
        form, _, size = stored.rpartition(" ")
        if f"{form} " not in IN_BLOCKS:
            return None
        return cls(int(form.removeprefix("int").partition(" ")[0]), int(size), "activations" in form)


def is_weights_alone(stored: str) -> bool:
    """Return whether an artefact that stores numbers like this computes with them in the dtypes of the source."""
    blocks = Blocks.of(stored)
    return stored in (HALF, BRAIN, WEIGHT_STEPS) or (blocks is not None and not blocks.activations)


@dataclass(frozen=True)
class StoredWeight:
    """A constant as an artefact stores it: floating-point numbers, or integers with scale and zero point.

    scale, zero: for integers, in any shape that broadcasts; a number is scale · (integer - zero). ends: the smallest
    and largest integer, if the array's dtype has more.
    """

    name: str
    raw: np.ndarray
    scale: np.ndarray | None = None
    zero: np.ndarray | int = 0
    ends: tuple[int, int] | None = None

    @property
    def is_narrow(self) -> bool:
        """Return whether the dtype has fewer bits than float32; int32, the dtype of biases, counts as wide."""
        return self.raw.dtype.itemsize < 4

    def moved(self, move: Callable[[np.ndarray], np.ndarray]) -> StoredWeight:
        """Return the weight with its elements rearranged, or with some of them."""
        whole = self.raw.shape
        scale = None if self.scale is None else move(np.broadcast_to(self.scale, whole))
        return replace(self, raw=move(self.raw), scale=scale, zero=move(np.broadcast_to(self.zero, whole)))

    def numbers(self) -> np.ndarray:
        """Return the numbers that kernels compute with, in float64: integers are scaled in float32."""
        if self.scale is None:
            return self.raw.astype(np.float64)
        steps = self.raw.astype(np.int64) - self.zero
        return (steps.astype(np.float32) * self.scale.astype(np.float32)).astype(np.float64)

    def allowed(self) -> np.ndarray:
        """Return how far each number may be from the original: half of a step.

        A number at the end of the range may be off by a whole step: -8 to 7 steps do not include 8.
        """
        if self.scale is None:
            info = ml_dtypes.finfo(self.raw.dtype)
            sizes = np.maximum(np.abs(self.raw.astype(np.float64)), float(info.tiny))
            return np.exp2(np.floor(np.log2(sizes))) * float(info.eps) / 2
        least, most = self.ends or (np.iinfo(self.raw.dtype).min, np.iinfo(self.raw.dtype).max)
        at_end = (self.raw <= least) | (self.raw >= most)
        allowed: np.ndarray = np.where(at_end, 1.0, 0.5) * np.abs(self.scale.astype(np.float64))
        return allowed
