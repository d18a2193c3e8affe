"""Shapes, slices, and operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph

from ...common import shape_values
from ...common.lazy_reshape import infer_reshape_dims, int64
from ..rules import AS_STORED, dtype_of, emit_tf, tf_rule, tflite_op

AS_STORED.update(
    """
    RESHAPE TRANSPOSE SQUEEZE EXPAND_DIMS SLICE STRIDED_SLICE GATHER GATHER_ND PACK UNPACK SPLIT SPLIT_V TILE SHAPE
    RANK REVERSE_V2 REVERSE_SEQUENCE BROADCAST_TO SCATTER_ND MATRIX_DIAG
    """.split()  # noqa: SIM905 (a table)
)

tflite_op.same(
    tf_rule, EXPAND_DIMS="ExpandDims", TRANSPOSE="Transpose", SLICE="Slice", GATHER_ND="GatherNd",
    SCATTER_ND="ScatterNd", TILE="Tile", BROADCAST_TO="BroadcastTo", BROADCAST_ARGS="BroadcastArgs", FILL="Fill",
    RANGE="Range", RANK="Rank", PAD="Pad", PADV2="PadV2", REVERSE_V2="ReverseV2", WHERE="Where", ZEROS_LIKE="ZerosLike",
    MATRIX_DIAG="MatrixDiag", MATRIX_SET_DIAG="MatrixSetDiag",
)  # fmt: skip


@tflite_op("RESHAPE")
def reshape(
    g: Graph, x: ir.Value, shape: ir.Value | None = None, *, new_shape: Sequence[int] | None = None
) -> ir.Value:
    """RESHAPE. The target is the input if that is a vector, else the option; in old files [0] means a scalar
    (kernels/reshape.cc).
    """
    if shape is None or (shape.shape is not None and len(shape.shape) != 1):
        if new_shape is None:
            raise Unsupported("a reshape to no vector of sizes, which TensorFlow Lite does not run")
        shape = g.const(np.array([] if list(new_shape) == [0] else new_shape, np.int32))
    target = shape_values.content(shape)
    source = shape_values.named_dims(g, x) if target is not None and target.ndim == 1 else None
    if target is not None and source is not None:
        axis = _dropped_axis(list(source), list(infer_reshape_dims(list(source), target.tolist())))
        if axis is not None:
            return squeeze(g, x, squeeze_dims=[axis])
    return emit_tf(g, "Reshape", [x, shape])


def _dropped_axis(source: Sequence[Dim], target: Sequence[Dim]) -> int | None:
    """Return the dim of size 1 that `target` lacks, as in the RESHAPE after a 1-D convolution; None if there is
    none.
    """
    ones = (i for i, d in enumerate(source) if d == 1 and None not in target)
    return next((i for i in ones if [*source[:i], *source[i + 1 :]] == list(target)), None)


@tflite_op("SQUEEZE")
def squeeze(g: Graph, x: ir.Value, *, squeeze_dims: Sequence[int] | None = None) -> ir.Value:
    return emit_tf(g, "Squeeze", [x], {"squeeze_dims": list(squeeze_dims or [])})


@tflite_op("SHAPE")
def shape(g: Graph, x: ir.Value, *, out_type: int = 2) -> ir.Value:
    return emit_tf(g, "Shape", [x], {"out_type": dtype_of(out_type)})


@tflite_op("CONCATENATION")
def concatenation(g: Graph, *values: ir.Value, axis: int) -> ir.Value:
    return emit_tf(g, "ConcatV2", [list(values), g.const(np.array(axis, np.int32))])


@tflite_op("PACK")
def pack(g: Graph, *values: ir.Value, axis: int) -> ir.Value:
    return emit_tf(g, "Pack", [list(values)], {"axis": axis})


@tflite_op("UNPACK")
def unpack(g: Graph, value: ir.Value, *, num: int, axis: int) -> ir.Value | list[ir.Value]:
    return emit_tf(g, "Unpack", [value], {"num": num, "axis": axis})


@tflite_op("SPLIT")
def split(g: Graph, axis: ir.Value, value: ir.Value, *, num_splits: int) -> ir.Value | list[ir.Value]:
    return emit_tf(g, "Split", [axis, value], {"num_split": num_splits})


@tflite_op("SPLIT_V")
def split_v(
    g: Graph, value: ir.Value, sizes: ir.Value, axis: ir.Value, *, num_splits: int
) -> ir.Value | list[ir.Value]:
    return emit_tf(g, "SplitV", [value, sizes, axis], {"num_split": num_splits})


@tflite_op("STRIDED_SLICE")
def strided_slice(
    g: Graph,
    x: ir.Value,
    begin: ir.Value,
    end: ir.Value,
    strides: ir.Value,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
    offset: bool,
) -> ir.Value:
    """STRIDED_SLICE. With `offset`, ends are relative to the resolved begins
    (kernels/internal/strided_slice_logic.h).
    """
    masks = {"begin_mask": begin_mask, "end_mask": end_mask, "ellipsis_mask": ellipsis_mask}
    masks |= {"new_axis_mask": new_axis_mask, "shrink_axis_mask": shrink_axis_mask}
    if offset:
        end = emit_tf(g, "AddV2", [_found_begin(g, x, begin, begin_mask | ellipsis_mask | new_axis_mask), end])
    return emit_tf(g, "StridedSlice", [x, begin, end, strides], masks)


def _found_begin(g: Graph, x: ir.Value, begin: ir.Value, masks: int) -> ir.Value:
    """Return `begin` counted from the front. Raises `Unsupported` for `masks`, under which it is not used."""
    known = shape_values.content(begin)
    if known is not None and all(isinstance(b, int) and b >= 0 for b in known) and not (masks and any(known)):
        return begin
    if masks:
        raise Unsupported("offset=True together with begin_mask, ellipsis_mask or new_axis_mask")
    sizes = emit_tf(g, "Shape", [x], {"out_type": g.dtype(begin)})
    sizes = emit_tf(g, "Slice", [sizes, g.const(np.zeros(1, np.int32)), emit_tf(g, "Shape", [begin])])
    zero = g.const(0, g.dtype(begin))
    counted = emit_tf(g, "SelectV2", [emit_tf(g, "Less", [begin, zero]), emit_tf(g, "AddV2", [begin, sizes]), begin])
    return emit_tf(g, "Maximum", [counted, zero])


@tflite_op("GATHER")
def gather(g: Graph, params: ir.Value, indices: ir.Value, *, axis: int, batch_dims: int) -> ir.Value:
    return emit_tf(g, "GatherV2", [params, indices, g.const(np.array(axis, np.int32))], {"batch_dims": batch_dims})


@tflite_op("ONE_HOT")
def one_hot(g: Graph, indices: ir.Value, depth: ir.Value, on: ir.Value, off: ir.Value, *, axis: int) -> ir.Value:
    return emit_tf(g, "OneHot", [indices, depth, on, off], {"axis": axis})


@tflite_op("MIRROR_PAD")
def mirror_pad(g: Graph, x: ir.Value, paddings: ir.Value, *, mode: int) -> ir.Value:
    return emit_tf(g, "MirrorPad", [x, paddings], {"mode": ("REFLECT", "SYMMETRIC")[mode]})


@tflite_op("REVERSE_SEQUENCE")
def reverse_sequence(g: Graph, x: ir.Value, lengths: ir.Value, *, seq_dim: int, batch_dim: int) -> ir.Value:
    return emit_tf(g, "ReverseSequence", [x, lengths], {"seq_dim": seq_dim, "batch_dim": batch_dim})


@tflite_op("SPARSE_TO_DENSE")
def sparse_to_dense(g: Graph, indices: ir.Value, shape: ir.Value, values: ir.Value, default: ir.Value) -> ir.Value:
    return emit_tf(g, "SparseToDense", [indices, shape, values, default], {"validate_indices": False})


@tflite_op("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(g: Graph, x: ir.Value, update: ir.Value, start: ir.Value) -> ir.Value:
    """Return `x` with `update` written at `start`, which is clamped so that it fits
    (kernels/dynamic_update_slice.cc).
    """
    rank = len(g.shape(update))
    sizes = g.dims(update)
    first = g.Max(g.Min(int64(g, start), g.Sub(g.dims(x), sizes)), np.zeros(rank, np.int64))
    end = g.Add(first, sizes)
    axes = [a for a, (n, m) in enumerate(zip(g.shape(x), g.shape(update), strict=True)) if n is None or n != m]

    def written(x: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Return the slices before the update, the update within the slice at its place, and the slices after it."""
        if not axes:
            return update
        axis = axes[0]
        begin, stop = (g.Slice(edges, [axis], [axis + 1], [0]) for edges in (first, end))
        inside = written(g.Slice(x, begin, stop, [axis]), axes[1:])
        parts = [g.Slice(x, [0], begin, [axis]), inside, g.Slice(x, stop, [2**62], [axis])]
        return g.facts(g.Concat(*parts, axis=axis), shape=g.shape(x))

    return written(x, axes)
