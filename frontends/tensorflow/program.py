"""A model before lowering: a body, its library and variables, and the final names of inputs and outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported, UsageError
from convert.graph import Dim, Graph
from convert.graph.inputs import Bounds, add_input, match_specs
from convert.graph.metadata import DIMS_KEY, LAYOUT_KEY, MODE_KEY, state_output
from convert.graph.tensors import SHORT_NAMES, dims_of
from convert.graph.written_numbers import record_written_numbers
from convert.numerics.complexes import Complex, split_parts, stack_parts
from convert.outcome.report import Report
from convert.passes.tidy.clean import drop_unused
from convert.patterns.layers import find_layers
from convert.request.options import DimSpec, InputSpec, Options

from . import ops  # noqa: F401  (fills the table of rules)
from .common.complexes import split_constant
from .common.dims import NamingGraph
from .common.unify_dims import name_input_dims, share_names
from .graph.attributes import dtype_of
from .graph.control_flow_v1 import structure_control_flow
from .graph.defaults import note_defaults
from .graph.function_body import FunctionBody
from .graph.lookup_tables import LookupTable, LookupTables
from .graph.state import describe_state, output_states
from .graph.variables import Variable
from .rules import tf_op as rules
from .runner.names import state_inputs, variable_names
from .walker import GraphWalker


@dataclass(frozen=True)
class ProgramInput:
    """One input: its name for users, TensorFlow's dtype number, its dims (None: unknown rank)."""

    name: str
    dtype: int
    shape: tuple[int | None, ...] | None


@dataclass
class Program:
    """`captured` are the arguments of `body` after the inputs; `buffer` is the file in which tensors were left.

    `bodies` are functions besides those of the library. If it is `cuttable`, the user may make a placeholder with a
    default an input.
    """

    name: str
    body: FunctionBody
    inputs: Sequence[ProgramInput]
    outputs: Sequence[str]
    functions: Mapping[str, Any] = field(default_factory=dict)
    variable: Callable[[str, str], Variable | None] = lambda name, shared: None
    captured: Sequence[Variable | LookupTable | ir.TensorProtocol] = ()
    buffer: memoryview = field(default_factory=lambda: memoryview(b""))
    bodies: dict[str, FunctionBody] = field(default_factory=dict)
    tables: LookupTables = field(default_factory=lambda: LookupTables({}, {}))
    cuttable: bool = False
    one_batch: bool = False
    """Whether dynamic leading dims of all inputs are the batch."""
    mode: str = ""
    """The way of running the source, if there are two that differ."""


_DEPARTING = {"QuantizeV2", "Dequantize", "QuantizedAvgPool"}
"""Operators that `runner.environment` selects kernels for."""


def note_renamed(inputs: Collection[str], outputs: Iterable[str], report: Report) -> None:
    """Note which outputs have `_output` appended to their name (`runner.names.distinct_names`)."""
    for name in outputs:
        if name.removesuffix("_output") in inputs and name.endswith("_output"):
            report.note(
                f"the output {name.removesuffix('_output')} is called {name}, because an input has its name",
                code="renamed",
            )


def lower(program: Program, options: Options, report: Report) -> ir.Model:
    """Write `program` as an ONNX graph. Raises what the frontend's `read` raises."""
    walker = GraphWalker(rules, program.functions, program.variable, program.buffer, program.bodies, program.tables)
    body = structure_control_flow(program.body, walker.bodies)
    if departing := walker.check(body) & _DEPARTING:
        report.note(
            f"{', '.join(sorted(departing))}: TensorFlow's oneDNN kernels can give other levels than documented, or "
            "none. They are its default on processors with AVX-512 and VNNI. The graph holds the levels of the kernels "
            "without oneDNN (TF_ENABLE_ONEDNN_OPTS=0), and a file is verified against these",
            code="kernel-numbers",
        )
    note_defaults(body, walker.functions_in(body), program.buffer, report, cuttable=program.cuttable)
    g = NamingGraph(program.name)
    given = {i.name for i in program.inputs}
    note_renamed(given, program.outputs, report)
    taken = dict.fromkeys(set(program.outputs) - given, 0)
    g.reserve(taken)  # named after the outputs, whatever the names of the nodes
    bounds: Bounds = {}
    specs = match_specs([i.name for i in program.inputs], options.inputs)
    shapes = name_input_dims({i.name: i.shape for i in program.inputs}, specs, one_batch=program.one_batch)
    arguments: list[Any] = [
        _add_argument(g, i, shapes[i.name], specs.get(i.name), bounds, report) for i in program.inputs
    ]
    arguments += [
        c if isinstance(c, (Variable, LookupTable)) else split_constant(g, g.const(c, name="captured"))
        for c in program.captured
    ]
    states = _add_states(g, program, walker, body, bounds)
    befores = [state.read(g) for state in states]
    taken |= {state_output(state.state): 0 for state in states}
    results = walker.lower(g, body, arguments)
    for value, name in zip(results, program.outputs, strict=True):
        value = value.read(g) if isinstance(value, Variable) and value.reference else value
        if isinstance(value, Complex):
            report.note(
                f"the output {name} is complex: its last dim, of 2, holds the real and the imaginary part",
                code="complex-pairs",
            )
            value = stack_parts(g, value)
        if not isinstance(value, ir.Value):
            raise Unsupported(f"the output {name!r} is a resource, not a tensor")
        if name not in given:
            taken.pop(name, None)
        g.output(value, name)
    kept = output_states(g, states, befores, taken, bounds, report)
    model = g.model()
    if kept:
        describe_state(model, kept, report)
    drop_unused(model)
    share_names(model, specs, bounds, report)
    record_written_numbers(model.graph.initializers.values())
    find_layers(model)
    model.metadata_props[LAYOUT_KEY] = "nhwc"
    if program.mode:
        model.metadata_props[MODE_KEY] = program.mode
    if bounds:
        model.metadata_props[DIMS_KEY] = json.dumps(bounds)
    return model


def _add_states(g: Graph, program: Program, walker: GraphWalker, body: FunctionBody, bounds: Bounds) -> list[Variable]:
    """Return the variables that the program changes, each with an input for its previous value."""
    captured = list(zip(body.arguments[len(program.inputs) :], program.captured, strict=True))
    states = walker.states(body, {name: c for name, c in captured if isinstance(c, Variable)})
    variables = [c.name for _, c in captured if isinstance(c, Variable)] + variable_names(program.body.nodes.values())
    named = state_inputs(variables, [*(i.name for i in program.inputs), *program.outputs])
    if inner := [state.name for state in states if state.name not in named]:
        raise Unsupported(f"a function changes the variable {inner[0]!r}, which it makes itself")
    states.sort(key=lambda state: list(named).index(state.name))
    for state in states:
        state.state, state.home = named[state.name], g
        shape = [f"{state.state}_d{i}" if d is None else d for i, d in enumerate(state.shape or ())]
        dims = shape if state.shape is not None else list(dims_of(state.tensor))
        state.value = add_input(g, state.state, state.tensor.dtype, dims, None, bounds)
    return states


_PARTS = {ir.DataType.COMPLEX64: "float32", ir.DataType.COMPLEX128: "float64"}


def _add_argument(
    g: Graph,
    described: ProgramInput,
    shape: Sequence[Dim] | None,
    spec: InputSpec | None,
    bounds: Bounds,
    report: Report,
) -> ir.Value | Complex:
    """Add a graph input; a complex one has both parts in a last dim of 2, which is noted."""
    dtype = dtype_of(described.dtype)
    if dtype not in _PARTS:
        return add_described_input(g, described, shape, spec, bounds)
    given = spec.shape if spec is not None else None
    if spec is not None and spec.dtype not in (None, dtype.name.lower(), _PARTS[dtype]):
        raise UsageError(f"the input {described.name!r} is {dtype.name.lower()}, not {spec.dtype}")
    if spec is not None and given is not None and spec.dtype != _PARTS[dtype]:
        given = (*given, DimSpec(size=2))
    if shape is None and given is None:
        raise Unsupported(
            f"the input {described.name!r} is complex and of unknown rank: a graph has its parts in one dim more",
            hint=f"say what it is: --input '{described.name}:{dtype.name.lower()}[batch,...]'",
        )
    pair = None if shape is None else [*shape, 2]
    report.note(
        f"the input {described.name} is complex: its last dim, of 2, holds the real and the imaginary part",
        code="complex-pairs",
    )
    return split_parts(
        g, add_input(g, described.name, SHORT_NAMES[_PARTS[dtype]], pair, InputSpec(shape=given), bounds)
    )


def add_described_input(
    g: Graph, described: ProgramInput, shape: Sequence[Dim] | None, spec: InputSpec | None, bounds: Bounds
) -> ir.Value:
    """Add a graph input with the dims of the program, or else of the user; append bounds of dims to `bounds`.

    `shape` is the program's, with names for open dims.
    """
    dtype = dtype_of(described.dtype)
    if dtype is None:
        raise Unsupported(f"the input {described.name!r} is a resource or a variant, not a tensor")
    return add_input(g, described.name, dtype, shape, spec, bounds)
