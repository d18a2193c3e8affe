"""Operators that gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import caffe2_op
from .shape import annotate_rank, cast_to_int64


@caffe2_op("Slice")
def slice_rule(
    g: Graph, x: ir.Value, starts_: ir.Value | None = None, ends_: ir.Value | None = None, *,
    starts: Sequence[int] = (), ends: Sequence[int] = (),
) -> ir.Value:  # fmt: skip
    """Slice. A negative bound v means size + v + 1: -1 is the end, while ONNX's -1 is one before it."""
    if starts_ is None or ends_ is None:
        whole = np.iinfo(np.int64).max
        return g.Slice(x, *([v if v >= 0 else v + 1 or whole for v in bounds] for bounds in (starts, ends)))
    first, final = cast_to_int64(g, starts_), cast_to_int64(g, ends_)
    sizes = g.Slice(g.Shape(x), [0], g.dims(first))  # later axes, which have no bounds, are kept whole
    bounds = [g.Where(g.Less(v, 0), g.Add(g.Add(v, sizes), 1), v) for v in (first, final)]
    return g.Slice(x, *bounds)


@caffe2_op("Gather")
def gather(g: Graph, x: ir.Value, indices: ir.Value, *, axis: int = 0, wrap_indices: int = 0) -> ir.Value:
    """Gather. ONNX always wraps indices, as `wrap_indices` requests."""
    return g.Gather(x, indices, axis=axis)


@caffe2_op("BatchGather")
def batch_gather(g: Graph, x: ir.Value, indices: ir.Value) -> ir.Value:
    return g.Gather(x, indices, axis=1)


@caffe2_op("BooleanMask")
def boolean_mask(g: Graph, x: ir.Value, mask: ir.Value) -> list[ir.Value]:
    """BooleanMask: the rows where the mask is true, and their indices."""
    numbers = g.Reshape(g.NonZero(mask), [-1])
    return [g.Compress(x, mask, axis=0), numbers]


@caffe2_op("ScatterAssign")
def scatter_assign(g: Graph, x: ir.Value, indices: ir.Value, rows: ir.Value) -> ir.Value:
    """ScatterAssign: replace rows; if an index occurs twice, the last row is used."""
    return g.ScatterND(x, g.Unsqueeze(cast_to_int64(g, indices), [-1]), rows, reduction="none")


@caffe2_op("OneHot")
def one_hot(g: Graph, indices: ir.Value, depth: ir.Value) -> ir.Value:
    """OneHot: a float32 matrix."""
    size = g.Reshape(depth, g.const(np.zeros(0, np.int64)))
    return g.OneHot(indices, size, np.array([0, 1], np.float32), axis=-1)


@caffe2_op("BatchOneHot")
def batch_one_hot(g: Graph, x: ir.Value, lengths: ir.Value, values: ir.Value) -> ir.Value:
    """BatchOneHot: compare each column of `x` with its own values; `lengths` says how many of `values` belong to it."""
    counts = g.static(lengths)
    if counts is None:
        raise Unsupported("a BatchOneHot whose lengths are computed")
    columns = np.repeat(np.arange(counts.size), counts)
    return g.Cast(g.Equal(g.Gather(x, g.const(columns), axis=1), values), to=g.dtype(x))


@caffe2_op("Bucketize")
def bucketize(g: Graph, x: ir.Value, *, boundaries: Sequence[float]) -> ir.Value:
    """Bucketize: the number of boundaries, in ascending order, below each element, as int32."""
    bounds = g.const(np.array(list(boundaries), g.dtype(x).numpy()))
    below = g.Less(bounds, g.Unsqueeze(x, [-1]))
    return g.ReduceSum(g.Cast(below, to=ir.DataType.INT32), [-1], keepdims=0)


@caffe2_op("Unique")
def unique(g: Graph, x: ir.Value) -> list[ir.Value]:
    """Unique: the sorted distinct elements, and for each input element its index among them."""
    values, _, places, _ = g.Unique(x, sorted=1, outputs=4)
    return [values, g.Cast(places, to=ir.DataType.INT32)]


@caffe2_op("ReversePackedSegs")
def reverse_packed(g: Graph, x: ir.Value, lengths: ir.Value) -> ir.Value:
    """ReversePackedSegs: [length, batch, …] with the first `lengths` steps of each sequence reversed."""
    return g.ReverseSequence(x, cast_to_int64(g, lengths), time_axis=0, batch_axis=1)


caffe2_op.gap("it reads a database or a file", "CreateDB", "Load", "ImageInput", "TensorProtosDBInput")
caffe2_op.gap("it calls any operator of PyTorch by name; write the net without --profile aten", "ATen")
caffe2_op.gap("its numbers are random", "XavierFill", "MSRAFill", "UniformIntFill", "RngUniform")


@caffe2_op("UniformFill")
def uniform_fill(
    g: Graph, x: ir.Value | None = None, *, min: float = 0.0, max: float = 1.0, shape: Sequence[int] = (),
    input_as_shape: int = 0,
) -> ir.Value:  # fmt: skip
    return g.RandomUniformLike(_zeros_of_shape(g, x, shape, input_as_shape), low=min, high=max)


@caffe2_op("GaussianFill")
def gaussian_fill(
    g: Graph, x: ir.Value | None = None, *, mean: float = 0.0, std: float = 1.0, shape: Sequence[int] = (),
    input_as_shape: int = 0,
) -> ir.Value:  # fmt: skip
    return g.RandomNormalLike(_zeros_of_shape(g, x, shape, input_as_shape), mean=mean, scale=std)


def _zeros_of_shape(g: Graph, x: ir.Value | None, shape: Sequence[int], input_as_shape: int) -> ir.Value:
    """Return zeros in the shape of a random fill."""
    if x is None:
        return g.const(np.zeros(list(shape), np.float32))
    return annotate_rank(
        g, g.ConstantOfShape(cast_to_int64(g, x) if input_as_shape else g.dims(x)), x if input_as_shape else g.dims(x)
    )
