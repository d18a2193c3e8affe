"""Walks the graph of an ExportedProgram, in the dialect before decomposition, and lowers it node by node."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.trainable import mark_non_trainable
from convert.graph.values import is_used
from convert.outcome.report import Report

from ... import ops  # noqa: F401  (fills the table)
from ...common.complexes import ComplexPair, constant_pair, input_pair, stack_parts, takes_complex
from ...common.locate import Locator
from ...common.state import changed_buffers, refuse_shared_names, state_inputs, state_output, write_initial_states
from ...common.used_weights import record_used_weights
from ...common.values import as_value, cast, mark_scalar, onnx_dtype
from ...common.weights import identity_of, tensor_of
from ...dispatch import call
from ...inputs.output_names import is_output, output_names
from ...rules import is_inplace, torch_op
from ...torch_internals import HigherOrderOperator, OpOverload, schema_of
from ..capture import dims as naming
from ..capture.explain import generator_refusal
from ..capture.prepare import INLINED, SKIPPED, check, is_only_checked, operator_key, prepare_program
from ..decisions.branches import Branch
from ..decisions.joined_paths import mark_decision
from ..decisions.on_data import decision_of
from ..decisions.size_conditions import SizeConditions, SizePath
from .as_strided import is_dense, lower_as_strided
from .autocast import Autocast, find_autocast
from .dynamic_split import is_counted, lower_counted_split
from .facts import annotate_result


@dataclass
class ExportWalk:
    """The context of lowering a program: names of dims, and locations of nodes."""

    dims: naming.Dims
    locate: Locator
    shared: dict[tuple[object, ...], ir.Value]
    autocast: Autocast


Values = dict[torch.fx.Node, Any]


def lower(
    program: ExportedProgram,
    report: Report,
    wanted: Mapping[tuple[str, int], str] | None = None,
    branches: Sequence[Branch] | None = None,
    way: SizePath | None = None,
) -> ir.Model:
    """Return the shared graph of a captured program; it fails at run time for sizes that the capture does not hold for.

    - wanted: names of dynamic dims by input name and position
    - branches: the decisions on sizes that forward made, None if they were not recorded
    - way: the sizes that the graph is for, if it is one of several

    Inputs keep torch.export's names, which are those of forward's arguments; outputs are named by `names.output_names`.
    Raises `Unsupported` with every operator that has no rule.
    """
    with report.stage("prepare"):
        program = prepare_program(program, report)
    record_used_weights(program)
    changed, specs = changed_buffers(program), program.graph_signature.input_specs
    inputs = _inputs(program)
    outputs = _outputs(program)
    states = state_inputs(changed, [n.name for n in inputs])
    refuse_shared_names(states.values(), [name for name, _ in outputs])
    outputs += [(state_output(states[path]), _node_named(program, n)) for path, n in changed.items()]
    locate = Locator(program.graph, {name for name, _ in outputs} | {n.name for n in inputs} | set(states.values()))
    walk = ExportWalk(
        naming.Dims(naming.choose_dim_names(((n.name, n.meta.get("val")) for n in inputs), wanted or {})),
        locate,
        {},
        find_autocast(program, locate),
    )
    check(program, walk.locate)
    with report.stage("lower"):
        g = Graph()
        env: Values = {node: _add_input(walk, g, node) for node in inputs}
        sizes = SizeConditions(program, inputs, walk.dims, branches, way)
        sizes.check_inputs(g, env)
        _add_state(walk, g, program, env, states)
        _lower_nodes(walk, g, program.graph_module, env)
        for name, node in outputs:
            value = _as_output(g, env[node] if isinstance(node, torch.fx.Node) else node, node)
            g.output(sizes.check_output(g, value), name)
        model = g.model()
    if states:
        write_initial_states(model, states, {**program.constants, **program.state_dict})
        report.note(_state_note(states), code="state-inputs")
    sizes.note(report)
    sizes.write_metadata(model)
    _drop_unused(model)
    mark_non_trainable(model, {str(s.target) for s in specs if s.kind == InputKind.PARAMETER})
    return model


# -- the ends of the graph --------------------------------------------------------------------------------------------


def _inputs(program: ExportedProgram) -> list[torch.fx.Node]:
    """Return the placeholders of the user's tensors and run-time numbers, in order."""
    names = {
        s.arg.name
        for s in program.graph_signature.input_specs
        if s.kind == InputKind.USER_INPUT and type(s.arg).__name__ != "ConstantArgument"
    }
    return [n for n in program.graph.nodes if n.op == "placeholder" and n.name in names]


def _outputs(program: ExportedProgram) -> list[tuple[str, Any]]:
    """Return the name of each output and its node (or its number, if constant); None and strings are left out."""
    results = next(n for n in program.graph.nodes if n.op == "output").args[0]
    specs = program.graph_signature.output_specs
    users = [r for r, s in zip(results, specs, strict=True) if s.kind == OutputKind.USER_OUTPUT]
    names = output_names(program.call_spec.out_spec)
    return [(name, node) for name, node in zip(names, users, strict=True) if is_output(node)]


def _node_named(program: ExportedProgram, name: str) -> torch.fx.Node:
    return next(n for n in program.graph.nodes if n.name == name)


def _state_note(states: Mapping[str, str]) -> str:
    """Return the note about buffers that became inputs and outputs."""
    listed = ", ".join(f"{path} (input {name}, output {state_output(name)})" for path, name in states.items())
    return f"forward changes {listed}: feed the value that it has in the module first, then the output of the last call"


def _add_input(walk: ExportWalk, g: Graph, node: torch.fx.Node, name: str = "") -> ir.Value | ComplexPair:
    fake = node.meta["val"]
    if isinstance(fake, torch.Tensor):
        if fake.is_complex():
            return input_pair(g, name or node.name, fake, [walk.dims.of(d) for d in fake.shape])
        return g.input(name or node.name, onnx_dtype(fake.dtype), [walk.dims.of(d) for d in fake.shape])
    kinds = {torch.SymInt: ir.DataType.INT64, torch.SymFloat: ir.DataType.DOUBLE, torch.SymBool: ir.DataType.BOOL}
    if type(fake) not in kinds:
        raise Unsupported(f"the input {node.name} is a {type(fake).__name__}, not a tensor")
    return mark_scalar(g.input(node.name, kinds[type(fake)], []))


def _add_state(walk: ExportWalk, g: Graph, program: ExportedProgram, env: Values, states: Mapping[str, str]) -> None:
    """Turn parameters, buffers and constants into initializers named as in the module; shared memory is stored once.

    Buffers that forward changes become inputs, with the names in `states` by path.
    """
    specs = {s.arg.name: s for s in program.graph_signature.input_specs if hasattr(s.arg, "name")}
    for node in program.graph.nodes:
        if node.op != "placeholder" or node in env:
            continue
        spec = specs[node.name]
        if spec.target in states:
            env[node] = _add_input(walk, g, node, states[str(spec.target)])
            continue
        if not node.users:
            continue
        if spec.kind == InputKind.USER_INPUT:
            env[node] = getattr(spec.arg, "value", None)
            continue
        name = str(spec.target)
        tensor = program.state_dict.get(name)
        if tensor is None:
            tensor = program.constants.get(name)
        if isinstance(tensor, torch.Generator):
            raise generator_refusal(f" ({name})")
        if not isinstance(tensor, torch.Tensor):
            raise Unsupported(
                f"{name} is a {type(tensor).__name__} that forward uses, which has no equivalent in a graph"
            )
        env[node] = _add_weight(walk, g, name, tensor)


def _add_weight(walk: ExportWalk, g: Graph, name: str, tensor: torch.Tensor) -> ir.Value | ComplexPair:
    if tensor.is_complex():
        return constant_pair(g, tensor)
    key = identity_of(tensor)
    if key not in walk.shared:
        walk.shared[key] = g.initializer(name, tensor_of(tensor, name))
    return walk.shared[key]


def _as_output(g: Graph, value: Any, node: Any) -> ir.Value:
    if isinstance(value, ComplexPair):
        return stack_parts(g, value)
    fake = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if isinstance(value, ir.Value) and isinstance(fake, torch.Tensor):
        return cast(g, value, fake.dtype)  # a half-precision value that was held in float32
    if isinstance(value, ir.Value):
        return value
    # A Python number has Python's dtype, as in the source's output.
    return as_value(g, value, torch.float64 if isinstance(value, float) else torch.tensor(value).dtype)


def _drop_unused(model: ir.Model) -> None:
    """Remove weights that a rule replaced (by a transposed one, for example), so that they are neither read nor
    written.
    """
    unused = [name for name, value in model.graph.initializers.items() if not is_used(value)]
    for name in unused:
        del model.graph.initializers[name]


# -- nodes ------------------------------------------------------------------------------------------------------------


def _lower_nodes(walk: ExportWalk, g: Graph, module: torch.fx.GraphModule, env: Values) -> Any:
    """Lower every node of `module`, whose placeholders are in `env`; return its results."""
    results: Any = None
    for node in module.graph.nodes:
        if node.op == "placeholder":
            env[node] = walk.autocast.widen(g, env.get(node))
        elif node.op == "get_attr":
            env[node] = walk.autocast.widen(g, _attribute(walk, g, module, str(node.target)))
        elif node.op == "call_function" and decision_of(node) is not None:
            mark_decision(g, node, env[node.args[0]])
        elif node.op == "call_function":
            env[node] = None if is_only_checked(node) else _lower_node(walk, g, node, env)
        elif node.op == "output":
            results = torch.fx.node.map_arg(node.args[0], lambda n: env.get(n))
    return results


def _attribute(walk: ExportWalk, g: Graph, module: torch.fx.GraphModule, target: str) -> Any:
    """Return a region (a graph that a higher-order operator takes) as a callable, a tensor as a weight."""
    found: Any = module
    for part in target.split("."):
        found = getattr(found, part)
    if isinstance(found, torch.fx.GraphModule):
        return region_builder(walk, found)
    return _add_weight(walk, g, target, found)


def region_builder(walk: ExportWalk, module: torch.fx.GraphModule) -> Callable[..., list[Any]]:
    """Return `region(g, *values)`, which lowers the graph into `g` and returns its results as a list."""

    def build(g: Graph, *values: Any) -> list[Any]:
        places = [n for n in module.graph.nodes if n.op == "placeholder"]
        results = _lower_nodes(walk, g, module, dict(zip(places, values, strict=True)))
        return list(results) if isinstance(results, (list, tuple)) else [results]

    return build


def _lower_node(walk: ExportWalk, g: Graph, node: torch.fx.Node, env: Values) -> Any:
    target: Any = node.target
    args: Any = torch.fx.node.map_arg(node.args, lambda n: walk.autocast.operand(g, node, n, env[n]))
    kwargs: Any = torch.fx.node.map_arg(node.kwargs, lambda n: walk.autocast.operand(g, node, n, env[n]))
    if target is operator.getitem:
        # A node with one output returns it alone, unless pieces are counted.
        return args[0] if isinstance(args[0], ir.Value) and args[1] in (0, -1) else args[0][args[1]]
    key = operator_key(target, takes_complex(node))
    if key is None:
        return _inline_region(g, target, args)
    at = walk.locate(node, key)
    result: Any
    if is_dense(node):
        with g.at(at):
            result = lower_as_strided(g, node, args, kwargs)
    elif is_counted(node):
        with g.at(at):
            result = lower_counted_split(g, node, args, kwargs)
    elif isinstance(target, OpOverload):
        walk.autocast.check(schema_of(target).name, schema_of(target).overload_name)
        result = call(g, schema_of(target), args, kwargs, at)
    elif isinstance(target, HigherOrderOperator):
        with g.at(at):
            result = torch_op.apply(g, key, args, kwargs, at)
    elif not any(isinstance(a, ir.Value) for a in args):
        return target(*args, **kwargs)
    else:
        with g.at(at):
            result = torch_op.apply(g, key, args, kwargs, at)
    name = schema_of(target).name if isinstance(target, OpOverload) else ""
    result = annotate_result(walk.dims, g, result, walk.autocast.expected(node, name), at)
    with g.at(at):
        result = walk.autocast.widen(g, result)
    if isinstance(target, OpOverload) and is_inplace(schema_of(target)) and isinstance(node.args[0], torch.fx.Node):
        env[node.args[0]] = result
    return result


def _inline_region(g: Graph, target: Any, args: tuple[Any, ...]) -> Any:
    """Inline a region that only switches gradients or autocast on or off; a pure check gives None."""
    if isinstance(target, HigherOrderOperator) and target.name() in INLINED:
        at = next(i for i, a in enumerate(args) if callable(a))
        return args[at](g, *args[at + 1 :])
    assert schema_of(target).name.removeprefix("aten::") in SKIPPED
    return None
