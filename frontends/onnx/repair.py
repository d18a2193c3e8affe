"""Repairs of what ONNX's checker refuses and ONNX Runtime takes: nodes in any order, a graph without a name."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

import onnx

from convert.report import Report


def repair(proto: onnx.ModelProto, report: Report) -> None:
    """Give the graph a name and bring its nodes into an order in which each reads what is made before it.

    Graphs within nodes stay as they are: ONNX Runtime refuses these offences there.
    """
    if not proto.graph.name:
        proto.graph.name = "graph"
        report.note("the graph of the file has no name, which ONNX demands; it is called graph", code="repaired")
    if _sort(proto.graph):
        report.note("nodes of the file stand before nodes that they read; they were put in order", code="repaired")


def _inner_graphs(node: Any) -> list[Any]:
    return [g for a in node.attribute for g in (*([a.g] if a.HasField("g") else []), *a.graphs)]


def _sort(graph: Any) -> bool:
    """Sort the nodes of a graph; return whether they were out of order. A circle stays as it is."""
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
    """Return the names that a node reads, those of its inner graphs as well."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield from current.input
        for graph in _inner_graphs(current):
            yield from (value.name for value in graph.output)
            pending += graph.node
