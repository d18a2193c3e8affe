"""Replaces a node by the nodes that a lowering builds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from convert.errors import Location
from convert.graph import Graph

Results = Sequence[ir.Value | None] | None
"""One value for each output of a node (None if it is unused), or None if the node stays."""


class Replacement:
    """Replaces nodes of one model; stores the names in use, and whether anything was replaced."""

    def __init__(self, model: ir.Model, names: dict[str, int]) -> None:
        self.model, self.names = model, names
        self.changed = False

    def build(
        self, lower: Callable[[Graph], Results], opset: int, at: Location
    ) -> tuple[Graph, list[ir.Value | None]] | None:
        """Return the nodes that `lower` builds, in a separate graph, with its results; None if it returns None."""
        g = Graph(opset=opset)
        g.reserve(self.names)
        g.location = at
        results = lower(g)
        if results is None:
            g.discard()
            return None
        own = {id(v) for n in g.graph for v in n.outputs}
        return g, [r if r is None or id(r) in own else g.Identity(r) for r in results]

    def place_graph(self, node: ir.Node, g: Graph, results: Sequence[ir.Value | None]) -> list[ir.Node]:
        """Replace `node` by what `build` returned; return the new nodes."""
        nodes, values = list(g.graph), list(g.graph.initializers.values())
        g.graph.remove(nodes)
        self.place(node, nodes, results, values)
        return nodes

    def place(
        self, node: ir.Node, nodes: list[ir.Node], results: Sequence[ir.Value | None], initializers: Iterable[ir.Value]
    ) -> None:
        """Replace `node`, whose outputs become `results`, by nodes that belong to no graph yet."""
        graph = node.graph
        assert graph is not None
        self.changed = True
        for value in list(initializers):
            if value.graph is not None:
                value.graph.initializers.pop(value.name)  # type: ignore[arg-type]
            self.model.graph.register_initializer(value)
        for n in nodes:
            n.metadata_props.update({**node.metadata_props, **n.metadata_props})
        names = [v.name for v in node.outputs]
        made_last = next((r.producer() for r in results if r is not None), None)
        if made_last is not None:
            made_last.name = node.name
        graph.insert_before(node, nodes)
        for old, new, name in zip(node.outputs, results, names, strict=False):
            if new is None or old.name == "":  # ONNX's form of an output that nothing reads
                continue
            if old.type is not None:
                new.type = old.type
            if old.shape is not None:
                new.shape = old.shape
            old.replace_all_uses_with(new, replace_graph_outputs=True)
            new.name, old.name = name, None
        graph.remove(node, safe=True)

    def unique(self, name: str) -> str:
        """Return `name`, or the first of `name_1`, `name_2`, … that is not in use."""
        candidate, count = name, 0
        while candidate in self.names:
            count += 1
            candidate = f"{name}_{count}"
        self.names[candidate] = 0
        return candidate
