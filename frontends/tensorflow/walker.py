"""The walker: lowers a body of TensorFlow nodes to the shared graph, with calls inlined, by the rules of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from convert import limits
from convert.errors import BadInput, Location, Unsupported
from convert.graph import Graph
from convert.rules import Rules

from .common import complexes, shape_values
from .graph import attributes, opdefs
from .graph.function_body import FunctionBody, Node, Ref, body_from_function
from .graph.lookup_tables import HANDLES, LookupTable, LookupTables
from .graph.programs import check_programs
from .graph.refused import CHANGES, refuse_state_changes, refuse_unsafe
from .graph.state import StateAnalysis
from .graph.variables import Variable

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_HANDLES = ("VarHandleOp", "VariableV2", "Variable")
_EFFECTS = ("NoOp", "Assert", "PrintV2", "DisableCopyOnRead", "ControlTrigger")
PLUMBING = (*_CALLS, *_HANDLES, *HANDLES, *_EFFECTS, "Placeholder")
"""Operators that the walker handles itself, or drops because they have no result."""


@dataclass
class GraphWalker:
    """One conversion's rules, library of functions, variables (by node name and shared name) and file of tensors."""

    rules: Rules
    functions: Mapping[str, Any]
    variable: Callable[[str, str], Variable | None]
    buffer: memoryview = field(default_factory=lambda: memoryview(b""))
    bodies: dict[str, FunctionBody] = field(default_factory=dict)
    tables: LookupTables = field(default_factory=lambda: LookupTables({}, {}))
    orders: dict[int, tuple[FunctionBody, list[Node]]] = field(default_factory=dict)
    changing: dict[str, bool] = field(default_factory=dict)
    operators: set[str] = field(default_factory=set)

    # -- before: what is there ------------------------------------------------------------------------------------

    def check(self, body: FunctionBody) -> set[str]:
        """Raise for everything in `body`, and in its callees, that cannot be lowered, with all of it listed.

        `UnsafeInput` for operators that touch files or run Python, `BadInput` for functions that call themselves or
        expand too far, `Unsupported` for operators without a rule and for state changes. Returns the operators that
        will be lowered.
        """
        self._count(body, {}, ())
        lowered = self._reachable([body], self.order)
        seen = [(n.op, n.location) for b in lowered for n in self.order(b) if not self._is_plumbing(n)]
        beside = [n for b in lowered for n in b.control_dependencies if not self._changes(n)]
        called = [self.body(name) for n in beside for name in self._callees(n)]
        beside += [n for b in self._reachable(called, lambda b: list(b.nodes.values())) for n in b.nodes.values()]
        refuse_unsafe(seen + [(n.op, n.location) for n in beside])
        refuse_state_changes(beside)
        self._check_rules(seen, [n for b in lowered for n in self.order(b)])
        self.operators |= {operator for operator, _ in seen}
        return {operator for operator, _ in seen}

    def _check_rules(self, seen: list[tuple[str, Location]], nodes: list[Node]) -> None:
        """Raise one `Unsupported` for operators without a rule, in the programs of StableHLO among the nodes too."""
        hint, problems = "", []
        try:
            self.rules.check(seen)
        except Unsupported as error:
            hint, problems = error.hint or "", list(error.problems)
        problems += check_programs(nodes)
        if problems:
            raise Unsupported(problems=problems, hint=hint or "replace the operators in the model")

    def functions_in(self, body: FunctionBody) -> list[FunctionBody]:
        """Return the functions that `body` calls, directly or not, each once."""
        return self._reachable([body], self.order)[1:]

    def _is_plumbing(self, node: Node) -> bool:
        return node.op in (*_CALLS, *_HANDLES, *HANDLES) or node.op in self.functions

    def _callees(self, node: Node) -> Iterator[str]:
        if node.op in self.functions:
            yield node.op
        yield from attributes.named_functions(node)

    def _reachable(
        self, bodies: Sequence[FunctionBody], nodes: Callable[[FunctionBody], list[Node]]
    ) -> list[FunctionBody]:
        """Return `bodies` and all that their `nodes` call, each once."""
        found: dict[str, FunctionBody] = {}
        stack = list(bodies)
        while stack:
            current = stack.pop()
            if current.name not in found:
                found[current.name] = current
                stack += [self.body(name) for node in nodes(current) for name in self._callees(node)]
        return list(found.values())

    def _count(self, body: FunctionBody, sizes: dict[str, int], path: tuple[str, ...]) -> int:
        """Return how many nodes `body` expands to, counted without expanding it."""
        if body.name in path:
            raise BadInput(f"function {body.name!r} calls itself")
        if len(path) > limits.TENSORFLOW_CALL_DEPTH:
            raise BadInput(f"functions call each other {limits.TENSORFLOW_CALL_DEPTH} deep")
        if body.name not in sizes:
            size = len(self.order(body))
            for node in self.order(body):
                for name in self._callees(node):
                    size += self._count(self.body(name), sizes, (*path, body.name))
            if size > limits.TENSORFLOW_NODES:
                raise BadInput(f"{body.name!r} expands to more than {limits.TENSORFLOW_NODES:,} nodes")
            sizes[body.name] = size
        return sizes[body.name]

    def order(self, body: FunctionBody) -> list[Node]:
        """Return the nodes of `body` to lower, in order: those that its results need, and those that change
        variables.
        """
        if id(body) not in self.orders:
            effects = [n.name for n in (*body.live, *body.control_dependencies) if self._changes(n)]
            self.orders[id(body)] = body, body.ordered(effects) if effects else body.order
        return self.orders[id(body)][1]

    def _changes(self, node: Node) -> bool:
        """Return whether a node changes a variable, or calls a function that does."""
        return node.op in CHANGES or any(map(self._changes_in, self._callees(node)))

    def _changes_in(self, name: str) -> bool:
        """Return whether a function changes a variable, or calls one that does."""
        if name not in self.changing:
            bodies = self._reachable([self.body(name)], lambda b: [*b.live, *b.control_dependencies])
            self.changing[name] = any(n.op in CHANGES for b in bodies for n in (*b.live, *b.control_dependencies))
        return self.changing[name]

    def states(self, body: FunctionBody, captured: Mapping[str, Variable]) -> list[Variable]:
        """Return the variables that `body` changes; `captured` are those among its arguments."""
        if not any(map(self._changes, self.order(body))):
            return []
        analysis = StateAnalysis(self._handle, self.body, lambda n: list(self._callees(n)))
        analysis.follow(body, captured)
        return list(analysis.changed.values())

    # -- lowering -------------------------------------------------------------------------------------------------

    def body(self, name: str) -> FunctionBody:
        """Return the function `name`. Raises `BadInput` if the library does not have it."""
        if name not in self.bodies:
            if name not in self.functions:
                raise BadInput(f"the model calls a function {name!r} that it does not hold")
            self.bodies[name] = body_from_function(self.functions[name])
        return self.bodies[name]

    def lower(self, g: Graph, body: FunctionBody, arguments: Sequence[Any]) -> list[Any]:
        """Write `body` to `g` and return its results; `arguments` are values, or variables for resource handles."""
        if len(arguments) != len(body.arguments):
            raise BadInput(f"{body.name!r} takes {len(body.arguments)} arguments and is called with {len(arguments)}")
        values: dict[str, list[Any]] = {name: [value] for name, value in zip(body.arguments, arguments, strict=True)}
        for node in self.order(body):
            values[node.name] = self._lower_node(g, body, node, [self._look_up(body, values, r) for r in node.inputs])
        return [self._look_up(body, values, r) for r in body.results]

    def _lower_node(self, g: Graph, body: FunctionBody, node: Node, inputs: list[Any]) -> list[Any]:
        if node.op in _HANDLES:
            return [self._variable(g, node)]
        if node.op in HANDLES:
            return [self._table(node)]
        if node.op in _CALLS or node.op in self.functions:
            name = node.op if node.op in self.functions else node.attr["f"].func.name
            return self.lower(g, self.body(name), inputs)
        kept = 1 if node.op in CHANGES else 0
        inputs = [
            i.read(g) if isinstance(i, Variable) and i.reference and k >= kept else i for k, i in enumerate(inputs)
        ]
        public = {name: value for name, value in node.attr.items() if not name.startswith("_")}
        decoded = {name: attributes.decode(value, self.buffer, self._function) for name, value in public.items()}
        return self.apply(g, node.op, inputs, decoded, node.location)

    def apply(self, g: Graph, operator: str, inputs: list[Any], decoded: dict[str, Any], at: Location) -> list[Any]:
        """Lower one operator: by known content of integers if that suffices, else by its rule."""
        op = opdefs.find(operator)
        if op is not None:
            decoded = op.defaults | decoded
            inputs = _grouped_arguments(op, inputs, decoded)
        with g.at(at):
            if complexes.is_complex(inputs):
                try:
                    return complexes.apply_complex(
                        g, operator, inputs, decoded, partial(self._apply_rule, g, operator, decoded, at)
                    )
                except Unsupported as error:
                    raise error.with_location(at) from error
            found = shape_values.evaluate(g, operator, inputs, decoded)
            if found is not None and all(isinstance(i, int) for f in found for i in f.ravel()):
                dtypes = [attribute_dtype(operator, inputs, decoded, number) for number in range(len(found))]
                wrapped = map(shape_values.wrap_integers, found, dtypes)
                return [g.const(f.astype(np.int64), dtype) for f, dtype in zip(wrapped, dtypes, strict=True)]
            outputs = self._apply_rule(g, operator, decoded, at, inputs)
            for output, content in zip(outputs, found or (), strict=False):
                shape_values.set_content(output, content)
        return outputs

    def _apply_rule(
        self, g: Graph, operator: str, decoded: Mapping[str, Any], at: Location, inputs: Sequence[Any]
    ) -> list[Any]:
        result = self.rules.apply(g, operator, inputs, decoded, at)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def _function(self, proto: Any) -> FunctionRegion:
        return FunctionRegion(self, proto.name)

    def _variable(self, g: Graph, node: Node) -> Any:
        variable = self._handle(node)
        return variable.read(g) if variable.reference and not variable.state else variable

    def _handle(self, node: Node) -> Variable:
        shared = node.attr["shared_name"].s.decode(errors="backslashreplace") if "shared_name" in node.attr else ""
        variable = self.variable(node.name, shared)
        if variable is None:
            raise BadInput(
                f"the variable {shared or node.name!r} has no value in the model's checkpoint",
                hint="save the model again with all its variables tracked",
            )
        variable.reference = node.op != "VarHandleOp"
        shape = attributes.shape_of(node.attr["shape"].shape) if "shape" in node.attr else None
        variable.shape = variable.shape if shape is None else shape
        return variable

    def _table(self, node: Node) -> LookupTable:
        try:
            return self.tables.find(node.name)
        except Unsupported as error:
            raise error.with_location(node.location) from error

    def _look_up(self, body: FunctionBody, values: Mapping[str, list[Any]], ref: Ref) -> Any:
        outputs, index = values[ref.node], ref.index
        if ref.output and ref.node in body.nodes:
            index += self._start(body.nodes[ref.node], ref.output)
        if not 0 <= index < len(outputs):
            raise BadInput(f"node {ref.node!r} of {body.name!r} has no output {index}")
        return outputs[index]

    def _start(self, node: Node, output: str) -> int:
        """Return the flat index of the first tensor of a named output."""
        op = opdefs.find(node.op)
        if op is None:
            names = [a.name for a in self.functions[node.op].signature.output_arg] if node.op in self.functions else []
            return names.index(output) if output in names else 0
        start = 0
        for arg in op.outputs:
            if arg.name == output:
                return start
            start += arg.count(
                {n: attributes.decode(v, self.buffer, str) for n, v in node.attr.items() if n == arg.many}
            )
        raise BadInput(f"{node.op} has no output {output!r}")


@dataclass(frozen=True)
class FunctionRegion:
    """A function named by an attribute. Rules write its body where they need it: `branch(g, *arguments)`."""

    walker: GraphWalker
    name: str

    def __call__(self, g: Graph, *arguments: Any) -> list[Any]:
        return self.walker.lower(g, self.body, arguments)

    @property
    def body(self) -> FunctionBody:
        """The function's nodes, for analysis."""
        return self.walker.body(self.name)

    @property
    def joins_lists(self) -> bool:
        """Return whether the model concatenates the elements of a list, which may then have different lengths."""
        return "TensorListConcatV2" in self.walker.operators

    def other(self, name: str) -> FunctionBody:
        """Return another function of the model."""
        return self.walker.body(name)


def attribute_dtype(operator: str, inputs: Sequence[Any], decoded: Mapping[str, Any], number: int = 0) -> Any:
    """Return the dtype of result `number` of an operator whose integer results are known."""
    if operator in ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"):
        return attributes.DTYPES[10]
    if operator == "ListDiff" and number == 1:
        return decoded["out_idx"]
    for name in ("out_type", "DstT", "output_type"):
        if decoded.get(name) is not None:
            return decoded[name]
    flat = [v for i in inputs for v in (i if isinstance(i, list) else [i])]
    return (
        flat[1 if operator in ("Fill", "Split", "Concat", "Select", "SelectV2") else 0].dtype
        if operator != "Rank"
        else attributes.DTYPES[3]
    )


def _grouped_arguments(op: opdefs.OpDef, inputs: list[Any], decoded: Mapping[str, Any]) -> list[Any]:
    """Return inputs grouped by the operator's arguments: list arguments as lists.

    TensorFlow.js omits the dtypes of a list; it then has all inputs that the other arguments leave.
    """
    grouped, at = [], 0
    for i, arg in enumerate(op.inputs):
        if arg.many and arg.many not in decoded:
            count = len(inputs) - at - sum(a.count(dict(decoded)) for a in op.inputs[i + 1 :])
        else:
            count = arg.count(dict(decoded))
        grouped.append(inputs[at : at + count] if arg.many else inputs[at] if at < len(inputs) else None)
        at += count
    if at != len(inputs):
        raise BadInput(f"a {op.name} has {len(inputs)} inputs instead of {at}")
    return grouped
