"""Combining strings: n-grams of words, and numbers in a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common import shape_values
from ...common.lazy_reshape import cast, int64
from ...rules import tf_op
from ..ragged.tensors import row_ids

PADDED = tf_op.limit("StringNGrams", "rows that are padded, or kept where they are shorter than a run")
WRITTEN = tf_op.limit("StringFormat", "tensors with dims, and numbers that are no integers: ONNX writes them otherwise")
_FEW = 64  # number of strings that are joined without a loop


@tf_op("StringNGrams")
def string_ngrams(
    g: Graph, data: ir.Value, data_splits: ir.Value, *, separator: str, ngram_widths: Sequence[int], left_pad: str,
    right_pad: str, pad_width: int, preserve_short_sequences: bool,
) -> list[ir.Value]:  # fmt: skip
    """StringNGrams: for each row of words the n-grams of each width, in the order of the widths."""
    if pad_width or preserve_short_sequences:
        raise Unsupported(PADDED)
    splits = int64(g, data_splits)
    first, last = g.Slice(splits, [0], [-1], [0]), g.Slice(splits, [1], [np.iinfo(np.int64).max], [0])
    row = row_ids(g, splits)
    count = g.Shape(row)
    at = g.Range(0, g.Squeeze(count, [0]), 1)
    end = g.Gather(last, row, axis=0)
    runs, kept, keys = [], [], []
    for i, width in enumerate(ngram_widths):
        runs.append(_join_words(g, data, at, count, width, separator))
        kept.append(g.LessOrEqual(g.Add(at, np.int64(width)), end))
        keys.append(g.Add(g.Mul(g.Add(g.Mul(row, np.int64(len(ngram_widths))), np.int64(i)), count), at))
    inside = g.Concat(*kept, axis=0)
    keys_kept = g.Compress(g.Concat(*keys, axis=0), inside, axis=0)
    _, order = g.TopK(keys_kept, g.Shape(keys_kept), axis=0, largest=0, sorted=1, outputs=2)
    words = g.Gather(g.Compress(g.Concat(*runs, axis=0), inside, axis=0), order, axis=0)
    length = g.Sub(last, first)
    counts = [g.Max(g.Sub(length, np.int64(w - 1)), np.int64(0)) for w in ngram_widths]
    sums = g.CumSum(reduce(g.Add, counts), np.array(0, np.int64))
    ends = g.Concat(np.zeros(1, np.int64), sums, axis=0)
    return [g.facts(words, ir.DataType.STRING, [None]), cast(g, ends, g.dtype(data_splits))]


def _join_words(g: Graph, data: ir.Value, at: ir.Value, count: ir.Value, width: int, separator: str) -> ir.Value:
    """Return, for each word, `width` words from it on; after the end the last word is repeated."""
    whole = data
    for step in range(1, width):
        place = g.Min(g.Add(at, np.int64(step)), g.Sub(count, np.int64(1)))
        if separator:
            whole = g.StringConcat(whole, g.const(np.array(separator)))
        whole = g.StringConcat(whole, g.Gather(data, place, axis=0))
    return whole


@tf_op("StringFormat")
def string_format(g: Graph, inputs: Sequence[ir.Value], *, template: str, placeholder: str, summarize: int) -> ir.Value:
    """StringFormat: replace each placeholder of a text by integers."""
    integers = (ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64)
    if any(x.dtype not in integers or g.rank(x) for x in inputs):
        raise Unsupported(WRITTEN)
    parts = template.split(placeholder)
    whole = g.const(np.array(parts[0]))
    for value, after in zip(inputs, parts[1:], strict=True):
        whole = g.StringConcat(whole, g.Cast(value, to=ir.DataType.STRING))
        whole = g.StringConcat(whole, g.const(np.array(after))) if after else whole
    return whole


@tf_op("ReduceJoin")
def reduce_join(
    g: Graph, inputs: ir.Value, reduction_indices: ir.Value, *, keep_dims: bool, separator: str
) -> ir.Value:
    """ReduceJoin: concatenate strings along dims, one dim after another in the given order; no strings give ""."""
    dims, rank = g.shape(inputs), g.rank(inputs)
    axes = [a % rank for a in shape_values.ints(reduction_indices, "reduction_indices")]
    if not axes:
        return inputs
    kept = [i for i in range(rank) if i not in axes]
    rows = g.Transpose(inputs, perm=[*axes[::-1], *kept])
    outer = g.Gather(g.Shape(inputs), np.array(kept, np.int64)) if kept else g.const(np.zeros(0, np.int64))
    count = g.ReduceProd(g.Gather(g.Shape(inputs), np.array(axes, np.int64)), [0], keepdims=1)
    rows = g.Reshape(rows, g.Concat(count, outer, axis=0), allowzero=1)
    sizes = [dims[a] for a in axes]
    number = math.prod(int(size or 0) for size in sizes) if all(isinstance(size, int) for size in sizes) else 0
    if 0 < number <= _FEW:
        # onnxruntime's Gather of strings takes only the first string of each row.
        parts = [g.GatherND(rows, np.array([k], np.int64)) for k in range(number)]
        whole = reduce(lambda one, other: _joined(g, one, other, separator), parts)
    else:
        whole = _joined_in_loop(g, rows, count, outer, separator)
    left = [1 if i in axes else d for i, d in enumerate(dims)] if keep_dims else [dims[i] for i in kept]
    whole = g.Unsqueeze(whole, np.array(sorted(axes), np.int64)) if keep_dims else whole
    return g.facts(whole, ir.DataType.STRING, left)


def _joined(g: Graph, one: ir.Value, other: ir.Value, separator: str) -> ir.Value:
    one = g.StringConcat(one, g.const(np.array(separator))) if separator else one
    return g.StringConcat(one, other)


def _joined_in_loop(g: Graph, rows: ir.Value, count: ir.Value, outer: ir.Value, separator: str) -> ir.Value:
    """Concatenate a run-time number of rows."""
    nothing = g.Expand(g.const(np.array("")), outer)
    body = g.body("join")
    number, going = body.input("number", ir.DataType.INT64, []), body.input("going", ir.DataType.BOOL, [])
    before = body.input("before", ir.DataType.STRING, g.shape(rows)[1:])
    row = body.GatherND(rows, body.Unsqueeze(number, [0]))
    both = _joined(body, before, row, separator)
    whole = body.Where(body.Equal(number, np.int64(0)), row, both) if separator else both
    body.output(body.Identity(going), body.unique("goes_on"))
    body.output(whole, body.unique("joined"))
    return g.Loop(g.Squeeze(count, [0]), True, nothing, body=body)
