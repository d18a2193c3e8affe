"""Cut a graph: turn some of its nodes into a model whose inputs are the values that they read from the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import onnx_ir as ir

from convert.reference.executor import read_values


class Cutter:
    """The top-level nodes of a graph, with the values that each reads and the nodes that read each value."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.nodes = list(model.graph)
        self.producers = {value: node for node in self.nodes for value in node.outputs}
        self.inputs = set(model.graph.inputs)
        self.read = {node: self._read_from_outside(node) for node in self.nodes}
        self.users: dict[ir.Value, list[ir.Node]] = {}
        for node, values in self.read.items():
            for value in values:
                self.users.setdefault(value, []).append(node)
        self.fed: set[ir.Value] = set(self.inputs)
        for node in self.nodes:
            if self.fed.intersection(self.read[node]):
                self.fed.update(node.outputs)

    def _read_from_outside(self, node: ir.Node) -> list[ir.Value]:
        known = (v for v in read_values(node) if v in self.producers or v in self.inputs)
        return list(dict.fromkeys(known))

    def completed(self, nodes: Iterable[ir.Node]) -> list[ir.Node]:
        """Return the nodes in order, with the nodes that compute their sizes, indices, constants and lists, which
        cannot be inputs of a part.

        Cuts go through floating values only, so that dims stay dynamic and axes stay constant.
        """
        found = set(nodes)
        waiting = list(found)
        while waiting:
            for value in self.read[waiting.pop()]:
                producer = self.producers.get(value)
                if producer is not None and producer not in found and not self._can_be_input(value):
                    found.add(producer)
                    waiting.append(producer)
        return [node for node in self.nodes if node in found]

    def _can_be_input(self, value: ir.Value) -> bool:
        floating = value.dtype is not None and value.dtype.is_floating_point()
        return floating and value in self.fed and not isinstance(value.type, (ir.SequenceType, ir.OptionalType))

    def before(self, outputs: Iterable[ir.Value], stops: Collection[ir.Value] = ()) -> list[ir.Node]:
        """Return the nodes, in order, that compute `outputs` from the values `stops`."""
        found: set[ir.Node] = set()
        waiting = [value for value in outputs if value not in stops]
        while waiting:
            producer = self.producers.get(waiting.pop())
            if producer is not None and producer not in found:
                found.add(producer)
                waiting += [value for value in self.read[producer] if value not in stops]
        return [node for node in self.nodes if node in found]

    def around(self, node: ir.Node, distance: int) -> list[ir.Node]:
        """Return the nodes that are at most `distance` edges from `node`, in order."""
        found = {node}
        for _ in range(distance):
            before = {self.producers[v] for n in found for v in self.read[n] if v in self.producers}
            after = {user for n in found for value in n.outputs for user in self.users.get(value, ())}
            found |= before | after
        return [node for node in self.nodes if node in found]

    def ends(self, nodes: Collection[ir.Node]) -> tuple[list[ir.Value], list[ir.Value]]:
        """Return the values that the nodes read from the rest, and those of their results that are used outside."""
        own = set(nodes)
        made = [value for node in nodes for value in node.outputs]
        inputs = dict.fromkeys(v for node in nodes for v in self.read[node] if self.producers.get(v) not in own)
        given = [v for v in made if v.is_graph_output() or any(user not in own for user in self.users.get(v, ()))]
        return list(inputs), [v for v in given if not isinstance(v.type, (ir.SequenceType, ir.OptionalType))]

    def part(self, inputs: Collection[ir.Value], outputs: Collection[ir.Value], nodes: Collection[ir.Node]) -> ir.Model:
        """Return a copy of the nodes as a model, with these inputs and outputs. Weights are shared."""
        used = dict.fromkeys(v for node in nodes for v in read_values(node) if v.const_value is not None)
        weights = [v for v in used if v.producer() is None and v not in self.inputs and v.graph is self.model.graph]
        imports = dict(self.model.graph.opset_imports)
        view = ir.GraphView(
            list(inputs), list(outputs), nodes=list(nodes), initializers=weights, opset_imports=imports, name="part"
        )
        return ir.Model(view.clone(), ir_version=self.model.ir_version, producer_name="convert")


def set_shapes(part: ir.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """Set the shapes of inputs to those of `arrays`, in place, if their own are unknown or contradict them."""
    for value in part.graph.inputs:
        sizes = arrays[str(value.name)].shape
        dims = [] if value.shape is None else list(value.shape)
        fits = len(dims) == len(sizes) and all(a == b for a, b in zip(dims, sizes, strict=True) if isinstance(a, int))
        if value.shape is None or not fits:
            value.shape = ir.Shape(sizes)
