"""Splits along a run-time length into as many pieces as capture counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from convert.errors import Location
from convert.graph import Graph

from ...common.locate import source_of
from ...common.sizes import axis_of, vector
from ...torch_internals import schema_of

aten = torch.ops.aten

_CUTS: dict[Any, str] = {
    aten.chunk.default: "chunks",
    aten.unsafe_chunk.default: "chunks",
    aten.split.Tensor: "split_size",
    aten.unsafe_split.Tensor: "split_size",
    aten.split_copy.Tensor: "split_size",
}
"""The operators, with the name of their second argument."""


def is_counted(node: torch.fx.Node) -> bool:
    """Return whether a node is a chunk or split by unknown lengths, whose number of pieces rules cannot see from
    values.
    """
    if node.target not in _CUTS or not isinstance(node.meta.get("val"), (list, tuple)):
        return False
    named = _named_arguments(node, node.args, node.kwargs)
    fake = named["self"].meta["val"]
    return not all(isinstance(n, int) for n in (named[_CUTS[node.target]], fake.shape[named["dim"] or 0]))


def unused_counts(program: ExportedProgram) -> Iterator[tuple[Any, Any, int]]:
    """Yield length, piece length and number of pieces of counted splits whose pieces no output depends on.

    The graph has no node for them that would fail for another number, but forward may have used the number.
    """
    needed: set[torch.fx.Node] = set()
    waiting = [n for n in program.graph.nodes if n.op == "output"]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    for node in program.graph.nodes:
        if node not in needed and is_counted(node):
            named = _named_arguments(node, node.args, node.kwargs)
            length = named["self"].meta["val"].shape[named["dim"] or 0]
            number = named[_CUTS[node.target]]
            number = number.meta["val"] if isinstance(number, torch.fx.Node) else number
            each = (length + number - 1) // number if _CUTS[node.target] == "chunks" else number
            yield length, each, len(node.meta["val"])


def lower_counted_split(
    g: Graph, node: torch.fx.Node, values: Sequence[Any], named: Mapping[str, Any]
) -> list[ir.Value]:
    """Return the pieces, as many as in the capture.

    values, named: the lowered arguments of `node`, for which `is_counted` holds. The number of pieces is a guard of the
    capture. For another length the node fails at run time, because its last size is then replaced by one that Split
    rejects.
    """
    given, count = _named_arguments(node, values, named), len(node.meta["val"])
    x, number = given["self"], given[_CUTS[node.target]]
    axis = axis_of(g, x, given["dim"] or 0)
    length = g.Shape(x, start=axis, end=axis + 1)
    by_number = _CUTS[node.target] == "chunks"
    each = g.Div(g.Add(length, number - 1), number) if by_number else vector(g, number)
    last = g.Sub(length, g.Mul(each, count - 1))
    fits = g.And(g.Greater(last, 0), g.LessOrEqual(last, each))
    if count == (number if by_number else 1):
        fits = g.Or(fits, g.Equal(length, 0))  # an empty length gives the same number of pieces, all empty
    last = g.Where(fits, last, _REFUSED)
    # TensorFlow removes a split into one piece whatever its size; an additional empty piece prevents that.
    sizes = g.Concat(*[each] * (count - 1), last, [0], axis=0)
    dim = re.sub(r"\W+", "_", str(g.shape(x)[axis] or f"dim_{axis}")).strip("_")
    with g.at(Location("pieces", f"only_if_{dim}_gives_{count}_pieces", source_of(node.meta.get("stack_trace") or ""))):
        pieces = g.Split(x, sizes, axis=axis, outputs=count + 1)
    return pieces[:count]


_REFUSED = -(2**31)


def _named_arguments(node: torch.fx.Node, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    target: Any = node.target
    names = [a.name for a in schema_of(target).arguments]
    return dict.fromkeys(names) | dict(zip(names, values, strict=False)) | dict(named)
