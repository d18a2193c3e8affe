"""Windows as a separate dim, for pools that Caffe2's kernels lack: dilated ones, other norms, indices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from convert.semantics.windows import Window

from ..blob import Blob
from ..net import Net
from .padding import pad_constant
from .shapes import transpose
from .windows import known_sizes, pads_of_all_dims


class Taps(NamedTuple):
    """`cells` is [batch, channels, windows, taps]; `inside` [windows, taps] says which taps are inside the input.

    `places` are the flat indices of the taps in the input's spatial dims; `sizes` are the spatial dims of the output.
    """

    cells: Blob
    inside: np.ndarray
    places: np.ndarray
    sizes: list[int]


def gather_taps(net: Net, x: Blob, made: Window, filling: float, counts: list[int]) -> Taps:
    """Return the elements of every window, by one gather per spatial axis of an input padded with `filling`.

    `counts` are the numbers of windows along the axes.
    """
    sizes = [d for d in known_sizes(net, x) if d is not None]
    grids = [
        np.arange(count)[None, :] * s + np.arange(k)[:, None] * d
        for count, s, k, d in zip(counts, made.strides, made.kernel, made.dilations, strict=True)
    ]
    y = pad_constant(net, x, pads_of_all_dims(made), filling)
    for i, grid in enumerate(grids):
        # Axis 2 + 2·i: each axis before it has become two, taps and windows.
        axis = 2 + 2 * i
        shape = [*net.shape(y)[:axis], *grid.shape, *net.shape(y)[axis + 1 :]]
        y = net.facts(net.Gather(y, net.const(grid.astype(np.int64)), axis=axis), x.dtype, shape)
    n = made.rank
    y = transpose(net, y, [0, 1, *(3 + 2 * i for i in range(n)), *(2 + 2 * i for i in range(n))])
    windows, cells = int(np.prod(counts)), int(np.prod(made.kernel))
    flat = net.facts(net.Reshape(y, shape=[0, 0, windows, cells], outputs=2)[0], x.dtype,
                     (*net.shape(x)[:2], windows, cells))  # fmt: skip
    inside, places = _tap_positions(grids, sizes, made)
    return Taps(flat, inside, places, counts)


def _tap_positions(grids: list[np.ndarray], sizes: list[int], made: Window) -> tuple[np.ndarray, np.ndarray]:
    """Return for each tap [windows, taps] whether it is inside the input, and its flat index."""
    inside, places = np.ones([1, 1], bool), np.zeros([1, 1], np.int64)
    for i, grid in enumerate(grids):
        cell = grid.T - made.before[i]  # [windows, taps] along this axis
        within = (cell >= 0) & (cell < sizes[i])
        inside = (inside[:, None, :, None] & within[None, :, None, :]).reshape(
            inside.shape[0] * cell.shape[0], inside.shape[1] * cell.shape[1]
        )
        places = (places[:, None, :, None] * sizes[i] + cell[None, :, None, :]).reshape(inside.shape)
    return inside, places


def restore_spatial(net: Net, y: Blob, found: Taps, dtype: ir.DataType) -> Blob:
    """Return [batch, channels, windows] with the output's spatial dims."""
    shape = [*net.shape(found.cells)[:2], *found.sizes]
    return net.facts(net.Reshape(y, shape=[0, 0, *found.sizes], outputs=2)[0], dtype, shape)
