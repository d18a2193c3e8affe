"""State: the variables that a graph changes, which become inputs and outputs of the converted model.

They are found before anything is lowered. TensorFlow runs what reads and what changes a variable in the order of
control edges; where these leave the order open, so that TensorFlow's own result would be chance, the graph is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from convert.errors import Problem, Unsupported
from convert.graph import Graph
from convert.graph.inputs import Bounds
from convert.graph.metadata import STATE_KEY, state_output
from convert.graph.state import write_states
from convert.report import Report

from ..common.dims import dims_of
from .function_body import FunctionBody, Node, Ref
from .refused import CHANGES
from .variables import Variable

_HANDLES = ("VarHandleOp", "VariableV2", "Variable")
_PASSING = ("Identity", "StopGradient", "Snapshot")
_FIRST = {"If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1}
_LOOPS = ("While", "StatelessWhile")

Arguments = Mapping[str, Variable]


@dataclass
class StateAnalysis:
    """Which variables a program changes: `find` gives that of a handle, `body` a function, `called` those of a node."""

    find: Callable[[Node], Variable | None]
    body: Callable[[str], FunctionBody]
    called: Callable[[Node], Sequence[str]]
    changed: dict[int, Variable] = field(default_factory=dict)

    def follow(self, body: FunctionBody, arguments: Arguments) -> dict[int, list[tuple[Node, bool]]]:
        """What `body` does with each variable (by `id`): the nodes that use it, and whether they change it.

        Raises `Unsupported` where it changes what cannot be told, or in no order.
        """
        uses: dict[int, list[tuple[Node, bool]]] = {}
        for node in (*body.live, *body.bystanders):
            variables = [self._handle_variable(body, arguments, ref) for ref in node.inputs]
            if node.op in CHANGES:
                if not variables or variables[0] is None:
                    raise Unsupported("changes a variable that cannot be told").with_location(node.location)
                self.changed[id(variables[0])] = variables[0]
                uses.setdefault(id(variables[0]), []).append((node, True))
                variables = [None, *variables[1:]]
            written = self._changed_variables(node, variables)
            for variable in {id(v): v for v in variables if v is not None}.values():
                uses.setdefault(id(variable), []).append((node, id(variable) in written))
        _refuse_races(body, uses)
        return uses

    def _changed_variables(self, node: Node, variables: Sequence[Variable | None]) -> set[int]:
        """The variables that the functions which a node calls change."""
        found: set[int] = set()
        first = _FIRST.get(node.op, 0)
        for name in self.called(node) if node.op not in CHANGES else ():
            body = self.body(name)
            given = {a: v for a, v in zip(body.arguments, variables[first:], strict=False) if v is not None}
            uses = self.follow(body, given)
            found |= {key for key, rows in uses.items() if any(writes for _, writes in rows)}
        return found

    def _handle_variable(self, body: FunctionBody, arguments: Arguments, ref: Ref) -> Variable | None:
        """The variable whose handle `ref` is, if it is one."""
        while ref.node not in arguments:
            node = body.nodes.get(ref.node)
            if node is None or ref.node in body.arguments:
                return None
            if node.op in _HANDLES:
                return self.find(node)
            if node.op in CHANGES and node.inputs:  # of TensorFlow 1: it hands the reference on
                ref = node.inputs[0]
            elif node.op in _LOOPS and ref.index < len(node.inputs):
                ref = node.inputs[ref.index]
            elif node.op in _PASSING and not self._is_reference(body, arguments, node.inputs[0]):
                ref = node.inputs[0]
            else:
                return None
        return arguments[ref.node]

    def _is_reference(self, body: FunctionBody, arguments: Arguments, ref: Ref) -> bool:
        variable = self._handle_variable(body, arguments, ref)
        return variable is not None and variable.reference


def _refuse_races(body: FunctionBody, uses: Mapping[int, Sequence[tuple[Node, bool]]]) -> None:
    """Raise for two uses of a variable, one of which changes it, where neither waits for the other."""
    rows = [rows for rows in uses.values() if any(writes for _, writes in rows) and len(rows) > 1]
    if not rows:
        return
    problems = []
    for used in rows:
        for node, writes in used:
            others = [n for n, _ in used if writes and n is not node]
            loose = [n for n in others if body.unordered(n.name, node.name)]
            if loose:
                why = f"changes a variable, and nothing says whether before or after {loose[0].name!r} uses it"
                problems.append(Problem(why, node.location))
    if problems:
        raise Unsupported(problems=problems, hint="order them with tf.control_dependencies")


def needed_states(outputs: Sequence[ir.Value], befores: Sequence[ir.Value], afters: Sequence[ir.Value]) -> list[bool]:
    """Of each state whether `outputs` depend on what it held before, in this call or, by another state, in a later one.

    A counter, a metric or the seed of a dropout that is off is not needed: no caller can tell what it holds.
    """
    seen: set[ir.Value] = set()
    _mark_sources(outputs, seen)
    needed = [before in seen for before in befores]
    while True:
        _mark_sources([after for after, is_needed in zip(afters, needed, strict=True) if is_needed], seen)
        found = [before in seen for before in befores]
        if found == needed:
            return found
        needed = found


def _mark_sources(values: Iterable[ir.Value], seen: set[ir.Value]) -> None:
    """Add to `seen` all that `values` are computed from; of an If only what gives these of its outputs."""
    stack = list(values)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        node = value.producer()
        if node is None:
            continue
        stack += [v for v in node.inputs if v is not None]
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                ends = attribute.as_graph().outputs
                stack += [ends[value.index() or 0]] if node.op_type == "If" else list(ends)


def output_states(
    g: Graph,
    states: Sequence[Variable],
    befores: Sequence[ir.Value],
    taken: dict[str, int],
    bounds: Bounds,
    report: Report,
) -> list[Variable]:
    """Give the graph an output for each state that is needed, and take the inputs of the others away.

    befores: the inputs of the states. taken: names that are reserved, the states' outputs among them.
    """
    afters = [state.read(g) for state in states]
    needed = needed_states(g.graph.outputs, befores, afters)
    kept = [state for state, is_needed in zip(states, needed, strict=True) if is_needed]
    for state in kept:
        taken.pop(state_output(state.state))
        g.output(state.read(g), state_output(state.state))
    drop_states(
        g, {s: b for s, b, is_needed in zip(states, befores, needed, strict=True) if not is_needed}, bounds, report
    )
    return kept


def drop_states(g: Graph, states: Mapping[Variable, ir.Value], bounds: Bounds, report: Report) -> None:
    """Take the inputs of states that no output depends on away; what still reads one reads what was saved."""
    for state, before in states.items():
        g.graph.inputs.remove(before)
        before.replace_all_uses_with(g.initializer(state.name, state.tensor))
        input_dims = {d for value in g.graph.inputs for d in dims_of(value)}
        for dim in set(dims_of(before)) - input_dims:
            bounds.pop(str(dim), None)
    if states:
        names = ", ".join(state.name for state in states)
        report.note(
            f"no output depends on {names}, which the graph changes: left out, with what changes it",
            code="unused-state",
        )


def describe_state(model: ir.Model, states: Sequence[Variable], report: Report) -> None:
    """Say in the metadata and in the report which inputs and outputs are state, and what it starts with."""
    initials = write_states(model, {state.state: (state.name, state.tensor) for state in states})
    listed = []
    for variable in states:
        initial = initials[variable.state]
        start = f"starts as {initial}" if isinstance(initial, (int, float, str)) else "starts as saved"
        listed.append(f"{variable.name} (input {variable.state}, output {state_output(variable.state)}, {start})")
    report.note(
        f"the graph changes {', '.join(listed)}: feed the value that it starts with first, then the output of the last "
        f"call; the metadata {STATE_KEY} of an ONNX file hold these values",
        code="state-inputs",
    )
