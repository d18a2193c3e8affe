"""Reference kernels of AffineGrid and GridSample, for images and volumes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from convert.reference.kernels.resize import cubic
from convert.reference.table import kernel

Array = Any


@kernel("AffineGrid")
def affine_grid(count: int, theta: Array, size: Array, *, align_corners: int) -> Array:
    """AffineGrid-20: theta [n, d, d + 1] applied to the positions of an output of `size` [n, c, …], last axis first."""
    axes = []
    for length in (int(n) for n in size[2:]):
        steps = np.arange(length, dtype=theta.dtype)
        axes.append(2 * steps / max(length - 1, 1) - 1 if align_corners else (2 * steps + 1) / length - 1)
    mesh = np.meshgrid(*axes, indexing="ij")
    points = np.stack([*mesh[::-1], np.ones_like(mesh[0])], axis=-1)
    return np.einsum("...k,njk->n...j", points, theta)


@kernel("GridSample")
def grid_sample(count: int, x: Array, grid: Array, *, align_corners: int, mode: str, padding_mode: str) -> Array:
    """GridSample-22: x [n, c, …] at the positions of grid [n, …, d], which are in [-1, 1], last axis first."""
    dims = x.shape[2:]
    at = [_input_position(grid[..., len(dims) - 1 - i], n, align_corners) for i, n in enumerate(dims)]
    if mode != "cubic":
        at = [_fold_into_input(a, n, padding_mode, align_corners) for a, n in zip(at, dims, strict=True)]
    reach = {"nearest": (0,), "linear": (0, 1)}.get(mode, (-1, 0, 1, 2))
    base = [np.rint(a) if mode == "nearest" else np.floor(a) for a in at]
    y = np.zeros((x.shape[0], x.shape[1], *grid.shape[1:-1]), x.dtype)
    for offsets in itertools.product(reach, repeat=len(dims)):
        weight = np.ones(grid.shape[:-1], x.dtype)
        inside = np.ones(grid.shape[:-1], bool)
        index = []
        for a, b, offset, n in zip(at, base, offsets, dims, strict=True):
            column = b + offset
            if mode == "linear":
                weight = weight * np.maximum(0, 1 - np.abs(a - column))
            elif mode == "cubic":
                # The operator comes from PyTorch, which uses a = -0.75.
                weight = weight * cubic(np.abs(a - column), -0.75)
                column = _fold_into_input(column, n, padding_mode, align_corners)
                column = np.rint(column)
            inside &= (column >= 0) & (column < n)
            index.append(np.clip(column, 0, n - 1).astype(np.int64))
        batch = np.arange(x.shape[0]).reshape(-1, *[1] * len(dims))
        taken = np.moveaxis(x, 1, -1)[(batch, *index)]
        y += np.moveaxis(taken * (weight * inside)[..., None], -1, 1)
    return y


def _input_position(grid: Array, length: int, align_corners: int) -> Array:
    return (grid + 1) / 2 * (length - 1) if align_corners else ((grid + 1) * length - 1) / 2


def _fold_into_input(at: Array, length: int, padding_mode: str, align_corners: int) -> Array:
    """Return positions clipped to the border, or reflected at it; with padding by zeros, unchanged."""
    if padding_mode == "border":
        return np.clip(at, 0, length - 1)
    if padding_mode != "reflection":
        return at
    low, high = (0.0, length - 1.0) if align_corners else (-0.5, length - 0.5)
    span = high - low
    if span <= 0:
        return np.zeros_like(at)
    distance = np.abs(at - low) % (2 * span)
    return np.clip(low + np.where(distance > span, 2 * span - distance, distance), 0, length - 1)
