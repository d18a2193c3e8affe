"""Ragged tensors as variants, and their single rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from .lazy_reshape import int64


@dataclass(frozen=True)
class RaggedTensor:
    """A ragged tensor as a variant: the row ends, level by level from the outermost, and the values."""

    splits: tuple[ir.Value, ...]
    values: ir.Value

    def count(self, g: Graph) -> ir.Value:
        """Return the number of rows, an int64 scalar."""
        return g.Sub(g.Squeeze(g.Shape(self.splits[0], start=0, end=1), [0]), np.int64(1))


def ragged_row(g: Graph, rows: RaggedTensor, index: ir.Value) -> RaggedTensor:
    """Return row `index`: on each level the part between its start and its end, with splits relative to its first
    value.
    """
    first = g.Reshape(int64(g, index), [1])
    last = g.Add(first, [1])
    inner = []
    for level, splits in enumerate(rows.splits):
        if level:
            part = g.Slice(splits, first, g.Add(last, [1]), [0])
            inner.append(g.facts(g.Sub(part, g.Gather(splits, first)), g.dtype(splits), [None]))
        first, last = (int64(g, g.Gather(splits, place)) for place in (first, last))
    values = g.Slice(rows.values, first, last, [0])
    return RaggedTensor(tuple(inner), g.facts(values, g.dtype(values), [None, *g.shape(rows.values)[1:]]))
