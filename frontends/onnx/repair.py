"""Repairs defects that ONNX's checker rejects and ONNX Runtime accepts.

These are unsorted nodes, a graph without a name, outputs without a type, and weights that are not listed among the
inputs in old files.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

import onnx

from convert.outcome.report import Report


def repair(proto: onnx.ModelProto, report: Report) -> None:
    """Give the graph a name, and sort its nodes so that each comes after those that it reads.

    Subgraphs of nodes are not changed: ONNX Runtime rejects these defects there.
    """
    if not proto.graph.name:
        proto.graph.name = "graph"
        report.note("the graph of the file has no name, which ONNX demands; it is called graph", code="repaired")
    if _sort(proto.graph):
        report.note("nodes of the file stand before nodes that they read; they were put in order", code="repaired")


def give_output_types(proto: onnx.ModelProto, report: Report) -> None:
    """Give outputs without a type the one that ONNX's inference finds; the checker rejects those that it does not find.

    All initializers must have been declared.
    """
    lacking = {value.name: value for value in proto.graph.output if not value.HasField("type")}
    if not lacking:
        return
    guessed = onnx.ModelProto()
    guessed.CopyFrom(proto)
    del guessed.graph.output[:]
    try:
        inferred = onnx.shape_inference.infer_shapes(guessed).graph.value_info
    except Exception:  # a broken graph, which the checker describes
        return
    types = {value.name: value.type for value in inferred if value.type.WhichOneof("value") is not None}
    found = [name for name in lacking if name in types]
    for name in found:
        lacking[name].type.CopyFrom(types[name])
    if found:
        report.note(f"outputs have no type in the file; inference gave them one: {', '.join(found)}", code="repaired")


def allow_unlisted_weights(proto: onnx.ModelProto, report: Report) -> None:
    """Raise IR version 3 to 4 if a weight is not an input, which only version 4 allows.

    keras2onnx 1.7 writes such files. All weights that a caller may set must have been found before.
    """
    listed = {value.name for value in proto.graph.input}
    unlisted = [tensor.name for tensor in proto.graph.initializer if tensor.name not in listed]
    if 0 < proto.ir_version < 4 and unlisted:
        proto.ir_version = 4
        report.note(
            f"weights are not listed among the inputs, as IR version 3 demands: {', '.join(unlisted[:5])}; "
            "the file was read as one of version 4",
            code="repaired",
        )


def _inner_graphs(node: Any) -> list[Any]:
    return [g for a in node.attribute for g in (*([a.g] if a.HasField("g") else []), *a.graphs)]


def _sort(graph: Any) -> bool:
    """Sort the nodes of a graph; return whether they were unsorted. A cycle is left as it is."""
    nodes = list(graph.node)
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    before = [{makers[name] for name in _names_read(node) if name in makers} for node in nodes]
    if all(needed < i for i, row in enumerate(before) for needed in row):
        return False
    try:
        order = list(TopologicalSorter(dict(enumerate(before))).static_order())
    except CycleError:
        return False
    ordered = [onnx.NodeProto() for _ in order]
    for copy, i in zip(ordered, order, strict=True):
        copy.CopyFrom(nodes[i])
    del graph.node[:]
    graph.node.extend(ordered)
    return True


def _names_read(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, including those of its subgraphs."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield from current.input
        for graph in _inner_graphs(current):
            yield from (value.name for value in graph.output)
            pending += graph.node
