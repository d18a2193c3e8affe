"""State: the variables that a graph changes, which become inputs and outputs of the converted model.

They are found before lowering. TensorFlow runs reads and changes of a variable in the order of control edges. A graph
is refused if these leave the order open, because TensorFlow's own result would then be random.
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
from convert.outcome.report import Report

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
    """Finds the variables that a program changes.

    `find` returns the variable of a handle, `body` a function, and `called` the functions of a node.
    """

    find: Callable[[Node], Variable | None]
    body: Callable[[str], FunctionBody]
    called: Callable[[Node], Sequence[str]]
    changed: dict[int, Variable] = field(default_factory=dict)

    def follow(self, body: FunctionBody, arguments: Arguments) -> dict[int, list[tuple[Node, bool]]]:
        """Return the uses of each variable in `body` (by `id`): the nodes that use it, and whether they change it.

        Raises `Unsupported` for a change of an unknown variable, or in an undefined order.
        """
        uses: dict[int, list[tuple[Node, bool]]] = {}
        for node in (*body.live, *body.control_dependencies):
            variables = [self._handle_variable(body, arguments, ref) for ref in node.inputs]
            if node.op in CHANGES:
                if not variables or variables[0] is None:
                    raise Unsupported("changes an unknown variable").with_location(node.location)
                self.changed[id(variables[0])] = variables[0]
                uses.setdefault(id(variables[0]), []).append((node, True))
                variables = [None, *variables[1:]]
            written = self._changed_variables(node, variables)
            for variable in {id(v): v for v in variables if v is not None}.values():
                uses.setdefault(id(variable), []).append((node, id(variable) in written))
        _refuse_races(body, uses)
        return uses

    def _changed_variables(self, node: Node, variables: Sequence[Variable | None]) -> set[int]:
        """Return the variables that the functions called by a node change."""
        found: set[int] = set()
        first = _FIRST.get(node.op, 0)
        for name in self.called(node) if node.op not in CHANGES else ():
            body = self.body(name)
            given = {a: v for a, v in zip(body.arguments, variables[first:], strict=False) if v is not None}
            uses = self.follow(body, given)
            found |= {key for key, rows in uses.items() if any(writes for _, writes in rows)}
        return found

    def _handle_variable(self, body: FunctionBody, arguments: Arguments, ref: Ref) -> Variable | None:
        """Return the variable whose handle `ref` is, else None."""
        while ref.node not in arguments:
            node = body.nodes.get(ref.node)
            if node is None or ref.node in body.arguments:
                return None
            if node.op in _HANDLES:
                return self.find(node)
            if node.op in CHANGES and node.inputs:  # in TensorFlow 1 this returns the reference
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
    """Raise `Unsupported` for two uses of a variable if one changes it and neither waits for the other."""
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
    """Return for each state whether `outputs` depend on its previous content, in this call or, through another state,
    in a later one.

    A counter, a metric or the seed of an inactive dropout is not needed, because no caller can observe it.
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
    """Add to `seen` all values that `values` are computed from; for an If, only those that the outputs in question
    need.
    """
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
    """Add an output to the graph for each state that is needed, and remove the inputs of the others.

    befores: the inputs of the states. taken: reserved names, including the states' outputs.
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
    """Remove the inputs of states that no output depends on; remaining readers read the saved value."""
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
    """Record in the metadata and the report which inputs and outputs are state, and its initial content."""
    initials = write_states(model, {state.state: (state.name, state.tensor) for state in states})
    listed = []
    for variable in states:
        initial = initials[variable.state]
        start = f"starts as {initial}" if isinstance(initial, (int, float, str)) else "starts as saved"
        listed.append(f"{variable.name} (input {variable.state}, output {state_output(variable.state)}, {start})")
    report.note(
        f"the graph changes {', '.join(listed)}. Feed the initial value in the first call, and then the output of the "
        f"call before; the metadata {STATE_KEY} of an ONNX file hold the initial values",
        code="state-inputs",
    )
