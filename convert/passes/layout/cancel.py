"""Merges consecutive transposes, and removes identity and duplicate ones."""

from __future__ import annotations

from typing import TypeAlias

import onnx_ir as ir

from convert.graph.model_names import ModelNames
from convert.graph.values import is_used
from convert.passes.layout.rewrite import (
    take_output_name,
)

Transposed: TypeAlias = dict[tuple[ir.Value, tuple[int, ...]], ir.Value]
"""The result of each transpose so far, by value and permutation."""


def cancel_transposes(graph: ir.Graph, names: ModelNames) -> bool:
    """Shorten chains of Transposes in one graph, drop identities, merge duplicates; return whether anything changed."""
    modified = False
    first: Transposed = {}
    for node in list(graph):
        perm = permutation(node)
        if perm is None:
            continue
        source, perm = _origin(node, perm, first)
        if source is not node.inputs[0]:
            node.replace_input_with(0, source)
            node.attributes.add(ir.AttrInt64s("perm", perm))
            modified = True
        equal = source if _is_identity(perm) else first.setdefault((source, perm), node.outputs[0])
        if equal is not node.outputs[0]:
            _replace(node, equal, graph, names)
            modified = True
    for node in reversed(list(graph)):
        if permutation(node) is not None and not is_used(node.outputs[0]):
            graph.remove(node, safe=True)
            modified = True
    return modified


def permutation(node: ir.Node) -> tuple[int, ...] | None:
    """Return the perm of a Transpose; None for other nodes, or if neither attribute nor rank determines it."""
    if node.op_type != "Transpose" or node.domain or node.inputs[0] is None:
        return None
    perm = node.attributes.get_ints("perm")
    if perm is None:
        return None if node.inputs[0].shape is None else tuple(reversed(range(len(node.inputs[0].shape))))
    return tuple(perm)


def _is_identity(perm: tuple[int, ...]) -> bool:
    return perm == tuple(range(len(perm)))


def _origin(node: ir.Node, perm: tuple[int, ...], first: Transposed) -> tuple[ir.Value, tuple[int, ...]]:
    """Return the value that `node` should transpose instead, earlier in its chain of transposes, and the permutation.

    The chain is followed upwards to the first value whose whole permutation is an identity, or has been computed
    already. If there is no such value, the result is the earliest one that leaves no transpose behind: only transposes
    read the values in between.
    """
    source, vanishing = node.inputs[0], True
    assert source is not None
    best = source, perm
    while (producer := source.producer()) is not None and producer.graph is node.graph:
        before = permutation(producer)
        if before is None or producer.inputs[0] is None:
            break
        users = [use.node for use in source.uses()]
        vanishing &= not source.is_graph_output() and all(permutation(user) is not None for user in users)
        source, perm = producer.inputs[0], tuple(before[a] for a in perm)
        if _is_identity(perm) or (source, perm) in first:
            return source, perm
        if vanishing:
            best = source, perm
    return best


def _replace(node: ir.Node, equal: ir.Value, graph: ir.Graph, names: ModelNames) -> None:
    """Replace the output of a Transpose by `equal`, through an Identity if both have names that must stay."""
    old, producer = node.outputs[0], equal.producer()
    if old.is_graph_output() and (producer is None or producer.graph is not graph or equal.is_graph_output()):
        node.op_type = "Identity"
        node.attributes.clear()
        node.replace_input_with(0, equal)
        return
    for user, index in old.uses():
        user.replace_input_with(index, equal)
    if old.is_graph_output():
        take_output_name(old, equal, names)
