"""Kernels that change shapes and keep elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convert.errors import Unsupported

from .table import ARITHMETIC, INTEGERS, Array, ExecutorRun, kernel


@kernel("Reshape")
def reshape(run: ExecutorRun, x: Array, target: Array = None, *, shape: Sequence[int] | None = None) -> list[Array]:
    """Reshape; 0 copies a dim, -1 is inferred. The second output is the original shape."""
    if target is not None:
        run.takes(INTEGERS, target)
    given = shape if target is None else target
    if given is None:
        raise Unsupported("Reshape without a shape")
    wanted = [int(d) for d in given]
    sizes = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    return [x.reshape(sizes), np.array(x.shape, np.int64)]


@kernel("Flatten")
def flatten(run: ExecutorRun, x: Array, *, axis: int = 1) -> Array:
    return x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))


@kernel("FlattenToVec")
def flatten_to_vector(run: ExecutorRun, x: Array) -> Array:
    if not x.ndim:
        raise Unsupported("a FlattenToVec of a scalar")
    return x.reshape(-1)


@kernel("ResizeLike")
def resize_like(run: ExecutorRun, x: Array, like: Array) -> Array:
    return x.reshape(like.shape)


@kernel("ExpandDims")
def expand_dims(run: ExecutorRun, x: Array, *, dims: Sequence[int]) -> Array:
    return np.expand_dims(x, tuple(dims))


@kernel("Squeeze")
def squeeze(run: ExecutorRun, x: Array, *, dims: Sequence[int]) -> Array:
    return np.squeeze(x, tuple(dims))


@kernel("Transpose")
def transpose(run: ExecutorRun, x: Array, *, axes: Sequence[int] = ()) -> Array:
    run.takes(ARITHMETIC, x)
    return np.ascontiguousarray(np.transpose(x, tuple(axes) or None))


@kernel("Concat")
def concat(run: ExecutorRun, *xs: Array, axis: int = 1, add_axis: int = 0) -> list[Array]:
    """Concatenate; the second output has the sizes along the axis."""
    run.takes({xs[0].dtype.name}, *xs)
    joined = np.stack(xs, axis) if add_axis else np.concatenate(xs, axis)
    return [joined, np.array([1 if add_axis else x.shape[axis] for x in xs], np.int32)]


@kernel("Split")
def split(
    run: ExecutorRun, x: Array, sizes: Array = None, *, axis: int = 1, split: Sequence[int] = (), outputs: int = 0
) -> list[Array]:
    """Split; into equal parts if no sizes are given."""
    given = [int(s) for s in (split if sizes is None else sizes)]
    if not given:
        if x.shape[axis] % outputs:
            raise Unsupported(f"{x.shape[axis]} elements in {outputs} equal parts")
        given = [x.shape[axis] // outputs] * outputs
    if sum(given) != x.shape[axis] or len(given) != outputs:
        raise Unsupported(f"parts of {given} for {outputs} outputs, of {x.shape[axis]} elements")
    return np.split(x, np.cumsum(given)[:-1], axis=axis)


@kernel("Shape")
def shape_of(run: ExecutorRun, x: Array, *, axes: Sequence[int] = ()) -> Array:
    return np.array([x.shape[a] for a in axes] if axes else x.shape, np.int64)


@kernel("Size")
def size_of(run: ExecutorRun, x: Array) -> Array:
    return np.array(x.size, np.int64)


@kernel("Expand")
def expand(run: ExecutorRun, x: Array, target: Array) -> Array:
    run.takes(ARITHMETIC, x)
    run.takes({"int64"}, target)
    shape = [max(int(d), 1) if int(d) in (-1, 1) else int(d) for d in target]
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))).copy()


@kernel("Tile")
def tile(run: ExecutorRun, x: Array, *, tiles: int = 1, axis: int = 0) -> Array:
    repeats = [1] * x.ndim
    repeats[axis] = tiles
    return np.tile(x, repeats)


@kernel("NumpyTile")
def numpy_tile(run: ExecutorRun, x: Array, repeats: Array) -> Array:
    run.takes(ARITHMETIC, x)
    if len(repeats) != x.ndim:
        raise Unsupported(f"{len(repeats)} repeats of {x.ndim} dims")
    return np.tile(x, [int(r) for r in repeats])
