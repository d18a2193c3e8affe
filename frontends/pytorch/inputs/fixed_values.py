"""Binds inputs with one fixed value to a module's forward, so that later steps do not see them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from convert.errors import UsageError
from convert.outcome.report import Report
from convert.request.given_inputs import NestedInput, shown_value
from convert.request.nearest import names_hint
from convert.request.options import Options

from .arguments import argument_of


def fixed_by_name(names: Sequence[str], fixed: Mapping[str | int, Any], variadic: bool = False) -> dict[str, Any]:
    """Return the values by the names of forward's parameters. Raises `UsageError` for a parameter that forward
    lacks.
    """
    found = {}
    for key, value in fixed.items():
        name = key if isinstance(key, str) else names[key] if key < len(names) else None
        if name is None or (name not in names and not variadic):
            raise UsageError(
                f"forward has no input {key!r} to take {shown_value(value)}", hint=names_hint(str(key), names)
            )
        found[name] = value
    return found


def with_fixed_values(loaded: Any, fixed: Mapping[str | int, Any], report: Report) -> Any:
    """Return a shallow copy of a module whose forward lacks the parameters in `fixed`; other objects unchanged.

    TorchScript gets the values when it is called (`script_values`). Raises `UsageError` for a name that forward lacks,
    and for a program that was captured with another value.
    """
    if isinstance(loaded, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return loaded
    if isinstance(loaded, ExportedProgram):
        _check_constants(loaded, fixed)
        return loaded
    signature = inspect.signature(loaded.forward)
    places = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    variadic = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    values = fixed_by_name([p.name for p in places], fixed, variadic)
    values = {n: _as_annotated(v, n, signature.parameters.get(n)) for n, v in values.items()}
    note_fixed(values, report)
    return _bound(loaded, signature, values)


def with_nested_inputs(module: nn.Module, nested_inputs: Mapping[str, NestedInput], report: Report) -> nn.Module:
    """Return a shallow copy of the module whose forward takes dicts and tuples, and builds the classes in
    `nested_inputs` from them.

    Content other than arrays is constant, which a note says.
    """
    signature = inspect.signature(module.forward)
    names = set(signature.parameters)
    layouts = {n: argument_of(n, names, {leaf: leaf for leaf in s.names()}) for n, s in nested_inputs.items()}
    note_fixed({f"{n}_{k}": v for n, s in nested_inputs.items() for k, v in s.constants().items()}, report)

    def changed(given: inspect.BoundArguments) -> None:
        for name in nested_inputs.keys() & given.arguments.keys():
            given.arguments[name] = nested_inputs[name].build(_by_name(layouts[name], given.arguments[name]))

    return _with_signature(module, [p.replace(annotation=p.empty) for p in signature.parameters.values()], changed)


def _by_name(layout: Any, given: Any) -> dict[str, Any]:
    """Return the parts of an argument by their names in `layout`, which has the same nesting."""
    if isinstance(layout, str):
        return {layout: given}
    rows = layout.items() if isinstance(layout, dict) else enumerate(layout)
    return {name: value for key, part in rows for name, value in _by_name(part, given[key]).items()}


def with_keywords(module: nn.Module, options: Options) -> nn.Module:
    """Return a shallow copy whose forward names, in place of its `**kwargs`, the keywords that the user calls it with.

    torch.export cannot make dims in `**kwargs` dynamic.
    """
    parameters = [*inspect.signature(module.forward).parameters.values()]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return module
    known = tuple(p.name for p in parameters)
    asked = [s.name for s in options.inputs if s.name] + [k for k in options.examples if isinstance(k, str)]
    starts = tuple(f"{n}_" for n in known)
    more = [n for n in dict.fromkeys(asked) if n not in known and not n.startswith(starts) and n.isidentifier()]
    if not more:
        return module
    named = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in more]
    return _with_signature(module, [*(p for p in parameters if p.kind is not p.VAR_KEYWORD), *named])


def _with_signature(
    module: nn.Module,
    parameters: Sequence[inspect.Parameter],
    changed: Callable[[inspect.BoundArguments], None] = lambda given: None,
) -> nn.Module:
    """Return a shallow copy whose forward has these parameters and gets its arguments as modified by `changed`."""
    bound, own = copy.copy(module), module.__dict__.get("forward")
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.Signature([me, *parameters])

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs)
        changed(given)
        if own is None:
            return type(self).forward(*given.args, **given.kwargs)
        return (own.__func__ if inspect.ismethod(own) else own)(
            *given.args[0 if inspect.ismethod(own) else 1 :], **given.kwargs
        )

    setattr(forward, "__signature__", signature)  # noqa: B010
    bound.forward = MethodType(forward, bound)  # a method, so that the forward of a copy belongs to the copy
    return bound


def note_fixed(values: Mapping[str, Any], report: Report) -> None:
    """Note which inputs are constants."""
    listed = ", ".join(f"{n} = {shown_value(v)}" for n, v in values.items())
    if listed:
        report.note(
            f"as asked, the graph holds for {listed} only, which is a constant in it and no input", code="fixed-input"
        )


def script_values(arguments: Sequence[Any], fixed: Mapping[str | int, Any]) -> dict[str, Any]:
    """Return the values that a TorchScript program's arguments are fixed to, in the required types."""
    kinds = {a.name: a.type for a in arguments}
    return {n: _as_typed(v, n, kinds[n]) for n, v in fixed_by_name([a.name for a in arguments], fixed).items()}


def _bound(module: nn.Module, signature: inspect.Signature, values: Mapping[str, Any]) -> nn.Module:
    bound = copy.copy(module)
    own = module.__dict__.get("forward")  # an instance attribute that takes precedence over the class's
    left = [p for n, p in signature.parameters.items() if n not in values]
    places = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    order = [n for n in places if n not in values]

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(order, args, strict=False)), **kwargs, **values}
        ahead = [given.pop(n) for n in _leading_parameters(places, given)]
        ahead += args[len(order) :]
        if own is None:
            return type(self).forward(self, *ahead, **given)
        return own.__func__(self, *ahead, **given) if inspect.ismethod(own) else own(*ahead, **given)

    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    setattr(forward, "__signature__", inspect.Signature([me, *left]))  # noqa: B010
    bound.forward = MethodType(forward, bound)  # a method, so that the forward of a copy belongs to the copy
    return bound


def _leading_parameters(places: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """Return the leading parameters that have a value."""
    count = next((i for i, n in enumerate(places) if n not in given), len(places))
    return list(places[:count])


def _as_annotated(value: Any, name: str, parameter: inspect.Parameter | None) -> Any:
    """Return a number as a tensor if the parameter is declared as one."""
    kind = parameter.annotation if parameter is not None else None
    tensor = kind is torch.Tensor or (isinstance(kind, str) and kind.split(".")[-1] == "Tensor")
    return _as_tensor(value, name) if tensor and isinstance(value, (bool, int, float, list)) else value


def _as_tensor(value: Any, name: str) -> torch.Tensor:
    """Return a tensor. Raises `UsageError` for values that are no numbers, and for ragged lists."""
    try:
        return torch.tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise UsageError(f"the input {name} is a tensor, which {shown_value(value)} is not") from error


def _as_typed(value: Any, name: str, kind: Any) -> Any:
    if kind.kind() == "OptionalType":
        return None if value is None else _as_typed(value, name, kind.containedTypes()[0])
    if kind.kind() == "TensorType":
        return _as_tensor(value, name)
    if kind.kind() == "FloatType" and type(value) is int:
        return float(value)
    if kind.kind() == "TupleType" and isinstance(value, (list, tuple)):
        return tuple(_as_typed(v, name, k) for v, k in zip(value, kind.containedTypes(), strict=True))
    if kind.kind() == "ListType" and isinstance(value, (list, tuple)):
        return [_as_typed(v, name, kind.containedTypes()[0]) for v in value]
    wanted = {"IntType": int, "FloatType": float, "BoolType": bool, "StringType": str}.get(kind.kind())
    if wanted is None or type(value) is not wanted:
        raise UsageError(f"the input {name} is a {kind.annotation_str}, which {shown_value(value)} is not")
    return value


def _check_constants(program: ExportedProgram, fixed: Mapping[str | int, Any]) -> None:
    """Raise `UsageError` unless the program was captured with exactly these values."""
    users = [s.arg for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    constants = {a.name: a.value for a in users if type(a).__name__ == "ConstantArgument"}
    for name, value in fixed_by_name([a.name for a in users if hasattr(a, "name")], fixed).items():
        if name not in constants or constants[name] != value:
            was = f"with {constants[name]!r}" if name in constants else "with a tensor or number that may change"
            raise UsageError(
                f"the program was captured {was} for {name}, which {shown_value(value)} does not fit",
                hint="leave that --input out, or capture the module again with this value",
            )
