"""Runs TensorFlow Lite files that change variables, starting from the values in a feed, so that a call is a function.

The interpreter does not expose variables. A copy of the file gets an input and an output for each: the initial value is
assigned before the file's own operators run, and the final value is read after them. Only the interpreter's own
operators are used.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from convert.errors import Unsupported
from convert.graph.metadata import state_output

from .file import LiteModel, Signature, parse_lite_model
from .state import STEPS, LiteVariable, Resources, changed_variables, handle_names, state_names

_STATEFUL = frozenset({"ASSIGN_VARIABLE", *STEPS})
_LARGEST = 1 << 30


@dataclass(frozen=True)
class StateVariable:
    """A variable with the name of its input, and the tensor that is read from it or assigned to it in the file."""

    name: str
    variable: LiteVariable
    subgraph: int
    tensor: int


def state_variables(model: LiteModel, wanted: Signature) -> dict[str, StateVariable]:
    """Return the variables that a signature changes, by the names of their inputs."""
    resources = Resources()
    changed = changed_variables(model, resources, wanted.subgraph, {}, wanted.subgraph)
    found = {}
    for variable, name in state_names(changed, [*wanted.inputs, *wanted.outputs]).items():
        place = (wanted.subgraph, variable.number) if variable.number >= 0 else _assigned_tensor(model, variable)
        if place is not None:
            found[name] = StateVariable(name, variable, *place)
    return found


def _assigned_tensor(model: LiteModel, variable: LiteVariable) -> tuple[int, int] | None:
    """Return a tensor that is assigned to a variable; its dtype and shape are the variable's. None if there is none."""
    for number, graph in enumerate(model.subgraphs):
        handles: set[int] = set()
        for operator in graph.operators:
            if operator.name == "VAR_HANDLE" and handle_names(operator) == (variable.container, variable.name):
                handles.update(operator.outputs)
            elif operator.name == "ASSIGN_VARIABLE" and operator.inputs[0] in handles:
                return number, operator.inputs[1]
    return None


def with_state_io(data: bytes, wanted: Signature, ends: Sequence[StateVariable]) -> bytes:
    """Return the file with an input and an output for each of `ends` at the end of its signature and subgraph."""
    from .file import schema

    module = schema()
    model = module.ModelT.InitFromObj(module.Model.GetRootAs(bytearray(data), 0))
    graph = model.subgraphs[wanted.subgraph]
    graph.inputs, graph.outputs = list(graph.inputs), list(graph.outputs)
    codes = {name: _operator_code(module, model, name) for name in ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")}
    first: list[Any] = []
    for end in ends:
        like = model.subgraphs[end.subgraph].tensors[end.tensor]
        tensors = [_tensor(module, graph, f"{end.name}:{what}") for what in ("handle", "before", "after")]
        handle, before, after = tensors
        graph.tensors[handle].type = module.TensorType.RESOURCE
        graph.tensors[handle].shape = []
        for number in (before, after):
            graph.tensors[number].type, graph.tensors[number].shape = like.type, list(like.shape)
            graph.tensors[number].quantization = like.quantization
        options = module.VarHandleOptionsT()
        options.container, options.sharedName = end.variable.container, end.variable.name
        make = _operator(module, codes["VAR_HANDLE"], [], [handle])
        make.builtinOptions, make.builtinOptionsType = options, module.BuiltinOptions.VarHandleOptions
        first += [make, _operator(module, codes["ASSIGN_VARIABLE"], [handle, before], [])]
        graph.operators.append(_operator(module, codes["READ_VARIABLE"], [handle], [after]))
        graph.inputs.append(before)
        graph.outputs.append(after)
    once = [o for o in graph.operators if _is_call_once(module, model, o)]
    graph.operators = once + first + [o for o in graph.operators if o not in once]
    for signature in model.signatureDefs or []:
        if signature.subgraphIndex == wanted.subgraph:
            for maps, names, numbers in (
                (signature.inputs, [e.name for e in ends], graph.inputs),
                (signature.outputs, [state_output(e.name) for e in ends], graph.outputs),
            ):
                for name, number in zip(names, numbers[-len(ends) :], strict=True):
                    maps.append(_tensor_map(module, name, number))
    return _packed(model)


def _packed(model: Any) -> bytes:
    """Return the file of a schema's object."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _is_call_once(module: Any, model: Any, operator: Any) -> bool:
    code = model.operatorCodes[operator.opcodeIndex]
    return bool(max(code.builtinCode, code.deprecatedBuiltinCode) == module.BuiltinOperator.CALL_ONCE)


def _operator_code(module: Any, model: Any, name: str) -> int:
    """Return the index of an operator's code, which is appended."""
    code = module.OperatorCodeT()
    code.builtinCode, code.version = getattr(module.BuiltinOperator, name), 1
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def _operator(module: Any, code: int, inputs: list[int], outputs: list[int]) -> Any:
    made = module.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = code, inputs, outputs
    return made


def _tensor(module: Any, graph: Any, name: str) -> int:
    made = module.TensorT()
    made.name, made.buffer = name, 0
    graph.tensors.append(made)
    return len(graph.tensors) - 1


def _tensor_map(module: Any, name: str, number: int) -> Any:
    made = module.TensorMapT()
    made.name, made.tensorIndex = name, number
    return made


@dataclass(frozen=True)
class StatefulFile:
    """The file to run for feeds that name variables. `content` replaces the file if variables became inputs and
    outputs, or if signatures got their subgraphs. `tensors` has, by name, the numbers of tensors that are variables
    themselves. `called` is the signature if it can only be called by name: the interpreter gives access to the tensors
    of the first subgraph alone.
    """

    content: bytes | None
    tensors: dict[str, int]
    called: str = ""


def file_for(data: memoryview, label: str, key: str, names: Collection[str]) -> StatefulFile:
    """Return what to run for feeds of these names. key: the requested signature. Raises what the reader raises."""
    from .reader import select_signature

    model = parse_lite_model(data, label)
    content = with_own_subgraphs(data, model)
    chosen = key or "serving_default"
    called = chosen if any(s.key == chosen and s.subgraph for s in model.signatures) else ""
    if not any(operator.name in _STATEFUL for graph in model.subgraphs for operator in graph.operators):
        return StatefulFile(content, {}, called)
    wanted = select_signature(model, key)
    ends = [end for name, end in state_variables(model, wanted).items() if name in names]
    assigned = [end for end in ends if end.variable.number < 0]
    tensors = {end.name: end.tensor for end in ends if end.variable.number >= 0}
    if assigned and len(data) > _LARGEST:
        raise Unsupported("a file of more than a gibibyte with variables is not run")
    content = with_state_io(content or bytes(data), wanted, assigned) if assigned else content
    return StatefulFile(content, tensors, called)


def with_own_subgraphs(data: memoryview, model: LiteModel) -> bytes | None:
    """Return the file with the subgraphs of signatures that the reader found, or None if the file has the same.

    The interpreter takes every signature of a file of TensorFlow 2.6 for one of the first subgraph.
    """
    from .file import schema

    module = schema()
    root = module.Model.GetRootAs(data, 0)
    if all(root.SignatureDefs(i).SubgraphIndex() == s.subgraph for i, s in enumerate(model.signatures)):
        return None
    made = module.ModelT.InitFromObj(module.Model.GetRootAs(bytearray(data), 0))
    for signature, found in zip(made.signatureDefs, model.signatures, strict=True):
        signature.subgraphIndex = found.subgraph
    return _packed(made)
