"""Builds the module for a file of weights by the user's factory, and loads the weights into it."""

from __future__ import annotations

import ast
import importlib
import inspect
import runpy
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from convert.errors import BadInput, ConvertError, UsageError
from convert.files.missing import near_path
from convert.outcome.report import Report
from convert.request.given_inputs import parse_model_args
from convert.request.nearest import names_hint, nearest
from convert.request.options import Options
from convert.request.source import Source

from .checkpoint import is_average, places_note, tensors_of
from .hugging_face_tasks import PART
from .weight_names import WRAPPER_PREFIXES, Match, match_names, needed_names, rename_weights, shortened_names


def build_with_factory(
    source: Source,
    states: Sequence[tuple[str, Mapping[str, Any]]],
    arguments: Mapping[str, Any],
    options: Options,
    report: Report,
) -> torch.nn.Module:
    """Return the module of `--model` with the first of `states` (path in the file, weights by name) that fits it.

    `arguments` are those that the file says it was created with; the factory gets those that it has parameters for.
    Raises `UsageError` without a factory, `BadInput` if no weights fit.
    """
    if not options.model:
        raise UsageError(
            f"{source.label} holds weights only, not the code that uses them",
            hint=_folder_hint(source)
            or "name the function or class that builds the module: --model pkg.mod:factory or file.py:factory",
        )
    module = _made_module(factory(options.model), arguments, options, report)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"--model {options.model} gave a {type(module).__name__}, not a torch.nn.Module")
    matches = [(p, tensors, match_names(module, tensors)) for p, tensors in _distinct(_part(source, states, options))]
    fitting = [row for row in matches if row[2].complete]
    # Prefer the trained weights to their average.
    fitting.sort(key=lambda row: is_average(row[0]))
    place, state, match = fitting[0] if fitting else matches[0]
    if not match.complete:
        if _loads_by_itself(module, states, report):
            return module
        raise _unfit_error(source, options, match)
    _note_choice([p for p, _, _ in fitting], place, match, report)
    try:
        module.load_state_dict(_in_one_dtype(module, rename_weights(module, state, match), report), False, True)
    except RuntimeError as error:
        raise BadInput(
            f"the weights in {source.label} do not fit {options.model}: {' '.join(str(error).split())[:600]}",
            hint=f"check that --model builds the same architecture{_arguments_hint(options)}",
        ) from error
    return module


def _made_module(make: Callable[..., Any], arguments: Mapping[str, Any], options: Options, report: Report) -> Any:
    """Return the result of the factory, called with the user's arguments and those in the file.

    Raises `UsageError` if it needs others.
    """
    parameters = _parameters(make)
    if parameters is None:
        return _called(make, options.model_args, options)
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names = [p.name for p in named]
    unknown = [name for name in options.model_args if name not in names]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise UsageError(
            f"--model {options.model} takes no argument {unknown[0]!r}",
            hint=names_hint(unknown[0], names, "it takes") if names else "leave out --model-arg",
        )
    found = {p.name: arguments[p.name] for p in named if p.name in arguments and p.name not in options.model_args}
    given = {**found, **options.model_args}
    if lacking := [p.name for p in named if p.default is p.empty and p.name not in given]:
        raise UsageError(
            f"--model {options.model} takes {', '.join(lacking)}, of which the file says nothing",
            hint=f"add {' '.join(f'--model-arg {name}=VALUE' for name in lacking)}",
        )
    if found:
        listed = ", ".join(f"{name}={value!r:.60}" for name, value in found.items())
        report.note(f"{options.model} is called with the file's hyper_parameters: {listed}", code="loaded-as")
    return _called(make, given, options)


def _parameters(make: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters of a callable, None if Python cannot tell."""
    try:
        return list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):
        return None


def _arguments_hint(options: Options) -> str:
    """Return an addition to a hint if the factory has parameters, which may change the architecture."""
    parameters = _parameters(factory(options.model)) or []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return f", or give its arguments: --model-arg {names[0]}=VALUE (it takes {', '.join(names[:12])})" if names else ""


def _called(make: Callable[..., Any], given: Mapping[str, Any], options: Options) -> Any:
    try:
        return make(**given)
    except (ConvertError, MemoryError):
        raise
    except Exception as error:
        raise _own_code_error(f"--model {options.model}", error) from error


def _loads_by_itself(module: torch.nn.Module, states: Sequence[tuple[str, Mapping[str, Any]]], report: Report) -> bool:
    """Return whether the module's own loading accepts the names: it may rename those of older versions (`weight_norm`).

    It may also accept weights that are no tensors (packed ones of quantized layers). If it does, the module is loaded;
    otherwise mismatches are reported with the original names.
    """
    for place, state in states:
        names = shortened_names(state)
        for prefix in WRAPPER_PREFIXES:
            given = {s.removeprefix(prefix): state[n] for s, n in names.items() if s.startswith(prefix)}
            try:
                found = module.load_state_dict(given, strict=False, assign=True)
            except (RuntimeError, LookupError, TypeError, ValueError, AttributeError):  # arbitrary code of the user
                continue
            lacking = set(found.missing_keys) & needed_names(module)
            if given and not lacking and not found.unexpected_keys:
                of = f" of {place}" if place else ""
                report.note(
                    f"the weights{of} were loaded by the module itself, which takes other names than its own",
                    code="weights-prefix",
                )
                return True
    return False


def _in_one_dtype(
    module: torch.nn.Module, weights: Mapping[str, torch.Tensor], report: Report
) -> Mapping[str, torch.Tensor]:
    """Return the weights unchanged, or, for several floating-point dtypes, in those of the module, as PyTorch loads
    them.
    """
    if len({t.dtype for t in weights.values() if t.is_floating_point()}) < 2:
        return weights
    own = {name: t.dtype for name, t in module.state_dict().items() if t.is_floating_point()}
    other = [n for n, t in weights.items() if t.is_floating_point() and own.get(n, t.dtype) != t.dtype]
    if other:
        shown = ", ".join(other[:4]) + (" …" if len(other) > 4 else "")
        report.note(
            f"the weights are of several dtypes: {shown} were cast to those that the module has", code="cast-weights"
        )
    return {**weights, **{name: weights[name].to(own[name]) for name in other}}


def _distinct(states: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, dict[str, torch.Tensor]]]:
    found = [(place, tensors_of(state)) for place, state in states]
    return [(place, tensors) for place, tensors in found if tensors]


def _unfit_error(source: Source, options: Options, match: Match) -> BadInput:
    parts = [
        f"{what} {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
        for what, names in (("missing:", match.missing), ("unexpected:", match.unexpected))
        if names
    ]
    return BadInput(
        f"the weights in {source.label} do not fit {options.model}; {'; '.join(parts)}",
        hint=f"check that --model builds the same architecture{_arguments_hint(options)}",
    )


def _part(
    source: Source, states: Sequence[tuple[str, Mapping[str, Any]]], options: Options
) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Return the states that `--part` names, or all without it. Raises `UsageError` if there are none of that name."""
    part = PART.of(options)
    chosen = [state for state in states if part in (None, "", state[0])]
    if not chosen:
        raise UsageError(
            f"{source.label} has no weights under {part!r}",
            hint=names_hint(str(part), [place for place, _ in states if place], "weights are under"),
        )
    return chosen


def _note_choice(places: Sequence[str], place: str, match: Match, report: Report) -> None:
    """Note which of the file's weights were used, and which prefixes were removed or added.

    Raises `BadInput` if the weights occur twice, under prefixes that do not show which ones are wanted.
    """
    if match.other_prefixes and match.prefix not in WRAPPER_PREFIXES:
        raise BadInput(
            f"the weights fit under {len(match.other_prefixes) + 1} prefixes: "
            + ", ".join((match.prefix, *match.other_prefixes)),
            hint="save those that are meant alone: torch.save(network.state_dict(), path)",
        )
    others = [p for p in places if p != place]
    if others:
        report.note(
            f"using the weights of {place or 'the file itself'}; --part chooses others that fit: {places_note(others)}",
            code="chosen-part",
        )
    off = [*(f"{part}." for part in match.wrappers if f"{part}." not in match.prefix), match.prefix]
    off = [part for part in off if part]
    by = " (DataParallel)" if "module" in match.wrappers else ""
    if off:
        report.note(
            f"the prefix {' and '.join(map(repr, off))} was taken off the names of the weights{by}",
            code="weights-prefix",
        )
    if match.added:
        report.note(f"the prefix {match.added!r} was put before the names of the weights", code="weights-prefix")
    if match.other_prefixes:
        report.note(f"the weights under {', '.join(match.other_prefixes)} would fit too", code="chosen-part")
    if match.beside:
        shown = ", ".join(match.beside[:4]) + (" …" if len(match.beside) > 4 else "")
        report.note(f"{len(match.beside)} tensors beside the weights were left: {shown}", code="unused-weights")


def factory(text: str) -> Callable[[], Any]:
    """Return the callable that `pkg.mod:name` or `file.py:name` names. Raises `UsageError` if it cannot be found.

    Importing it runs the user's own code, which is what `--model` asks for.
    """
    return named_code(text)[0]


def named_code(text: str) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    """Return the callable that `pkg.mod:name` or `file.py:name` names, and all names of its module.

    Raises `UsageError` if it cannot be found.
    """
    place, colon, name = text.partition("(")[0].rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"--model {text!r} does not name a function", hint=_defined_hint(text))
    if "(" in text:
        call = text.removeprefix(f"{place}:")
        raise UsageError(f"--model {text!r} calls a function, and names none", hint=_without_call(place, call))
    if place.endswith(".py") and not Path(place).is_file():
        near = near_path(Path(place))
        raise UsageError(
            f"--model {text}: there is no file {place}",
            hint=f"did you mean --model {near}:{name}?" if near else f"name the file: --model FILE.py:{name}",
        )
    names: Mapping[str, Any] = {}
    try:
        if place.endswith(".py"):
            names = runpy.run_path(place)
        else:
            if "" not in sys.path and str(Path.cwd()) not in sys.path:
                sys.path.insert(0, str(Path.cwd()))
            names = vars(importlib.import_module(place))
        found: Any = names[name.split(".")[0]]
        for part in name.split(".")[1:]:
            found = getattr(found, part)
    except (ImportError, OSError, KeyError, AttributeError) as error:
        near = nearest(name, [n for n in names if not n.startswith("_")])
        lacking = isinstance(error, KeyError) and error.args == (name.split(".")[0],)
        what = f"{place} does not define {name!r}" if lacking else f"{type(error).__name__}: {error}"
        raise UsageError(
            f"--model {text}: {what}",
            hint=f"did you mean --model {place}:{near}?"
            if near
            else _defined_hint(place)
            if lacking
            else "check the spelling, and that the module can be imported from here",
        ) from error
    except MemoryError:
        raise
    except Exception as error:
        raise _own_code_error(f"--model {text}: what defines it", error) from error
    if not callable(found):
        text = f"--model {text} is a {type(found).__name__}, and nothing to call"
        raise UsageError(text, hint="name a function or class")
    return found, names


def _defined_hint(place: str) -> str:
    """Return a hint that names the functions and classes in a file, which is not run; without a file, the syntax."""
    try:
        tree = ast.parse(Path(place).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return "write pkg.mod:factory or file.py:factory"
    found = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    public = [name for name in found if not name.startswith("_")][:8]
    if not public:
        return f"{place} defines no function or class"
    name = public[0] if len(public) == 1 else f"NAME, where NAME is one of {', '.join(public)}"
    return f"use --model {place}:{name}"


def _folder_hint(source: Source) -> str:
    """Return a hint to name the folder of a Hugging Face model instead of one of its files; else ""."""
    if source.path is None or not (source.path.parent / "config.json").is_file():
        return ""
    return (
        f"name the folder, whose config.json says what the model is: {source.path.parent}; or give the code with "
        "--model file.py:factory"
    )


def _without_call(place: str, call: str) -> str:
    """Return the hint for a call such as `net.py:Net(num_classes=9)`: the options that say the same."""
    name = call.partition("(")[0]
    try:
        tree = ast.parse(call, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    options = [f"--model {place}:{name}"]
    for keyword in tree.keywords if isinstance(tree, ast.Call) else ():
        if keyword.arg is not None:
            value = keyword.value
            content = value.value if isinstance(value, ast.Constant) else None
            bare = isinstance(content, str) and parse_model_args([f"x={content}"]) == {"x": content}
            text = str(content) if bare else ast.unparse(value)
            options.append(f"--model-arg {shlex.quote(f'{keyword.arg}={text}')}")
    if len(options) == 1 and not call.endswith("()"):
        options.append("--model-arg NAME=VALUE")
    return f"give its arguments as options: {' '.join(options)}"


def _own_code_error(what: str, error: Exception) -> UsageError:
    """Return an error for an exception in the user's code: what it was, and in which line."""
    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
    text = " ".join(str(error).split())[:400]
    return UsageError(f"{what} failed with {type(error).__name__}: {text}, at {place}", hint="correct it there")
