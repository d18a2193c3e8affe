"""Ragged tensors as variants, and their rows one at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from .lazy_reshape import int64


@dataclass(frozen=True)
class RaggedTensor:
    """A ragged tensor as a variant: the ends of its rows, level by level from the outermost, and its values."""

    splits: tuple[ir.Value, ...]
    values: ir.Value

    def count(self, g: Graph) -> ir.Value:
        """How many rows there are, an int64 scalar."""
        return g.Sub(g.Squeeze(g.Shape(self.splits[0], start=0, end=1), [0]), np.int64(1))


def ragged_row(g: Graph, rows: RaggedTensor, index: ir.Value) -> RaggedTensor:
    """Row `index`: what lies between its start and its end, level by level; splits count from its first value."""
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
