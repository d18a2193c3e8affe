"""Find branches of a graph that no set of inputs reaches, so that nothing is known about their results."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph import location_of
from convert.parity.inputs.feeds import Feed
from convert.passes.to_float64 import widen_model
from convert.reference.executor import Executor, read_values

_BRANCHES = {True: "then_branch", False: "else_branch"}


def unreached_branches(model: ir.Model, feeds: Sequence[Feed]) -> list[str]:
    """Return descriptions of branches that depend on an input's numbers and that none of these inputs takes.

    Only the outermost such branches are listed. The result is [] if the graph does not run. Conditions on sizes alone
    are ignored: programs check for sizes that callers never use, and sets have sizes on both sides of the graph's
    constants.
    """
    asking = [node for node in model.graph.all_nodes() if node.op_type == "If" and not node.domain]
    if not asking:
        return []
    wide = widen_model(model)
    places = {id(w): n for n, w in zip(model.graph.all_nodes(), wide.graph.all_nodes(), strict=True)}
    executor = _Watching(set(), False)
    try:
        for feed in feeds:
            executor.run_model(wide, feed.arrays)
    except ConvertError:
        return []
    taken = {(places[key], way) for key, way in executor.taken}
    reached = {node for node, _ in taken}
    depends = _depending_values(model.graph)
    return [
        f"the {_BRANCHES[way].removesuffix('_branch')} branch of {location_of(node)}"
        for node in asking
        for way in (True, False)
        if node in reached and (node, way) not in taken and node.inputs[0] in depends
    ]


class _Watching(Executor):
    """Executor that records which branches are taken, by the identity of their nodes."""

    def __init__(self, wanted: set[str], every: bool) -> None:
        super().__init__(wanted, every)
        self.taken: set[tuple[int, bool]] = set()

    def results(self, node: ir.Node, inputs: list[object]) -> Sequence[object]:
        if node.op_type == "If" and not node.domain:
            self.taken.add((id(node), bool(inputs[0])))
        return super().results(node, inputs)


def _depending_values(graph: ir.Graph) -> set[ir.Value]:
    """Return the values that depend on the numbers of an input, not only on its sizes."""
    found = set(graph.inputs)

    def visit(body: ir.Graph) -> None:
        for node in body:
            if node.op_type in ("Shape", "Size") and not node.domain:
                continue
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    inner = attribute.as_graph()
                    found.update(v for v in inner.inputs if any(i in found for i in node.inputs))
                    visit(inner)
            if any(value in found for value in read_values(node)):
                found.update(node.outputs)

    visit(graph)
    return found
