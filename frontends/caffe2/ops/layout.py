"""Channels-last and channels-first data: Caffe2's operators take both, by their argument `order`."""

from __future__ import annotations

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import caffe2_op


def as_channels_first(g: Graph, x: ir.Value, order: str) -> ir.Value:
    """Return `x` channels first. Raises `Unsupported` for an unknown order."""
    if order not in ("NCHW", "NHWC"):
        raise Unsupported(f"order={order!r}")
    return x if order == "NCHW" else to_first(g, x)


def from_channels_first(g: Graph, y: ir.Value, order: str) -> ir.Value:
    """Return a channels-first result in `order`."""
    return y if order == "NCHW" else to_last(g, y)


@caffe2_op("NHWC2NCHW")
def to_first(g: Graph, x: ir.Value) -> ir.Value:
    rank = g.rank(x)
    return g.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)])


@caffe2_op("NCHW2NHWC")
def to_last(g: Graph, x: ir.Value) -> ir.Value:
    rank = g.rank(x)
    return g.Transpose(x, perm=[0, *range(2, rank), 1])
