"""Values besides tensors that rules meet: constants with known content, and integers made of sizes.

ONNX computes shapes with tensors (Shape, Gather, Concat, Reshape). Here such numbers stay Python ints, and unknown
sizes stay PyTorch's symbols, until a rule needs a tensor. Otherwise capture could not tell a size from data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Known:
    """A constant; `array` is its content."""

    array: np.ndarray
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)


@dataclass(frozen=True)
class Sizes:
    """Integers, some of them symbols: an array of objects, and their dtype in the graph."""

    array: np.ndarray
    dtype: np.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)


def host_value(content: np.ndarray, dtype: Any) -> Known | Sizes:
    """Return a constant if all elements of an object array are numbers, else sizes."""
    plain = [_plain(x) for x in content.ravel()]
    flat = [_wrapped(x, np.dtype(dtype)) if isinstance(x, (int, bool)) else x for x in plain]
    if all(isinstance(x, (int, bool)) for x in flat):
        return Known(np.array(flat, dtype).reshape(content.shape))
    found = np.empty(len(flat), object)
    found[:] = flat
    return Sizes(found.reshape(content.shape), np.dtype(dtype))


def _wrapped(x: int, dtype: np.dtype) -> int:
    """Return a number wrapped to the range of an integer dtype: the least one divided by −1 gives itself."""
    if dtype.kind not in "iu":
        return x
    least, bits = np.iinfo(dtype).min, np.iinfo(dtype).bits
    return (int(x) - least) % 2**bits + least


def objects(x: Known | Sizes) -> np.ndarray:
    """Return the elements as an array of objects: ints and symbols."""
    return x.array.astype(object) if isinstance(x, Known) else x.array


def sizes_of(dims: Any) -> Known | Sizes:
    """Return a vector of dims as an int64 value."""
    found = np.empty(len(dims), object)
    found[:] = list(dims)
    return host_value(found, np.int64)


def _plain(x: Any) -> Any:
    """Return a symbol that has become a number as that number."""
    if isinstance(x, torch.SymInt):
        return int(x) if x.node.is_constant() else x
    return x if isinstance(x, bool) else int(x)
