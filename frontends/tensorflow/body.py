"""Graphs and functions in one form: a body of nodes between arguments and results, in the order of execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from convert.errors import BadInput, Location


@dataclass(frozen=True, slots=True)
class Ref:
    """One tensor: `node:2` in graphs, `node:output:2` in functions (`output` is then the OpDef's name for it)."""

    node: str
    output: str = ""
    index: int = 0

    @classmethod
    def parse(cls, text: str) -> Ref:
        """Read a reference as NodeDefs write it. Raises `BadInput` for anything else."""
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
    """A NodeDef with its inputs taken apart; `attr` are AttrValue messages by name."""

    name: str
    op: str
    inputs: list[Ref]
    controls: list[str]
    attr: Any

    @property
    def location(self) -> Location:
        """Where it is, for error messages: the scopes in its name are the modules that it came from."""
        return Location(self.op, self.name, self.name.rpartition("/")[0])


@dataclass
class Body:
    """A graph or a function: `arguments` are names that references may use, `results` what it returns."""

    name: str
    nodes: dict[str, Node]
    arguments: list[str]
    results: list[Ref]
    effects: list[str] = field(default_factory=list)
    """Nodes that run for what they do, not for what they return."""

    @cached_property
    def live(self) -> list[Node]:
        """The nodes that the results need. Raises `BadInput` for a reference to nothing."""
        return list(self._reach(r.node for r in self.results))

    @cached_property
    def bystanders(self) -> list[Node]:
        """The nodes that run beside them: what control edges ask for."""
        live = {n.name for n in self.live}
        first = [name for n in self.live for name in n.controls] + self.effects
        return [n for n in self._reach(first, controls=True) if n.name not in live]

    @cached_property
    def order(self) -> list[Node]:
        """`live` with every node after those that it reads. Raises `BadInput` for a cycle."""
        done: set[str] = set(self.arguments)
        pending: set[str] = set()
        order = []
        stack = [r.node for r in reversed(self.results)]
        while stack:
            name = stack[-1]
            if name in done:
                stack.pop()
                continue
            node = self.nodes[name]
            missing = [r.node for r in node.inputs if r.node not in done]
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


def from_function(proto: Any) -> Body:
    """The body of a FunctionDef."""
    arguments = [a.name for a in proto.signature.input_arg]
    results = [Ref.parse(proto.ret[a.name]) for a in proto.signature.output_arg]
    return Body(proto.signature.name, _nodes(proto.node_def), arguments, results, list(proto.control_ret.values()))


def from_graph(proto: Any, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Body:
    """The part of a GraphDef between the nodes `inputs` and the tensors `outputs` (`node:0`)."""
    return Body(name, _nodes(proto.node), list(inputs), [Ref.parse(o) for o in outputs])


def _nodes(protos: Iterable[Any]) -> dict[str, Node]:
    nodes = {}
    for proto in protos:
        data = [Ref.parse(i) for i in proto.input if not i.startswith("^")]
        controls = [i[1:] for i in proto.input if i.startswith("^")]
        if proto.name in nodes:
            raise BadInput(f"two nodes are called {proto.name!r}")
        nodes[proto.name] = Node(proto.name, proto.op, data, controls, proto.attr)
    return nodes
