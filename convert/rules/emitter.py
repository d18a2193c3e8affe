"""The walk over a graph that all backends share: the rule of each node makes its outputs from the values of its inputs.

A backend has one subclass. It says what its rules get and what becomes of their results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir

from convert.errors import Location, Unsupported
from convert.graph import location_of
from convert.graph.values import attribute_content, is_used, last_uses, nodes_of
from convert.rules.node_rules import NodeRules

Known = dict[ir.Value, Any]
"""What the backend made of each value of the graph."""


class GraphEmitter:
    """The base of a backend's emitter, which most backends also pass to their rules."""

    def __init__(self) -> None:
        self.node: ir.Node | None = None
        """The node whose rule runs."""
        self.outputs = 1
        """Number of outputs of the node, without unused ones at the end."""

    def location(self, node: ir.Node) -> Location:
        """Return the location of a node for errors."""
        return location_of(node)

    def weight(self, value: ir.Value) -> Any:
        """Return what rules get for an initializer."""
        raise NotImplementedError

    def apply(self, node: ir.Node, inputs: list[Any], attributes: dict[str, Any], at: Location) -> Any:
        """Run the rule of a node and return its output, or a tuple of outputs."""
        raise NotImplementedError

    def in_graph(self, value: ir.Value, made: Any) -> Any:
        """Return a rule's result in the dtype and shape that `value` has in the graph."""
        return made

    def subgraph(self, graph: ir.Graph, around: Known) -> Any:
        """Return what rules get for a subgraph. `around` has the values of the graphs around it."""
        return Subgraph(self, graph, around)

    def run(self, graph: ir.Graph, known: Known) -> list[Any]:
        """Emit all nodes of `graph` and return its outputs. `known` has its inputs and the outer values."""
        for value in graph.initializers.values():
            if value not in known and value.const_value is not None:
                known[value] = self.weight(value)
        last = last_uses(graph)
        for index, node in enumerate(graph):
            self.emit_node(node, known)
            for value in last.get(index, ()):  # frees constants and other tensors with content
                known.pop(value, None)
        return [known.get(v) for v in graph.outputs]

    def emit_node(self, node: ir.Node, known: Known) -> None:
        """Emit one node and add its outputs to `known`."""
        outer = self.node, self.outputs
        self.node, self.outputs = node, used_outputs(node)
        try:
            inputs = [None if v is None else known[v] for v in node.inputs]
            attributes = {a.name: self._attribute(a, known) for a in node.attributes.values()}
            result = self.apply(node, inputs, attributes, self.location(node))
            for value, made in zip(node.outputs, result if isinstance(result, tuple) else (result,), strict=False):
                known[value] = self.in_graph(value, made)
        finally:
            self.node, self.outputs = outer

    def _attribute(self, attribute: ir.Attr, known: Known) -> Any:
        if attribute.type == ir.AttributeType.GRAPH:
            return self.subgraph(attribute.as_graph(), known)
        return attribute_content(attribute)


class Subgraph:
    """A subgraph as a function of its inputs, which emits its nodes each time that it is called."""

    def __init__(self, emitter: Any, graph: ir.Graph, around: Mapping[ir.Value, Any]) -> None:
        self.emitter = emitter
        self.graph = graph
        # Copy now: the outer values may be dropped once the node is emitted.
        self.around = dict(around)

    def __call__(self, *inputs: Any) -> list[Any]:
        known = {**self.around, **dict(zip(self.graph.inputs, inputs, strict=True))}
        return self.emitter.run(self.graph, known)


def used_outputs(node: ir.Node) -> int:
    """Return the number of outputs up to the last one that is used, and at least 1."""
    return max((i + 1 for i, v in enumerate(node.outputs) if is_used(v)), default=1)


def check_coverage(model: ir.Model, rules: NodeRules, dtype_of: Callable[[ir.DataType | None], Any]) -> None:
    """Raise one `Unsupported` that lists every operator without a rule, or for an input or output of a lacking dtype.

    dtype_of: returns the target's dtype, or raises `Unsupported`.
    """
    rules.check_nodes((node, location_of(node)) for node in nodes_of(model.graph))
    for value in (*model.graph.inputs, *model.graph.outputs):
        if isinstance(value.type, ir.TensorType):
            try:
                dtype_of(value.dtype)
            except Unsupported as error:
                raise error.with_location(Location("input or output", value.name or "")) from error
