"""Rows of different lengths as sparse tensors: the kept elements of each row of a matrix, in order, with their
indices.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common.lazy_reshape import int64
from ...rules import tf_op

_INT64 = ir.DataType.INT64
COMPUTED_DELIMITER = "a delimiter that depends on data"
LIMITED_AT_SPACE = tf_op.limit("StringSplitV2", "maxsplit without a separator, where TensorFlow adds empty parts")
MANY_DELIMITERS = tf_op.limit("StringSplit", "a delimiter of several characters, or of none")


def sparse_from_mask(g: Graph, values: ir.Value, keep: ir.Value) -> list[ir.Value]:
    """Return indices [n, 2], values [n] and dense shape [2] of the elements that `keep` selects; both are [rows,
    columns].

    Columns are renumbered: the third kept element of a row has column 2.
    """
    counts = g.CumSum(g.Cast(keep, to=_INT64), np.array(1, np.int64))
    flat = g.Reshape(keep, [-1])
    row = g.Gather(g.NonZero(keep), np.array(0, np.int64), axis=0)
    place = g.Sub(g.Compress(g.Reshape(counts, [-1]), flat), np.array(1, np.int64))
    indices = g.facts(g.Concat(g.Unsqueeze(row, [1]), g.Unsqueeze(place, [1]), axis=1), _INT64, [None, 2])
    items = g.facts(g.Compress(g.Reshape(values, [-1]), flat), g.dtype(values), [None])
    # A column of zeros is added to the counts, because the maximum of no elements is undefined.
    nothing = g.const(np.zeros(1, np.int64))
    most = g.ReduceMax(g.Concat(nothing, g.Reshape(counts, [-1]), axis=0), [0], keepdims=1)
    return [indices, items, g.facts(g.Concat(g.Shape(keep, start=0, end=1), most, axis=0), _INT64, [2])]


@tf_op("CTCGreedyDecoder")
def ctc_greedy_decoder(
    g: Graph, inputs: ir.Value, sequence_length: ir.Value, *, merge_repeated: bool, blank_index: int
) -> list[ir.Value]:
    """CTCGreedyDecoder: the best class of each step, without blanks and, if requested, repetitions
    (ctc_decoder_ops.cc).
    """
    blank: int | ir.Value = blank_index
    if blank_index < 0:
        classes = g.shape(inputs)[2]
        last = g.Squeeze(g.Shape(inputs, start=2, end=3), [0])
        blank = blank_index % classes if isinstance(classes, int) else g.Add(last, np.int64(blank_index))
    best = g.ArgMax(inputs, axis=2, keepdims=0)
    steps = g.Unsqueeze(g.Range(0, g.Squeeze(g.Shape(inputs, start=0, end=1), [0]), 1), [1])
    inside = g.Less(steps, int64(g, sequence_length))
    keep = g.And(inside, g.Not(g.Equal(best, blank if isinstance(blank, ir.Value) else g.const(blank, _INT64))))
    if merge_repeated:
        before = g.Slice(g.Pad(best, np.array([1, 0, 0, 0]), g.const(-1, _INT64)), [0], [-1], [0])
        keep = g.And(keep, g.Not(g.Equal(best, before)))
    rows = sparse_from_mask(g, g.Transpose(best, perm=[1, 0]), g.Transpose(keep, perm=[1, 0]))
    scores = g.Where(inside, g.ReduceMax(inputs, [2], keepdims=0), g.const(0, inputs.dtype))
    total = g.Neg(g.Transpose(g.ReduceSum(scores, [0], keepdims=1), perm=[1, 0]))
    return [*rows, total]


@tf_op("StringSplitV2")
def string_split_v2(g: Graph, input: ir.Value, sep: ir.Value, *, maxsplit: int) -> list[ir.Value]:
    """StringSplitV2, as Python's split; at white space if there is no separator."""
    text = _static_string(g, sep)
    if text is None:
        raise Unsupported(COMPUTED_DELIMITER)
    if maxsplit > 0 and not text:
        raise Unsupported(LIMITED_AT_SPACE)
    parts, there = _split_strings(g, input, text, maxsplit if maxsplit > 0 else None)
    return sparse_from_mask(g, parts, there)


@tf_op("StringSplit")
def string_split(g: Graph, input: ir.Value, delimiter: ir.Value, *, skip_empty: bool) -> list[ir.Value]:
    text = _static_string(g, delimiter)
    if text is None or len(text.encode()) != 1:
        raise Unsupported(MANY_DELIMITERS)
    parts, there = _split_strings(g, input, text, None)
    # an empty string has no part, unlike in StringSplitV2
    there = g.And(there, g.Unsqueeze(g.Not(g.Equal(input, g.const(np.array("")))), [1]))
    if skip_empty:
        there = g.And(there, g.Not(g.Equal(parts, g.const(np.array("")))))
    return sparse_from_mask(g, parts, there)


def _split_strings(g: Graph, x: ir.Value, separator: str, most: int | None) -> tuple[ir.Value, ir.Value]:
    """Split each string; return the parts [strings, most], and a mask of those that exist.

    An empty string has one empty part, but none if `separator` is empty, which splits at white space. Runtimes differ
    in this, so it is explicit here.
    """
    parts, counts = g.StringSplit(x, delimiter=separator, maxsplit=most, outputs=2)
    g.facts(parts, ir.DataType.STRING, [g.shape(x)[0], None])
    if separator:
        counts = g.Max(counts, g.const(1, _INT64))
        parts = g.Concat(parts, g.Expand(g.const(np.array("")), g.Concat(g.Shape(x), [1], axis=0)), axis=1)
    places = g.Range(0, g.Squeeze(g.Shape(parts, start=1, end=2), [0]), 1)
    return parts, g.Less(places, g.Unsqueeze(counts, [1]))


def _static_string(g: Graph, value: ir.Value) -> str | None:
    content = g.static(value)
    if content is None:
        return None
    item = content.reshape(-1)[0] if content.size else ""
    return item.decode() if isinstance(item, bytes) else str(item)


@tf_op("SparseFillEmptyRows")
def sparse_fill_empty_rows(
    g: Graph, indices: ir.Value, values: ir.Value, dense_shape: ir.Value, default_value: ir.Value
) -> list[ir.Value]:
    """SparseFillEmptyRows: a default value at the start of each empty row; rows are sorted, their content keeps its
    order.
    """
    rank = g.shape(indices)[1]
    if not isinstance(rank, int):
        raise Unsupported("a sparse tensor of unknown rank")
    zero = np.zeros(1, np.int64)
    row = g.Squeeze(g.Slice(indices, [0], [1], [1]), [1])
    rows = g.Slice(dense_shape, [0], [1], [0])
    counts = g.ScatterND(g.Expand(g.const(0, _INT64), rows), g.Unsqueeze(row, [1]),
                         g.Expand(g.const(1, _INT64), g.Shape(row)), reduction="add")  # fmt: skip
    empty = g.facts(g.Equal(counts, g.const(0, _INT64)), shape=[None])
    lacking = g.Squeeze(g.NonZero(empty), [0])
    added = g.Pad(g.Unsqueeze(lacking, [1]), np.array([0, 0, 0, rank - 1]))
    every = g.Concat(indices, added, axis=0)
    count = g.Shape(every, start=0, end=1)
    places = g.Range(0, g.Squeeze(count, [0]), 1)
    key = g.Add(g.Mul(g.Concat(row, lacking, axis=0), count), places)
    _, order = g.TopK(key, count, axis=0, largest=0, sorted=1, outputs=2)
    filled = g.Concat(values, g.Expand(default_value, g.Shape(lacking)), axis=0)
    back = g.ScatterElements(g.Expand(g.const(0, _INT64), count), order, places, axis=0)
    kept = g.Slice(back, zero, g.Shape(row), zero)
    outputs = [g.Gather(every, order, axis=0), g.Gather(filled, order, axis=0), empty, kept]
    g.facts(outputs[0], _INT64, [None, rank])
    g.facts(outputs[1], g.dtype(values), [None])
    return outputs
