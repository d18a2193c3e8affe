"""Operators that change shapes and keep elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..fills import fill_dtype, fill_value
from ..rules import caffe2_op


@caffe2_op("Reshape")
def reshape(
    g: Graph, x: ir.Value, target: ir.Value | None = None, *, shape: Sequence[int] | None = None
) -> list[ir.Value]:
    """Reshape: 0 copies a dim, -1 is inferred; the second output is the original shape."""
    if target is None and shape is None:
        raise Unsupported("a Reshape without a shape")
    if target is None:
        target = g.const(np.array(list(shape or []), np.int64))
    return [annotate_rank(g, g.Reshape(x, cast_to_int64(g, target)), target), g.dims(x)]


def cast_to_int64(g: Graph, x: ir.Value) -> ir.Value:
    """Return a shape or a list of indices as int64."""
    return x if x.dtype == ir.DataType.INT64 else g.Cast(x, to=ir.DataType.INT64)


def annotate_rank(g: Graph, y: ir.Value, target: ir.Value) -> ir.Value:
    """Return `y` annotated with the shape in the vector `target`; if that is computed, its length still gives
    the rank.
    """
    length = target.shape[0] if target.shape is not None and len(target.shape) == 1 else None
    return g.facts(y, shape=[None] * length) if y.shape is None and isinstance(length, int) else y


@caffe2_op("Flatten")
def flatten(g: Graph, x: ir.Value, *, axis: int = 1) -> ir.Value:
    return g.Flatten(x, axis=axis)


@caffe2_op("FlattenToVec")
def flatten_to_vector(g: Graph, x: ir.Value) -> ir.Value:
    return g.Reshape(x, [-1])


@caffe2_op("ResizeLike")
def resize_like(g: Graph, x: ir.Value, like: ir.Value) -> ir.Value:
    return g.Reshape(x, g.dims(like))


@caffe2_op("ExpandDims")
def expand_dims(g: Graph, x: ir.Value, *, dims: Sequence[int]) -> ir.Value:
    return g.Unsqueeze(x, list(dims))


@caffe2_op("Squeeze")
def squeeze(g: Graph, x: ir.Value, *, dims: Sequence[int]) -> ir.Value:
    return g.Squeeze(x, list(dims))


@caffe2_op("Transpose")
def transpose(g: Graph, x: ir.Value, *, axes: Sequence[int] = ()) -> ir.Value:
    return g.Transpose(x, perm=list(axes) or list(range(g.rank(x)))[::-1])


@caffe2_op("Concat")
def concat(g: Graph, *xs: ir.Value, axis: int | None = None, order: str = "NCHW", add_axis: int = 0) -> list[ir.Value]:
    """Concat along `axis`, by default along the channels (then `add_axis` is ignored), and the sizes along that
    axis.
    """
    along = axis if axis is not None else 1 if order == "NCHW" else g.rank(xs[0]) - 1
    if add_axis and axis is not None:
        parts = [g.Unsqueeze(x, [along]) for x in xs]
        sizes: ir.Value = g.const(np.ones(len(xs), np.int32))
    else:
        parts = list(xs)
        along = along % g.rank(xs[0])
        sizes = g.Cast(g.Concat(*(g.Shape(x, start=along, end=along + 1) for x in xs), axis=0), to=ir.DataType.INT32)
    return [g.Concat(*parts, axis=along), sizes]


@caffe2_op("Split")
def split(
    g: Graph, x: ir.Value, sizes: ir.Value | None = None, *, axis: int | None = None, order: str = "NCHW",
    split: Sequence[int] = (), outputs: Sequence[str] = (),
) -> list[ir.Value]:  # fmt: skip
    """Split; into equal parts if no sizes are given. `outputs` are the net's names, passed by the reader."""
    along = axis if axis is not None else 1 if order == "NCHW" else g.rank(x) - 1
    if sizes is not None:
        given: ir.Value | list[int] | None = cast_to_int64(g, sizes)
    else:
        given = list(split) or None
    made = g.Split(x, given, axis=along, num_outputs=len(outputs) if given is None else None, outputs=len(outputs))
    return made if isinstance(made, list) else [made]


@caffe2_op("Shape")
def shape_of(g: Graph, x: ir.Value, *, axes: Sequence[int] = ()) -> ir.Value:
    return g.Gather(g.dims(x), list(axes)) if axes else g.dims(x)


@caffe2_op("Size")
def size_of(g: Graph, x: ir.Value) -> ir.Value:
    return g.Size(x)


@caffe2_op("Expand")
def expand(g: Graph, x: ir.Value, target: ir.Value) -> ir.Value:
    return annotate_rank(g, g.Expand(x, cast_to_int64(g, target)), target)


@caffe2_op("Tile")
def tile(g: Graph, x: ir.Value, computed: ir.Value | None = None, *, tiles: int = 1, axis: int = 0) -> ir.Value:
    """Tile along an axis. `computed` overrides `tiles`, and if it is int64, Caffe2 sets the axis to 0."""
    rank = g.rank(x)
    axis %= rank
    if computed is None:
        return g.Tile(x, [tiles if i == axis else 1 for i in range(rank)])
    if computed.dtype == ir.DataType.INT64:
        axis = 0
    return g.Tile(x, g.Concat([1] * axis, cast_to_int64(g, computed), [1] * (rank - axis - 1), axis=0))


@caffe2_op("NumpyTile")
def numpy_tile(g: Graph, x: ir.Value, repeats: ir.Value) -> ir.Value:
    return g.Tile(x, cast_to_int64(g, repeats))


@caffe2_op("ConstantFill")
def constant_fill(
    g: Graph, x: ir.Value, *, value: float = 0.0, dtype: int = 0, input_as_shape: int = 0,
    extra_shape: Sequence[int] = (),
) -> ir.Value:  # fmt: skip
    """ConstantFill in the shape of its input, or the shape that its input holds; without an input it is an
    initializer.
    """
    target = cast_to_int64(g, x) if input_as_shape else g.dims(x)
    if extra_shape:
        target = g.Concat(target, list(extra_shape), axis=0)
    args = {"value": value, "dtype": dtype}
    fill = ir.tensor(np.array([fill_value(args)], fill_dtype(args).numpy()))
    return annotate_rank(g, g.ConstantOfShape(target, value=fill), target)


@caffe2_op("ChannelShuffle")
def channel_shuffle(g: Graph, x: ir.Value, *, group: int = 1, kernel: int = 1, order: str = "NCHW") -> ir.Value:
    """ChannelShuffle; `kernel` occurs in the schema but has no effect."""
    channels = g.shape(x)[1]
    if order != "NCHW" or not isinstance(channels, int) or g.rank(x) != 4:
        raise Unsupported("a ChannelShuffle other than of [N, C, H, W] with known C")
    apart = g.Reshape(x, [0, group, channels // group, -1])
    return g.Reshape(g.Transpose(apart, perm=[0, 2, 1, 3]), g.dims(x))


@caffe2_op("MergeDim")
def merge_dim(g: Graph, x: ir.Value) -> ir.Value:
    """MergeDim: merge the first two dims."""
    return g.Reshape(x, g.Concat([-1], g.Shape(x, start=2), axis=0) if g.rank(x) > 2 else [-1])


@caffe2_op("PrependDim")
def prepend_dim(g: Graph, x: ir.Value, *, dim_size: int = 1) -> ir.Value:
    """PrependDim: split the first dim into `dim_size` parts."""
    return g.Reshape(x, g.Concat([dim_size, -1], g.Shape(x, start=1), axis=0))
