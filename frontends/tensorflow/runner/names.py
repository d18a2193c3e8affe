"""Names of inputs and outputs of TensorFlow functions and Keras models, for readers and runners alike."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from convert.errors import UsageError
from convert.graph.metadata import state_output

from ..graph.one_signature import default_signature

VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
"""The operators that create a variable."""


def keras_names(model: Any) -> tuple[list[str], list[str]]:
    """Return input and output names of a built Keras model: keys if these are dicts, else the names of their layers."""
    inputs = _structure_names(getattr(model, "_inputs_struct", None), model.inputs)
    return distinct_names(
        _unique_names(inputs), _unique_names(_structure_names(getattr(model, "_outputs_struct", None), model.outputs))
    )


def _structure_names(structure: Any, tensors: Sequence[Any]) -> list[str]:
    if isinstance(structure, Mapping):
        return [".".join(map(str, path)) for path, _ in _flatten_structure(structure)]
    return [_layer_name(tensor) for tensor in tensors]


def function_names(concrete: Any) -> tuple[list[str], list[str]]:
    """Return input and output names of a ConcreteFunction: its arguments, and the keys (or `output_0` …) of its
    results.
    """
    captured = len(concrete.captured_inputs)
    tensors = concrete.inputs[: len(concrete.inputs) - captured]
    inputs = [_argument_name(t) for t in tensors]
    paths = [".".join(map(str, path)) for path, _ in _flatten_structure(concrete.structured_outputs)]
    named = isinstance(concrete.structured_outputs, Mapping)
    outputs = paths if named else [f"output_{i}" for i in range(len(concrete.outputs))]
    return distinct_names(_unique_names(inputs), _unique_names(outputs))


def distinct_names(inputs: Collection[str], outputs: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the same names, with `_output` appended to outputs that have an input's name, because graph names are
    unique.
    """
    taken, renamed = {*inputs, *outputs}, []
    for name in outputs:
        if name in inputs:
            while name in taken:
                name += "_output"
            taken.add(name)
        renamed.append(name)
    return list(inputs), renamed


def tensor_names(inputs: Iterable[str], outputs: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return names for inputs and outputs of a graph without signature: their tensors' names without `:0`, made
    unique.
    """
    sides = ([name.partition(":")[0] for name in names] for names in (inputs, outputs))
    return distinct_names(*map(_unique_names, sides))


def choose_signature(names: Sequence[str], wanted: str) -> str:
    """Return the signature to run: the requested one, `serving_default`, or the only one. Raises `UsageError`."""
    name = default_signature(list(names), wanted)
    if name not in names:
        raise UsageError(f"no signature {wanted!r}", hint=f"signatures: {', '.join(names) or 'none'}")
    return name


def variable_names(nodes: Iterable[Any]) -> list[str]:
    """Return the names of a graph's variables, in the order of its nodes: NodeDefs, or objects with `name`, `op` and
    `attr`.
    """
    found: dict[str, None] = {}
    for node in nodes:
        if node.op in VARIABLES:
            found[
                (node.attr["shared_name"].s.decode(errors="backslashreplace") if "shared_name" in node.attr else "")
                or node.name
            ] = None
    return list(found)


def captured_variables(concrete: Any) -> dict[str, Any]:
    """Return the variables that a ConcreteFunction captures, by unique names, in capture order."""
    by_handle = {id(v.handle): v for v in concrete.graph.variables}
    found = [by_handle[id(value)] for value in concrete.captured_inputs if id(value) in by_handle]
    return dict(zip(_unique_names(v.name.partition(":")[0] for v in found), found, strict=True))


def state_inputs(variables: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return graph input names for variables that the graph changes: "lstm/rnn_state:0" gives `lstm_rnn_state`.

    Names in `taken` (inputs and outputs) get the suffix `_state`; repeated names get a number.
    """
    named: dict[str, str] = {}
    used = {*taken}
    for variable in variables:
        plain = name = re.sub(r"\W", "_", variable.partition(":")[0])
        number = 0
        if {name, state_output(name)} & used:
            plain = name = f"{plain}_state"
        while {name, state_output(name)} & used:
            number += 1
            name = f"{plain}_{number}"
        named[variable] = name
        used |= {name, state_output(name)}
    return named


def _argument_name(tensor: Any) -> str:
    """Return the caller's name of an argument, which a placeholder keeps as an attribute."""
    try:
        return tensor.op.get_attr("_user_specified_name").decode()
    except ValueError:
        return tensor.op.name


def _layer_name(tensor: Any) -> str:
    history = getattr(tensor, "_keras_history", None)
    return history.operation.name if history is not None else tensor.name.partition(":")[0]


def _flatten_structure(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the tensors in nested containers in TensorFlow's order: dicts by sorted keys."""
    if isinstance(value, Mapping):
        return [leaf for key in sorted(value) for leaf in _flatten_structure(value[key], (*path, key))]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [leaf for i, item in enumerate(value) for leaf in _flatten_structure(item, (*path, i))]
    return [] if value is None else [(path, value)]


def _unique_names(names: Iterable[str]) -> list[str]:
    """Return `names` with `_1`, `_2` … appended to repeated ones."""
    wanted = list(names)
    taken, seen, found = set(wanted), set[str](), []
    for name in wanted:
        number, free = 0, name
        while free in seen or (number and free in taken):
            number += 1
            free = f"{name}_{number}"
        seen.add(free)
        found.append(free)
    return found
