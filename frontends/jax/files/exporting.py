"""Reads programs of jax.export as `Program`s, from files or by exporting functions and modules in memory."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from convert.errors import ConvertError, Unsupported, UsageError
from convert.request.options import InputSpec, Options
from convert.request.source import Source

from ..program import FlatArgument, Program, distinct, io_name
from .modules import open_module
from .opening import deserialize, module_bytes, read_bytes


def open_program(source: Source, options: Options, *, confined: bool = False) -> Program:
    """Return the program in a file or an object. Raises `BadInput`, `ResourceLimit`, `Unsupported`, `UsageError`.

    confined: this process may crash on a damaged file, so no other process has to parse it first.
    """
    if source.kind == "stablehlo":
        return Program(module_bytes(source, confined))
    if source.kind == "jax-export":
        module_bytes(source, confined)
        return program_of(deserialize(read_bytes(source.file), source.label))
    if source.kind == "jax-export-object":
        return program_of(source.model)
    if source.kind == "jax-function-object":
        positional, keyword = _arguments(options.inputs, options, source.model)
        return program_of(_export(source.model, (positional, keyword)), names=_given_names(options.inputs, keyword))
    opened = open_module(source.model, options.inputs)
    positional, keyword = _arguments(opened.inputs, options, opened.signature)
    exported = _export(opened.function, (positional, keyword), [array for _, array in opened.weights])
    program = program_of(exported, dict(opened.weights), _given_names(opened.inputs, keyword))
    return dataclasses.replace(program, outputs=opened.outputs, notes=opened.notes)


def _given_names(specs: Sequence[InputSpec], keyword: Mapping[str, Any]) -> list[str]:
    return [str(s.name) for s in specs] if all(s.name for s in specs) and not keyword else []


def program_of(exported: Any, weights: Mapping[str, Any] | None = None, names: Sequence[str] = ()) -> Program:
    """Return an `Exported` as a program. Raises `Unsupported` for programs with effects, or for several devices.

    names: the user's names of the inputs, one for each.
    """
    if exported.ordered_effects or exported.unordered_effects:
        raise Unsupported("a program with effects, such as callbacks", hint="export it without them")
    if exported.nr_devices > 1:
        raise Unsupported(f"a program for {exported.nr_devices} devices", hint="export it for one device")
    kept = set(exported.module_kept_var_idx)
    known = [*(weights or {}), *names]
    names = distinct(known) if len(known) == len(exported.in_avals) else input_names(exported, list(weights or {}))
    inputs = [
        FlatArgument(
            name, str(aval.dtype), tuple(d if isinstance(d, int) else str(d) for d in aval.shape), number in kept
        )
        for number, (name, aval) in enumerate(zip(names, exported.in_avals, strict=True))
    ]
    content = {name: np.asarray(array) for name, array in (weights or {}).items()}
    return Program(exported.mlir_module_serialized, tuple(inputs), (), content, exported, tuple(exported.platforms))


def input_names(exported: Any, weights: Sequence[str] = ()) -> list[str]:
    """Return a name for each flat argument: its path in the arguments, which begins with the parameter if that is
    known.
    """
    import jax

    count = len(exported.in_avals)
    try:
        tree = jax.tree_util.tree_unflatten(exported.in_tree, list(range(count)))
        paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    except Exception:  # any exception: the user's own class, whose leaves are no arrays here
        return distinct([f"arg{i}" for i in range(count)])
    parameters = _parameter_names(exported)
    names = []
    for number, path in enumerate(paths):
        if number < len(weights):
            names.append(weights[number])
            continue
        first = path[1] if len(path) > 1 else path[0]
        place = getattr(first, "idx", None)
        root = str(getattr(first, "key", place))
        if getattr(path[0], "idx", 0) == 0 and place is not None:
            root = parameters.get(number, f"arg{place - (1 if weights else 0)}")
        names.append(io_name(root + jax.tree_util.keystr(path[2:]), f"arg{number}"))
    return distinct(names)


def _parameter_names(exported: Any) -> dict[int, str]:
    """Return the parameter of the function that each flat argument belongs to, according to the module's locations."""
    from ..walker import Walker
    from .parsing import parse_module
    from .signature import argument_names

    walker = Walker(parse_module(exported.mlir_module_serialized, "the exported program"))
    found_names = argument_names(walker)
    kept = list(exported.module_kept_var_idx)
    found_names = found_names[-len(kept) :] if kept else []
    roots = {}
    for number, name in zip(kept, found_names, strict=False):
        root = name.partition("[")[0].partition(".")[0]
        if root.isidentifier() and root not in ("args", "kwargs"):
            roots[number] = root
    return roots


def _arguments(inputs: Sequence[InputSpec], options: Options, model: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and keyword arguments for exporting, from specs of inputs or examples. Raises `UsageError`.

    model: a callable whose parameters may have the names of the inputs.
    """
    import jax
    from jax import export

    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    scope = export.SymbolicScope()
    specs = {
        spec.name or str(i): jax.ShapeDtypeStruct(_shape(spec, i, export, scope), np.dtype(spec.dtype or "float32"))
        for i, spec in enumerate(inputs)
    }
    if specs:
        order = _parameters(model)
        ordered = sorted(specs, key=order.index) if set(specs) <= set(order) else list(specs)
        positional = [specs[name] for name in ordered]
    for key, example in options.examples.items() if not specs else ():
        if isinstance(key, int):
            positional.append(example)
        else:
            keyword[key] = example
    if not positional and not keyword and not options.no_inputs:
        raise UsageError(
            "a function of JAX has no shapes before it is called",
            hint='describe its inputs: inputs="x:float32[batch,3]", or give arrays',
        )
    return positional, keyword


def _call(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _lowered_here() -> list[Any]:
    """Return checks to disable: jax.export refuses calls that a later JAX may not run, but they are read here."""
    from jax import export

    from ..rules import stablehlo_op

    importlib.import_module("..ops", __package__)  # fills the table
    targets = [name[1:] for name in stablehlo_op.entries if name.startswith("@")]
    return [export.DisabledSafetyCheck.custom_call(target) for target in targets]


def _parameters(model: Any) -> list[str]:
    """Return the names of a function's parameters; empty if they are unknown."""
    try:
        return list(inspect.signature(model).parameters)
    except (TypeError, ValueError):
        return []


def _shape(spec: InputSpec, place: int, export: Any, scope: Any) -> Any:
    """Return the shape that jax.export takes; a dim without a name or size gets a name that no other input has."""
    if spec.shape is None:
        raise UsageError(f"the input {str(spec)!r} has no shape", hint="write it as x:float32[batch,3]")
    unnamed = "d{}" if place == 0 else f"d{{}}_{place}"
    text = ",".join(
        str(d.size) if d.size is not None else (d.name or unnamed.format(i)) for i, d in enumerate(spec.shape)
    )
    return export.symbolic_shape(text, scope=scope) if text else ()


def _export(function: Any, arguments: tuple[list[Any], dict[str, Any]], weights: Sequence[Any] | None = None) -> Any:
    """Trace a function for the CPU. An exception of JAX becomes a `ConvertError` that quotes it."""
    import jax
    from jax import export

    positional, keyword = arguments
    given = [list(weights), *positional] if weights is not None else positional
    if type(function).__name__ != "PjitFunction":  # also what nnx.jit returns, which jax.export does not take
        function = jax.jit(partial(_call, function))
    try:
        return export.export(function, platforms=["cpu"], disabled_checks=_lowered_here())(*given, **keyword)
    except ConvertError:
        raise
    except Exception as error:  # any exception: it runs the user's code
        text = " ".join(f"{type(error).__name__}: {error}".split())[:600]
        raise UsageError(f"JAX cannot export the function: {text}", hint="call jax.export.export yourself") from error
