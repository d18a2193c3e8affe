"""Expands sparse constants of TensorFlow Lite files: levels are dense or compressed rows, with or without blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convert import limits


def to_dense(sparsity: Any, raw: memoryview, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Return the whole array of `shape` from the stored numbers.

    Each level of `sparsity` walks one dim in the order of `traversalOrder`: all of it, or the positions in its segments
    and indices. Dims after the rank are those inside a block of the dim that `blockMap` names (schema.fbs,
    SparsityParameters). Raises ValueError for levels that do not fit the shape or each other.
    """
    order = [int(d) for d in sparsity.traversalOrder]
    blocks = [int(d) for d in (sparsity.blockMap if sparsity.blockMap is not None else [])]
    levels, rank = sparsity.dimMetadata, len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order) or any(b >= rank for b in blocks):
        raise ValueError("levels that do not fit the shape")
    sizes = [0] * len(order)
    for level, dim in zip(levels, order, strict=True):
        sizes[dim] = int(level.denseSize) if level.format == 0 else 0
    for dim, inner in enumerate(blocks):
        sizes[rank + dim] = sizes[rank + dim] or 1
        if shape[inner] % sizes[rank + dim]:
            raise ValueError("blocks that do not fit the shape")
    for dim in range(rank):
        inside = int(np.prod([sizes[rank + i] for i, b in enumerate(blocks) if b == dim], dtype=np.int64))
        sizes[dim] = shape[dim] // inside
    if int(np.prod(sizes, dtype=object)) > limits.TFLITE_SPARSE_ELEMENTS:
        raise ValueError("a tensor too large")
    parents = np.zeros(1, np.int64)
    places: list[np.ndarray] = []
    values = np.frombuffer(raw, dtype)
    # An element of a level is a value, or has a segment in the next level.
    most = max(len(values), *(0 if level.format == 0 else len(level.arraySegments.values) for level in levels))
    for level, dim in zip(levels, order, strict=True):
        if level.format == 0 and len(parents) * sizes[dim] > most:
            raise ValueError("a dim of more places than values")
        parents, taken, own = _descend_level(level, parents, sizes[dim])
        places = [*(p[taken] for p in places), own]
    if len(values) != len(parents):
        raise ValueError("another number of values")
    made = np.zeros(sizes, dtype)
    made[tuple(places[order.index(d)] for d in range(len(order)))] = values
    return _merge_blocks(made, blocks, shape)


def _descend_level(level: Any, parents: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Descend one level: return the numbers of the new nodes, the row of each one's parent, and its position in the
    dim.
    """
    rows = np.arange(len(parents))
    if level.format == 0:
        taken, own = np.repeat(rows, size), np.tile(np.arange(size), len(parents))
        return np.repeat(parents * size, size) + own, taken, own
    segments = np.asarray(level.arraySegments.values, np.int64)
    indices = np.asarray(level.arrayIndices.values, np.int64)
    counts = np.diff(segments)
    if (counts < 0).any() or segments[-1] != len(indices) or segments[0] != 0:
        raise ValueError("segments that do not fit the indices")
    counts = counts[parents]
    taken = np.repeat(rows, counts)
    nodes = np.arange(len(taken)) - np.repeat(np.cumsum(counts) - counts, counts) + segments[parents][taken]
    own = indices[nodes]
    if (own < 0).any() or (own >= size).any():
        raise ValueError("an index outside of the shape")
    return nodes, taken, own


def _merge_blocks(made: np.ndarray, blocks: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """Merge block dims into the dims that they are parts of."""
    rank = len(shape)
    axes = [a for dim in range(rank) for a in (dim, *(rank + i for i, b in enumerate(blocks) if b == dim))]
    return np.ascontiguousarray(made.transpose(axes).reshape(shape))
