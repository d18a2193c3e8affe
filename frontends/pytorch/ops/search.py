"""Finding values among others: bucketize, searchsorted, isin."""

from __future__ import annotations

import onnx_ir as ir
import torch

from convert.graph import Graph

from ..rules import aten
from ..values import as_value, cast, promoted
from .shape import flatten


def _rank_of(g: Graph, values: ir.Value, edges: ir.Value, right: bool, out_int32: bool) -> ir.Value:
    """How many of the sorted `edges` (last dim) lie before each value."""
    below = g.LessOrEqual(edges, values) if right else g.Less(edges, values)
    count = g.ReduceSum(g.Cast(below, to=ir.DataType.INT64), [-1], keepdims=0)
    return cast(g, count, torch.int32) if out_int32 else count


@aten("bucketize")
def bucketize(g, x, boundaries, *, out_int32=False, right=False):
    if not isinstance(x, ir.Value):
        x = as_value(g, x, g.dtype(boundaries))
    values, edges = promoted(g, g.Unsqueeze(x, [g.rank(x)]), boundaries)
    return _rank_of(g, values, edges, right, out_int32)


@aten("searchsorted")
def searchsorted(g, sorted_sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    right = side == "right" if side is not None else right
    edges = sorted_sequence if sorter is None else g.GatherElements(sorted_sequence, sorter, axis=-1)
    values = x if isinstance(x, ir.Value) else as_value(g, x, g.dtype(edges))
    values = g.Unsqueeze(values, [g.rank(values)])
    if g.rank(edges) > 1:
        edges = g.Unsqueeze(edges, [g.rank(edges) - 1])
    values, edges = promoted(g, values, edges)
    return _rank_of(g, values, edges, right, out_int32)


@aten("isin")
def isin(g, elements, test_elements, *, assume_unique=False, invert=False):
    values, tests = promoted(g, elements, test_elements)
    same = g.Equal(g.Unsqueeze(values, [g.rank(values)]), flatten(g, tests))
    found = g.Cast(g.ReduceMax(g.Cast(same, to=ir.DataType.INT32), [-1], keepdims=0), to=ir.DataType.BOOL)
    return g.Not(found) if invert else found
