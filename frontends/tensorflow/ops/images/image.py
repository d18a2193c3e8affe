"""Resizes, and SpaceToDepth, SpaceToBatch and their inverses."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common import shape_values
from ...common.conv_layout import to_channels_first, to_data_format
from ...common.lazy_reshape import cast, int64
from ...common.nearest_places import computed_places, is_resize_of_onnx, nearest_places
from ...patterns import dilated
from ...rules import tf_op
from .blocks_computed import batch_to_space_computed, space_to_batch_computed


@tf_op("ResizeBilinear")
def resize_bilinear(
    g: Graph, images: ir.Value, size: ir.Value, *, align_corners: bool, half_pixel_centers: bool
) -> ir.Value:
    x = to_channels_first(g, cast(g, images, ir.DataType.FLOAT), "NHWC")
    y = _emit_resize(
        g, x, size, mode="linear", coordinate_transformation_mode=_coordinate_mode(align_corners, half_pixel_centers)
    )
    return to_data_format(g, y, "NHWC")


_WIDE = (ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64)
"""Integers that runtimes can neither resize nor rearrange in blocks, and that no floating-point dtype holds."""

tf_op.limit(
    "ResizeNearestNeighbor",
    "of sizes that are not static, the pixels are those of ONNX's Resize, which rounds otherwise for a few pairs",
)


@tf_op("ResizeNearestNeighbor")
def resize_nearest(
    g: Graph, images: ir.Value, size: ir.Value, *, align_corners: bool, half_pixel_centers: bool
) -> ir.Value:
    """Nearest resize; by indices if TensorFlow's arithmetic takes other pixels than ONNX's Resize, and for wide
    integers.
    """
    mode = _coordinate_mode(align_corners, half_pixel_centers)
    sizes, wanted = g.shape(images)[1:3], shape_values.content(size)
    pairs = [] if wanted is None else zip(sizes, wanted.tolist(), strict=True)
    known = [(old, new) for old, new in pairs if isinstance(old, int) and isinstance(new, int)]
    if len(known) == 2 and (images.dtype in _WIDE or not all(is_resize_of_onnx(*pair, mode) for pair in known)):
        rows, columns = (nearest_places(*pair, mode) for pair in known)
        return g.Gather(g.Gather(images, rows, axis=1), columns, axis=2)
    if images.dtype in _WIDE:
        for k, axis in enumerate((1, 2)):
            new = g.Slice(int64(g, size), [k], [k + 1], [0])
            places = computed_places(g, g.Shape(images, start=axis, end=axis + 1), new, mode)
            images = g.Gather(images, places, axis=axis)
        return images
    x = to_channels_first(g, images, "NHWC")
    # ⌊(i + ½)·scale⌋ is (i + ½)·scale - ½ rounded half up.
    rounding = "floor" if mode == "asymmetric" else "round_prefer_ceil"
    y = _emit_resize(g, x, size, mode="nearest", coordinate_transformation_mode=mode, nearest_mode=rounding)
    return to_data_format(g, y, "NHWC")


def _coordinate_mode(align_corners: bool, half_pixel_centers: bool) -> str:
    if align_corners and half_pixel_centers:
        raise Unsupported("align_corners together with half_pixel_centers")
    return "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"


def _emit_resize(g: Graph, x: ir.Value, size: ir.Value, **attributes: object) -> ir.Value:
    """Pass sizes for every dim instead of `axes`: onnxruntime 1.31 moves a Transpose past a Resize with axes
    incorrectly.
    """
    content = shape_values.content(size)
    height, width = content.tolist() if content is not None else (None, None)
    shape = [*g.shape(x)[:2], height, width]
    if all(isinstance(d, int) for d in shape):
        sizes = g.const(np.array(shape, np.int64))
    else:
        sizes = g.Concat(g.Shape(x, start=0, end=2), int64(g, size), axis=0)
    return g.facts(g.Resize(x, None, None, sizes, **attributes), x.dtype, shape)


@tf_op("SpaceToDepth")
def space_to_depth(g: Graph, input: ir.Value, *, block_size: int, data_format: str) -> ir.Value:
    x = to_channels_first(g, input, data_format)
    if input.dtype not in _WIDE:
        return to_data_format(g, g.SpaceToDepth(x, blocksize=block_size), data_format)
    n, depth, *inner = g.shape(x)
    rows, columns = (_block_count(d, block_size) for d in inner)
    parts = _reshape_to_dims(g, x, [n, depth, rows, block_size, columns, block_size])
    whole = depth * block_size**2 if isinstance(depth, int) else None
    y = _reshape_to_dims(g, g.Transpose(parts, perm=[0, 3, 5, 1, 2, 4]), [n, whole, rows, columns])
    return to_data_format(g, y, data_format)


@tf_op("DepthToSpace")
def depth_to_space(g: Graph, input: ir.Value, *, block_size: int, data_format: str) -> ir.Value:
    x = to_channels_first(g, input, data_format)
    if input.dtype not in _WIDE:
        return to_data_format(g, g.DepthToSpace(x, blocksize=block_size, mode="DCR"), data_format)
    n, depth, *inner = g.shape(x)
    left = depth // block_size**2 if isinstance(depth, int) else None
    parts = _reshape_to_dims(g, x, [n, block_size, block_size, left, *inner])
    rows, columns = (d * block_size if isinstance(d, int) else None for d in inner)
    y = _reshape_to_dims(g, g.Transpose(parts, perm=[0, 3, 4, 1, 5, 2]), [n, left, rows, columns])
    return to_data_format(g, y, data_format)


@tf_op("SpaceToBatchND")
def space_to_batch(g: Graph, input: ir.Value, block_shape: ir.Value, paddings: ir.Value) -> ir.Value:
    """Pad, split every spatial dim into (blocks, block), and move the block dims before the batch."""
    if not shape_values.is_known(block_shape):
        return space_to_batch_computed(g, input, block_shape, paddings)
    blocks = shape_values.ints(block_shape, "block_shape")
    content = shape_values.content(paddings)
    if content is None or not all(isinstance(p, int) for p in content.ravel()):
        y = space_to_batch_computed(g, input, block_shape, paddings)
        dilated.remember_blocks(g, y, input, blocks, paddings)
        return y
    pads = np.reshape(shape_values.ints(paddings, "paddings"), (-1, 2))
    m, rank = len(blocks), g.rank(input)
    full = np.zeros((rank, 2), np.int64)
    full[1 : m + 1] = pads
    x = g.Pad(input, full.T.ravel()) if pads.any() else input
    tail = g.shape(x)[m + 1 :]
    inner = g.shape(x)[1 : m + 1]
    if [*tail, *inner, g.shape(x)[0]].count(None) + sum(isinstance(d, str) for d in [*tail, *inner, g.shape(x)[0]]) > 1:
        y = space_to_batch_computed(g, input, block_shape, paddings)
        dilated.remember_blocks(g, y, input, blocks, paddings)
        return y
    split = [part for d, b in zip(inner, blocks, strict=True) for part in (_block_count(d, b), b)]
    x = _reshape_to_dims(g, x, [g.shape(x)[0], *split, *tail])
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, rank + m)]
    moved = g.Transpose(x, perm=order)
    batch = g.shape(x)[0]
    y = _reshape_to_dims(g, moved, [batch * prod(blocks) if isinstance(batch, int) else None, *split[0::2], *tail])
    dilated.remember_blocks(g, y, input, blocks, paddings)
    return y


@tf_op("BatchToSpaceND")
def batch_to_space(g: Graph, input: ir.Value, block_shape: ir.Value, crops: ir.Value) -> ir.Value:
    """Move the block dims from the batch to the spatial dims, then crop."""
    if not shape_values.is_known(block_shape):
        return batch_to_space_computed(g, input, block_shape, crops)
    blocks = shape_values.ints(block_shape, "block_shape")
    if (whole_convolution := dilated.dilated_convolution(g, input, blocks, crops)) is not None:
        return whole_convolution
    open_dims = [d for d in g.shape(input) if not isinstance(d, int)]
    if not shape_values.is_known(crops) or len(open_dims) > 1:
        return batch_to_space_computed(g, input, block_shape, crops)
    cut = np.reshape(shape_values.ints(crops, "crops"), (-1, 2))
    m, rank = len(blocks), g.rank(input)
    inner, tail = g.shape(input)[1 : m + 1], g.shape(input)[m + 1 :]
    batch = g.shape(input)[0]
    first = batch // int(np.prod(blocks)) if isinstance(batch, int) else None
    x = _reshape_to_dims(g, input, [*blocks, first, *inner, *tail])
    order = [m, *(i for k in range(m) for i in (m + 1 + k, k)), *range(2 * m + 1, rank + m)]
    whole = [d * b if isinstance(d, int) else None for d, b in zip(inner, blocks, strict=True)]
    x = _reshape_to_dims(g, g.Transpose(x, perm=order), [first, *whole, *tail])
    if not cut.any():
        return x
    ends = [-int(e) if e else np.iinfo(np.int64).max for e in cut[:, 1]]
    return g.Slice(x, cut[:, 0].astype(np.int64), np.array(ends, np.int64), np.arange(1, m + 1, dtype=np.int64))


def _block_count(dim: object, block: int) -> int | None:
    return dim // block if isinstance(dim, int) else None


def _reshape_to_dims(g: Graph, x: ir.Value, shape: list[object]) -> ir.Value:
    unknown = [i for i, d in enumerate(shape) if not isinstance(d, int)]
    if len(unknown) > 1:
        raise Unsupported(f"{len(unknown)} dims that are not static")
    return g.Reshape(x, np.array([d if isinstance(d, int) else -1 for d in shape], np.int64))
