"""Keeps operators apart in a TensorFlow graph, by nodes that leave no trace in the TensorFlow Lite file."""

from __future__ import annotations

import re

from tensorflow.core.framework import graph_pb2

from ..emit import FUSION_BARRIER

_NAME = re.compile(rf"(.*/)?{FUSION_BARRIER}(_\d+)?")


def write_fusion_barriers_as_checks(definition: graph_pb2.GraphDef) -> None:
    """Change each ExpandDims and Squeeze of `fusion_barrier` into an EnsureShape that checks nothing, in place.

    TensorFlow's optimizer does not look past an EnsureShape either. The converter removes an EnsureShape of known rank,
    while it would write ExpandDims and Squeeze.
    """
    for nodes in (definition.node, *(f.node_def for f in definition.library.function)):
        makers = {node.name: node for node in nodes}
        for node in nodes:
            if node.op == "Squeeze" and _NAME.fullmatch(node.name):
                (axis,) = node.attr["squeeze_dims"].list.i
                del node.attr["squeeze_dims"]
                node.op, node.input[0] = "EnsureShape", makers[node.input[0].split(":")[0]].input[0]
                shape = node.attr["shape"].shape
                shape.unknown_rank = axis == 0
                for _ in range(-axis - 1):
                    shape.dim.add(size=-1)
