"""Converts TorchScript modules and functions, traced or scripted: sets up inputs, interprets the program, adds
outputs.
"""

from __future__ import annotations

import json
import re
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import DEFECT, BadInput, ConvertError, Location, Unsupported, UsageError
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY
from convert.graph.trainable import mark_non_trainable
from convert.graph.values import is_used
from convert.outcome.report import Report
from convert.request.options import InputSpec, Options

from .. import ops  # noqa: F401  (fills the table)
from ..common.complexes import ComplexPair, input_pair, stack_parts
from ..common.modes import SEEDED, SEEDED_HINT
from ..common.state import state_inputs, write_initial_states
from ..common.values import mark_scalar, onnx_dtype
from ..inputs.arguments import nesting
from ..inputs.fixed_values import note_fixed, script_values
from ..inputs.output_names import output_names
from ..torch_internals import has_script_method, pytree, script_hooks, script_method, script_object
from .context import ProgramError, Walk
from .first_call import zeros_for_none
from .inputs import Input, check_runs, described_inputs, guessed_input
from .interpreter import run_graph, run_method
from .numbers import as_number
from .state import add_state_inputs, add_state_outputs, changed_state, note_state
from .values import NUMBERS, Dict, List, Number, Object, RunTimeText, Tensor, read
from .values import Sequence as Growing


def lower(
    module: torch.jit.ScriptModule | torch.jit.ScriptFunction,
    options: Options,
    report: Report,
    recorded: Sequence[InputSpec] = (),
) -> ir.Model:
    """Return the shared graph of a TorchScript module's `forward`, or of a function, in eval mode.

    The inputs come from the options, else from a trace (`recorded_inputs` of its archive, or the shapes in a trace made
    in memory), else from the layers by a guess. They keep the names of forward's arguments. Raises `Unsupported` that
    lists every operator without a rule, and `UsageError` if inputs are not described and cannot be inferred.
    """
    arguments = _arguments(module)
    recorded = recorded or _recorded_specs(module)
    fixed = script_values(arguments, options.fixed)
    note_fixed(fixed, report)
    with report.stage("inputs"):
        free = [a for a in arguments if a.name not in fixed]
        inputs = _inputs(module, free, options, recorded, fixed, report)
    with report.stage("lower"):
        walk, result = _read_program(module, arguments, inputs, report, {}, fixed)
        start = zeros_for_none(module, inputs, fixed, report)
        states = changed_state(walk, start)
        known: dict[str, Any] = {}
        while len(states) > len(known):
            # The attributes that forward changes are known only at its end, so it is interpreted again: with these
            # values unknown at the start, it may take branches that change more.
            known = states
            walk, result = _read_program(module, arguments, inputs, Report("again"), known, fixed)
            states = {**known, **changed_state(walk, start)}
        if states:
            note_state(report, states, inputs)
        refuse_seeded(walk)
        _add_outputs(walk, result, _return_type(module))
        add_state_outputs(walk, states, inputs)
        model = walk.g.model()
        write_initial_states(model, state_inputs(states, inputs), states)
    if [a.name for a in free] == list(inputs):
        check_runs(module, list(inputs.values()), fixed)
    bounds = {name: list(pair) for i in inputs.values() for name, pair in i.bounds.items()}
    for name in walk.longer & set(bounds):
        bounds[name][0] = max(bounds[name][0] or 1, 2)
    model.metadata_props[DIMS_KEY] = json.dumps(bounds)
    unused = [n for n, v in model.graph.initializers.items() if not is_used(v)]
    for name in unused:
        del model.graph.initializers[name]
    parameters = dict(module.named_parameters(remove_duplicate=False)) if isinstance(module, torch.nn.Module) else {}
    if parameters:  # not of a frozen module: its parameters have become constants
        mark_non_trainable(model, parameters)
    return model


def refuse_seeded(walk: Walk) -> None:
    """Raise `Unsupported` if the program sets a seed and draws random numbers."""
    drawing = {n.op_type for n in ir.traversal.RecursiveGraphIterator(walk.g.graph)} & _DRAWING
    if walk.seeded and drawing:
        raise Unsupported(SEEDED, hint=SEEDED_HINT)


_DRAWING = frozenset(
    ("RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli", "Multinomial")
)


def _read_program(
    module: Any,
    arguments: list[Any],
    inputs: Mapping[str, Input],
    report: Report,
    states: Mapping[str, Any],
    fixed: Mapping[str, Any],
) -> tuple[Walk, Any]:
    """Run the program on graph inputs, those of the attributes in `states` included; return its result."""
    walk = Walk(Graph(), report)
    values = [
        walk.lift_object(fixed[a.name])
        if a.name in fixed
        else _argument_value(walk, a.name, a.type, _without_others(a.name, arguments, inputs), a)
        for a in arguments
    ]
    add_state_inputs(walk, states, inputs)
    result = _run_forward(walk, module, values)
    walk.check()
    return walk, result


def _run_forward(walk: Walk, module: Any, values: list[Any]) -> Any:
    try:
        if isinstance(module, torch.jit.ScriptFunction):
            return run_graph(walk, module.graph, values)
        root = Object(script_object(module), "")
        walk.objects.append(root)
        return _run_hooked(walk, root, values)
    except ProgramError as error:
        walk.check()  # a missing rule may be the reason
        raise BadInput(
            f"the program raises an exception for the inputs described: {error}",
            hint="describe other inputs with --input",
            doubtful=True,
        ) from None
    except ConvertError:
        walk.check()
        raise
    except Exception as error:
        at = walk.location(walk.node) if walk.node is not None else "TorchScript"
        raise ConvertError(
            f"{at}: reading failed with {type(error).__name__}: {error}",
            hint=DEFECT,
        ) from error


def _run_hooked(walk: Walk, root: Object, values: list[Any]) -> Any:
    """Run the hooks of the outermost module around forward; hooks of its submodules are calls in the program."""
    module, given = root.script, tuple(values)
    before, after = script_hooks(module)
    for hook in before:
        found = run_graph(walk, hook.graph, [root, given])
        given = given if found is None else found if isinstance(found, tuple) else (found,)
    result = run_method(walk, root, "forward", list(given))
    for hook in after:
        found = run_graph(walk, hook.graph, [root, given, result])
        result = result if found is None else found
    return result


# -- inputs -----------------------------------------------------------------------------------------------------------


def _arguments(module: Any) -> list[Any]:
    """Return the arguments of forward without self. Raises `BadInput` if there is no forward."""
    if isinstance(module, torch.jit.ScriptFunction):
        schema: Any = module.schema  # a property, which PyTorch's annotations call a method
        return list(schema.arguments)
    if not has_script_method(module, "forward"):
        raise BadInput("this TorchScript module has no method forward", hint="save the module whose forward is wanted")
    return list(script_method(module, "forward").schema.arguments)[1:]


def _recorded_specs(module: Any) -> tuple[InputSpec, ...]:
    """Return the shapes in the graph of a module that this process has traced."""
    from convert.request.options import DimSpec

    graph = module.graph if isinstance(module, torch.jit.ScriptFunction) else script_method(module, "forward").graph
    kinds: list[Any] = [v.type() for v in graph.inputs()][0 if isinstance(module, torch.jit.ScriptFunction) else 1 :]
    if not kinds or any(k.kind() != "TensorType" or k.sizes() is None or k.dtype() is None for k in kinds):
        return ()
    return tuple(
        InputSpec(None, str(k.dtype()).removeprefix("torch."), tuple(DimSpec(size=n) for n in k.sizes())) for k in kinds
    )


def _inputs(
    module: Any,
    arguments: list[Any],
    options: Options,
    recorded: Sequence[InputSpec],
    fixed: Mapping[str, Any],
    report: Report,
) -> dict[str, Input]:
    """Return the tensors that the graph takes, by name."""
    specs, examples = options.inputs, options.examples
    given = {s.name for s in specs} | {k for k in examples if isinstance(k, str)}
    given -= {a.name for a in arguments}
    names = [n for a in arguments for n in _leaf_names(a.name, a.type, given)]
    wanted = [
        n
        for a in arguments
        if not a.has_default_value() and "Optional" not in str(a.type)
        for n in _leaf_names(a.name, a.type, given)
    ]
    for a in arguments:
        if a.type.kind() == "ListType" and not a.has_default_value() and not _list_length(a.name, given):
            first = _leaf_names(a.name, a.type, {f"{a.name}_0"})
            raise UsageError(
                f"the items of {a.name} ({a.type.annotation_str}) are not described",
                hint=f"give --input for each, as {', '.join(first)} for the first",
            )
    inputs = described_inputs(module, names, specs, examples, recorded, report, fixed)
    missing = [n for n in wanted if n not in inputs]
    if missing and len(wanted) == 1:
        inputs[missing[0]] = guessed_input(module, missing[0], specs[0].dtype if specs else None, report, fixed)
    elif missing:
        raise UsageError(
            f"the inputs {', '.join(missing)} of this TorchScript module are not described",
            hint=f"give --input for each of {', '.join(wanted)}, or example arrays",
        )
    return inputs


def _leaf_names(name: str, kind: Any, given: set[Any]) -> list[str]:
    """Return the names of the tensors and numbers in an argument; nested ones are joined by "_"."""
    if kind.kind() == "OptionalType":
        return _leaf_names(name, kind.containedTypes()[0], given)
    if kind.kind() == "TupleType":
        return [n for i, k in enumerate(kind.containedTypes()) for n in _leaf_names(f"{name}_{i}", k, given)]
    if kind.kind() == "ListType":
        items = [f"{name}_{i}" for i in range(_list_length(name, given))]
        return [n for item in items for n in _leaf_names(item, kind.containedTypes()[0], given)]
    if kind.kind() == "DictType":
        return sorted((n for n in given if isinstance(n, str) and n.startswith(f"{name}_")), key=_number_key)
    return [name]


def _list_length(name: str, given: Iterable[Any]) -> int:
    """Return how many items of a list are described: one more than the largest number after its name."""
    numbers = [re.match(rf"{re.escape(name)}_(\d+)(?:_|$)", n) for n in given if isinstance(n, str)]
    return max((int(m[1]) + 1 for m in numbers if m), default=0)


def _number_key(name: str) -> tuple[int, str]:
    last = name.rpartition("_")[2]
    return (int(last) if last.isdecimal() else 0, name)


def _without_others(name: str, arguments: Iterable[Any], inputs: Mapping[str, Input]) -> dict[str, Input]:
    """Return the inputs without those of other arguments: `scale_bias` is no part of `scale` if it is an argument."""
    others = {a.name for a in arguments} - {name}
    return {n: i for n, i in inputs.items() if n not in others}


_NUMBERS = {"IntType": int, "FloatType": float, "BoolType": bool}


def _argument_value(walk: Walk, name: str, kind: Any, inputs: Mapping[str, Input], argument: Any = None) -> Any:
    """Return the value of an argument: graph inputs if it is described, else its default.

    Raises `UsageError` if it has neither, and `Unsupported` for a type that graphs do not have.
    """
    given = [n for n in inputs if n == name or n.startswith(f"{name}_")]
    default = argument is not None and argument.has_default_value()
    if kind.kind() == "OptionalType":
        return (
            _argument_value(walk, name, kind.containedTypes()[0], inputs)
            if given
            else (walk.lift_object(argument.default_value) if default else None)
        )
    if not given and default:
        return walk.lift_object(argument.default_value)
    if kind.kind() == "TupleType":
        return tuple(_argument_value(walk, f"{name}_{i}", k, inputs) for i, k in enumerate(kind.containedTypes()))
    if kind.kind() == "ListType":
        items = [f"{name}_{i}" for i in range(_list_length(name, given))]
        return List(tuple(_argument_value(walk, item, kind.containedTypes()[0], inputs) for item in items))
    if kind.kind() == "DictType":
        inner = kind.containedTypes()[1]
        members: dict[str, dict[str, Input]] = {}
        for n in given:
            members.setdefault(n.rsplit("_", nesting(inner))[0], {})[n] = inputs[n]
        return Dict({n.removeprefix(f"{name}_"): _argument_value(walk, n, inner, part) for n, part in members.items()})
    if name not in inputs:
        raise UsageError(f"the input {name} ({kind.annotation_str}) is not described", hint=f"give --input {name}:…")
    if kind.kind() in _NUMBERS:
        python = _NUMBERS[kind.kind()]
        return Number(mark_scalar(walk.g.input(name, NUMBERS[python], [])), python)
    if kind.kind() != "TensorType":
        raise Unsupported(f"the input {name} is a {kind.annotation_str}, which has no equivalent in a graph")
    found = inputs[name]
    example = torch.empty(found.sizes, dtype=found.dtype, device="meta")
    if found.dtype.is_complex:
        return walk.tensor(input_pair(walk.g, name, example, list(found.dims)), example)
    return walk.tensor(walk.g.input(name, onnx_dtype(found.dtype), found.dims), example)


# -- outputs ----------------------------------------------------------------------------------------------------------


def _return_type(module: Any) -> Any:
    """Return the type of forward's result."""
    function = isinstance(module, torch.jit.ScriptFunction)
    hooks = [] if function else script_hooks(module)[1]
    schema: Any = hooks[-1].schema if hooks else module.schema if function else script_method(module, "forward").schema
    return schema.returns[0].type if len(schema.returns) == 1 else None


def _add_outputs(walk: Walk, result: Any, kind: Any) -> None:
    """Add forward's results as graph outputs, named as `names.output_names` names those of the source."""
    leaves, spec = pytree.tree_flatten(_as_python(result, kind))
    for name, leaf in zip(output_names(spec), leaves, strict=True):
        if leaf is None:
            continue
        if isinstance(leaf, Tensor):
            try:
                walk.g.output(_as_real(walk, walk.value(read(walk.memory, leaf))), name)
            except Unsupported as error:
                raise error.with_location(Location("output", name)) from None
        elif isinstance(leaf, (Number, bool, int, float)):
            walk.g.output(as_number(walk.g, leaf), name)
        elif isinstance(leaf, RunTimeText):
            raise Unsupported(f"the output {name} is a text of what is known at run time only")
        elif isinstance(leaf, str):
            walk.g.output(walk.g.const(leaf), name)
        else:
            raise Unsupported(f"the output {name} is a {type(leaf).__name__}, which has no equivalent in a graph")


def _as_real(walk: Walk, value: Any) -> ir.Value:
    """Return a tensor as a graph output: a complex one becomes real, with its two parts in a last dim."""
    return stack_parts(walk.g, value) if isinstance(value, ComplexPair) else value


def _as_python(value: Any, kind: Any = None) -> Any:
    """Return lists, dicts and named tuples of the program as Python's; `kind` is the declared type."""
    if isinstance(value, List):
        if isinstance(value.state, Growing):
            raise Unsupported(
                "forward returns a list whose length depends on the input", hint="return torch.stack or torch.cat of it"
            )
        return [_as_python(v) for v in value.state]
    if isinstance(value, Dict):
        return {k: _as_python(v) for k, v in value.state.items()}
    if not isinstance(value, tuple):
        return value
    kinds = kind.containedTypes() if kind is not None and kind.kind() == "TupleType" else [None] * len(value)
    items = tuple(map(_as_python, value, kinds))
    fields = _field_names(kind) if kind is not None else []
    return namedtuple("Named", fields)(*items) if len(fields) == len(items) > 0 else items


def _field_names(kind: Any) -> list[str]:
    """Return the names in a type such as `NamedTuple(a : Tensor, b : (Tensor, Tensor))`; none for another type."""
    text = kind.str()
    if not text.startswith("NamedTuple("):
        return []
    depth, outer = 0, ""
    for letter in text.removeprefix("NamedTuple("):
        depth += (letter in "([") - (letter in ")]")
        outer += letter if depth == 0 else ""
    return re.findall(r"(\w+) : ", outer)
