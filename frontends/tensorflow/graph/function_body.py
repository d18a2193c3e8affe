"""Graphs and functions in one form: a body of nodes between arguments and results, in execution order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from convert.errors import BadInput, Location


@dataclass(frozen=True, slots=True)
class Ref:
    """One tensor: `node:2` in graphs, `node:output:2` in functions (`output` is the name in the OpDef)."""

    node: str
    output: str = ""
    index: int = 0

    @classmethod
    def parse(cls, text: str) -> Ref:
        """Parse a reference as NodeDefs write it. Raises `BadInput` for anything else."""
        name, *rest = text.split(":")
        try:
            if len(rest) == 2:
                return cls(name, rest[0], int(rest[1]))
            if len(rest) < 2:
                return cls(name, "", int(rest[0]) if rest else 0)
        except ValueError:
            pass
        raise BadInput(f"{text!r} does not name a tensor")


@dataclass(slots=True)
class Node:
    """A NodeDef with parsed inputs; `attr` are AttrValue messages by name."""

    name: str
    op: str
    inputs: list[Ref]
    controls: list[str]
    attr: Any

    @property
    def location(self) -> Location:
        """The location for error messages: the scopes in the node's name are the modules that it came from."""
        return Location(self.op, self.name, self.name.rpartition("/")[0])


@dataclass
class FunctionBody:
    """A graph or a function: `arguments` are names that references may use, `results` is what it returns."""

    name: str
    nodes: dict[str, Node]
    arguments: list[str]
    results: list[Ref]
    effects: list[str] = field(default_factory=list)
    """Nodes that run for their effect, not for their result."""

    @cached_property
    def live(self) -> list[Node]:
        """Return the nodes that the results need. Raises `BadInput` for a dangling reference."""
        return list(self._reach(r.node for r in self.results))

    @cached_property
    def control_dependencies(self) -> list[Node]:
        """Return the nodes that run in addition: those that control edges require."""
        live = {n.name for n in self.live}
        first = [name for n in self.live for name in n.controls] + self.effects
        return [n for n in self._reach(first, controls=True) if n.name not in live]

    @cached_property
    def order(self) -> list[Node]:
        """Return `live` with every node after those that it reads. Raises `BadInput` for a cycle."""
        return self._topological_order([], controls=False)

    def ordered(self, effects: Sequence[str]) -> list[Node]:
        """Return `live`, `effects` and the nodes that these need, each after the nodes that it reads or waits for."""
        needed = {n.name for n in self._reach([*(r.node for r in self.results), *effects])}
        return [n for n in self._topological_order(effects, controls=True) if n.name in needed]

    def unordered(self, one: str, other: str) -> bool:
        """Return whether neither of two nodes of `live` and `control_dependencies` depends on the other."""
        return not (self._predecessor_bits[one] & self._bit[other] or self._predecessor_bits[other] & self._bit[one])

    @cached_property
    def _bit(self) -> dict[str, int]:
        return {name: 1 << i for i, name in enumerate(self.nodes)}

    @cached_property
    def _predecessor_bits(self) -> dict[str, int]:
        """The nodes that each node waits for, as bit masks."""
        found = dict.fromkeys(self.arguments, 0)
        for node in self._topological_order([n.name for n in self.control_dependencies], controls=True):
            found[node.name] = 0
            for name in [r.node for r in node.inputs] + node.controls:
                found[node.name] |= found[name] | self._bit.get(name, 0)
        return found

    def _topological_order(self, effects: Sequence[str], *, controls: bool) -> list[Node]:
        """Return the nodes that results and `effects` need, each after its inputs, and with `controls` after its
        control inputs.

        Raises `BadInput` for a node that is missing or depends on itself.
        """
        done: set[str] = set(self.arguments)
        pending: set[str] = set()
        order = []
        stack = [*reversed(effects), *(r.node for r in reversed(self.results))]
        while stack:
            name = stack[-1]
            if name in done:
                stack.pop()
                continue
            if name not in self.nodes:
                raise BadInput(f"{self.name!r} uses a node {name!r} that it does not hold")
            node = self.nodes[name]
            before = [r.node for r in node.inputs] + (node.controls if controls else [])
            missing = [n for n in before if n not in done]
            if not missing:
                done.add(name)
                order.append(node)
                stack.pop()
            elif name in pending:
                raise BadInput(f"node {name!r} of {self.name!r} depends on itself")
            else:
                pending.add(name)
                stack += reversed(missing)
        return order

    def _reach(self, names: Iterable[str], *, controls: bool = False) -> Iterator[Node]:
        seen = set(self.arguments)
        stack = list(names)
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in self.nodes:
                raise BadInput(f"{self.name!r} uses a node {name!r} that it does not hold")
            node = self.nodes[name]
            yield node
            stack += [r.node for r in node.inputs]
            if controls:
                stack += node.controls


def body_from_function(proto: Any) -> FunctionBody:
    """Return the body of a FunctionDef."""
    arguments = [a.name for a in proto.signature.input_arg]
    results = [Ref.parse(proto.ret[a.name]) for a in proto.signature.output_arg]
    return FunctionBody(
        proto.signature.name, _parse_nodes(proto.node_def), arguments, results, list(proto.control_ret.values())
    )


def body_from_graph(
    proto: Any, name: str, inputs: Sequence[str], outputs: Sequence[str], effects: Sequence[str] = ()
) -> FunctionBody:
    """Return the part of a GraphDef between the nodes `inputs` and the tensors `outputs` (`node:0`).

    `effects` are nodes that run for their effect.
    """
    return FunctionBody(name, _parse_nodes(proto.node), list(inputs), [Ref.parse(o) for o in outputs], list(effects))


def _parse_nodes(protos: Iterable[Any]) -> dict[str, Node]:
    nodes = {}
    for proto in protos:
        data = [Ref.parse(i) for i in proto.input if not i.startswith("^")]
        controls = [i[1:] for i in proto.input if i.startswith("^")]
        if proto.name in nodes:
            raise BadInput(f"two nodes are called {proto.name!r}")
        nodes[proto.name] = Node(proto.name, proto.op, data, controls, proto.attr)
    return nodes
