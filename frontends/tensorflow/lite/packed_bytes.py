"""Unpacks TensorFlow Lite's strings, and integers of less than a byte."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def unpack_strings(raw: memoryview, count: int) -> list[bytes]:
    """Return strings stored after a table of offsets: their number, the start of each, and the end of the last.

    Raises ValueError for an inconsistent table (string_util.h).
    """
    if len(raw) < 4:
        raise ValueError("no strings")
    found = int(np.frombuffer(raw[:4], "<i4")[0])
    if found != count or len(raw) < 4 * (count + 2):
        raise ValueError("another number of strings")
    ends = np.frombuffer(raw[4 : 4 * (count + 2)], "<i4").astype(np.int64)
    if (np.diff(ends) < 0).any() or ends[0] < 4 * (count + 2) or ends[-1] > len(raw):
        raise ValueError("strings outside of the buffer")
    return [bytes(raw[a:b]) for a, b in pairwise(ends.tolist())]


def unpack_integers(raw: memoryview, count: int, bits: int, signed: bool) -> np.ndarray:
    """Return integers of 2 or 4 bits, lowest bits first, as int8 or uint8. Raises ValueError for another size."""
    each = 8 // bits
    if len(raw) != -(-count // each):
        raise ValueError("a constant of another size")
    whole = np.frombuffer(raw, np.uint8)
    parts = np.stack([(whole >> (bits * i)) & (2**bits - 1) for i in range(each)], -1).ravel()[:count]
    if not signed:
        return parts
    return np.where(parts >= 2 ** (bits - 1), parts.astype(np.int16) - 2**bits, parts).astype(np.int8)
