"""Operators that pick and place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..rules import caffe2


@caffe2("Slice")
def slice_rule(
    g: Graph, x: ir.Value, starts_: ir.Value | None = None, ends_: ir.Value | None = None, *,
    starts: Sequence[int] = (), ends: Sequence[int] = (),
) -> ir.Value:  # fmt: skip
    """A bound v below zero is size + v + 1: -1 is the end, where ONNX's -1 is one before it."""
    if starts_ is None:
        first, final = (g.const(np.array(list(v), np.int64)) for v in (starts, ends))
    else:
        assert ends_ is not None
        first, final = (g.Cast(v, to=ir.DataType.INT64) for v in (starts_, ends_))
    sizes = g.Shape(x)
    bounds = [g.Where(g.Less(v, 0), g.Add(g.Add(v, sizes), 1), v) for v in (first, final)]
    return g.Slice(x, *bounds)


@caffe2("Gather")
def gather(g: Graph, x: ir.Value, indices: ir.Value, *, axis: int = 0, wrap_indices: int = 0) -> ir.Value:
    """`wrap_indices` is what ONNX's does anyhow."""
    return g.Gather(x, indices, axis=axis)


@caffe2("BatchGather")
def batch_gather(g: Graph, x: ir.Value, indices: ir.Value) -> ir.Value:
    return g.Gather(x, indices, axis=1)


@caffe2("BooleanMask")
def boolean_mask(g: Graph, x: ir.Value, mask: ir.Value) -> list[ir.Value]:
    """The rows where the mask is true, and their numbers."""
    numbers = g.Reshape(g.NonZero(mask), [-1])
    return [g.Compress(x, mask, axis=0), numbers]


@caffe2("ScatterAssign")
def scatter_assign(g: Graph, x: ir.Value, indices: ir.Value, rows: ir.Value) -> ir.Value:
    """Rows replaced by others; of several for one place the last counts."""
    return g.ScatterND(x, g.Unsqueeze(g.Cast(indices, to=ir.DataType.INT64), [-1]), rows, reduction="none")


@caffe2("OneHot")
def one_hot(g: Graph, indices: ir.Value, depth: ir.Value) -> ir.Value:
    """A matrix of float32."""
    size = g.Reshape(depth, g.const(np.zeros(0, np.int64)))
    return g.OneHot(indices, size, np.array([0, 1], np.float32), axis=-1)


@caffe2("ReversePackedSegs")
def reverse_packed(g: Graph, x: ir.Value, lengths: ir.Value) -> ir.Value:
    """[length, batch, …]: the first `lengths` steps of each sequence turned round, the others as they are."""
    return g.ReverseSequence(x, g.Cast(lengths, to=ir.DataType.INT64), time_axis=0, batch_axis=1)


caffe2.gap("it reads a database or a file", "CreateDB", "Load", "ImageInput", "TensorProtosDBInput")
caffe2.gap(
    "its numbers are random", "XavierFill", "GaussianFill", "UniformFill", "MSRAFill", "UniformIntFill", "RngUniform"
)
