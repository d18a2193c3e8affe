"""Gets a PyTorch model out of a file without executing what the file contains, unless that is trusted."""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from convert.errors import BadInput, ConvertError, UnsafeInput, UsageError
from convert.files import pickle_scan
from convert.files.archive_layout import check_checksums
from convert.files.pickle_opcodes import read_pickle
from convert.files.storages import check_storages
from convert.options import Options
from convert.report import Report
from convert.runners.quiet_import import silent
from convert.runners.sandbox import in_confined_thread
from convert.source import Source

from ..common.modes import note_training, refuse_cycles
from ..inputs.fixed_values import fixed_by_name, note_fixed, with_fixed_values
from .custom_operators import declare_operators
from .hugging_face import is_hugging_face, load_folder, with_plain_forward
from .legacy import is_legacy, load_legacy
from .pt2_archive import read_exported
from .torchscript_safety import custom_operators, refuse_damaged_debug_info, refuse_unsafe

NESTED = (
    "state_dict",
    "model_state_dict",
    "model",
    "module",
    "net",
    "network",
    "ema",
    "model_ema",
    "params",
    "params_ema",
    "generator",
    "weights",
)
"""The keys under which checkpoints keep weights or a module, in the order they are looked at."""


def load(source: Source, options: Options, report: Report | None = None) -> Any:
    """A module in eval mode, an ExportedProgram or a ScriptModule.

    Raises `BadInput`, `UnsafeInput` (executing the file would be needed and `options.trust` is not set) and
    `UsageError` (a factory is missing).
    """
    report = report or Report("load")
    loaders: dict[str, Callable[[], Any]] = {
        "torch-module": lambda: _load_module(source.file, options, report),
        "torch-state-dict": lambda: _build_with_factory(source, _state_dict(source.file, options), options, report),
        "safetensors": lambda: _build_with_factory(source, _load_safetensors(source.file), options, report),
        "torchscript": lambda: _load_torchscript(source.file, options.trust),
        "hf-folder": lambda: load_folder(source.file, options, report),
        "torch-export": lambda: read_exported(source.file, options.trust),
    }
    if source.path is not None and source.kind in _ARCHIVES:
        _check_archive(source.file, options, report)
    thing = loaders[source.kind]() if source.path is not None else source.model
    if type(thing).__name__ == "OptimizedModule":  # torch.compile's, around the module that has the names
        thing = thing._orig_mod
    if isinstance(thing, torch.nn.Module):
        refuse_cycles(thing)
        note_training(thing, report)
    if is_hugging_face(source):
        note_fixed(fixed_by_name([], options.fixed, variadic=True), report)
        return with_plain_forward(thing, options)
    # An object in memory keeps the mode its owner left it in: whoever runs it restores that.
    if source.path is not None and isinstance(thing, torch.nn.Module):
        thing.eval()
    return with_fixed_values(thing, options.fixed, report) if options.fixed else thing


_ARCHIVES = ("torch-module", "torch-state-dict", "torchscript", "torch-export")


def _check_archive(path: Path, options: Options, report: Report) -> None:
    """Hold what a zip archive brings against its checksums, and its tensors against its bytes unless it is trusted."""
    if is_legacy(path):
        return
    if not options.trust:
        check_storages(path)
    if not check_checksums(path):
        report.note(f"{path.name} was written without checksums: a change of its weights cannot be noticed")


# -- pickles ----------------------------------------------------------------------------------------------------------


def _load_module(path: Path, options: Options, report: Report) -> torch.nn.Module:
    data = read_pickle(pickle_scan.torch_pickle_bytes(path))
    found = list(data.globals)
    unsafe = sorted({*pickle_scan.unsafe_globals(found), *pickle_scan.unsafe_calls(data.called)})
    classes = [_layer_class(name) for name in found if pickle_scan.is_layer(name)] if not unsafe else []
    refused = unsafe or [name for name, kind in classes if kind is None]
    if refused and not options.trust:
        raise UnsafeInput(
            f"{path} is a pickle that needs {', '.join(refused[:12])}{' …' if len(refused) > 12 else ''}; "
            "loading it would execute code of the file's choice",
            hint="if you trust it, add --trust; else save the weights alone (module.state_dict()) and give "
            "--model pkg.mod:factory",
        )
    extra = [(kind, name) for name, kind in classes if kind is not None] + _known_functions(found)
    thing = _torch_load(path, None if refused else extra)
    module = _find_nested(thing, lambda value: isinstance(value, torch.nn.Module))
    if module is None:
        raise BadInput(
            f"{path} holds no torch.nn.Module", hint="give the factory of the module with --model pkg.mod:factory"
        )
    if module is not thing:
        report.note("the module was taken from inside a checkpoint")
    return module


def _layer_class(name: str) -> tuple[str, type | None]:
    """A class of torch.nn.modules by name; None where that is not a module's class after all."""
    place, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(place), attribute, None) if _module_exists(place) else None
    return name, found if isinstance(found, type) and issubclass(found, torch.nn.Module) else None


def _module_exists(place: str) -> bool:
    try:
        return importlib.util.find_spec(place) is not None
    except (ImportError, ValueError):
        return False


def _known_functions(names: list[str]) -> list[tuple[Any, str]]:
    """The functions of torch.nn.functional that layers keep as an attribute."""
    known = {
        "torch.nn.functional.relu": torch.nn.functional.relu,
        "torch.nn.functional.gelu": torch.nn.functional.gelu,
        "torch._C._nn.gelu": torch._C._nn.gelu,
    }
    return [(known[name], name) for name in names if name in known]


def _torch_load(path: Path, allowed: list[tuple[Any, str]] | None) -> Any:
    """`torch.load` restricted to plain data and the classes `allowed`, or unrestricted for None (trusted)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            legacy = is_legacy(path)
            if allowed is None:
                return torch.load(path, map_location="cpu", weights_only=False, mmap=not legacy)
            with torch.serialization.safe_globals([*allowed]):
                if legacy:
                    return load_legacy(path)
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:
            text = " ".join(str(error).split())[:400]
            raise BadInput(
                f"{path} could not be loaded: {type(error).__name__}: {text}",
                hint="the file may be damaged, or need a module that is not installed",
            ) from error


def _state_dict(path: Path, options: Options) -> Mapping[str, torch.Tensor]:
    unsafe = pickle_scan.unsafe_globals(pickle_scan.pickled_globals(pickle_scan.torch_pickle_bytes(path)))
    thing = _torch_load(path, None if options.trust and unsafe else [])
    state = _find_nested(thing, _is_state)
    if state is None:
        raise BadInput(f"{path} holds no state dict", hint="save one with torch.save(module.state_dict(), path)")
    return state


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(k, str) for k in value)
        and any(isinstance(v, torch.Tensor) for v in value.values())
    )


def _find_nested(thing: Any, wanted: Callable[[Any], bool], depth: int = 3) -> Any:
    """What is wanted, itself or under one of the usual keys of a checkpoint, then under any."""
    if wanted(thing):
        return thing
    if not isinstance(thing, Mapping) or depth == 0:
        return None
    keys = [k for k in NESTED if k in thing] + [k for k in thing if k not in NESTED]
    for key in keys:
        found = _find_nested(thing[key], wanted, depth - 1)
        if found is not None:
            return found
    return None


# -- weights and their factory ----------------------------------------------------------------------------------------


def _load_safetensors(path: Path) -> Mapping[str, torch.Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise ConvertError(
            "reading .safetensors needs the package safetensors", hint="pip install safetensors"
        ) from None
    try:
        return load_file(path)
    except Exception as error:
        raise BadInput(f"{path} is not a readable safetensors file: {error}", hint="get the file again") from error


def _build_with_factory(source: Source, state: Mapping[str, Any], options: Options, report: Report) -> torch.nn.Module:
    if not options.model:
        raise UsageError(
            f"{source.label} holds weights only, not the code that uses them",
            hint="name the function or class that builds the module: --model pkg.mod:factory or file.py:factory",
        )
    module = factory(options.model)()
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"--model {options.model} gave a {type(module).__name__}, not a torch.nn.Module")
    state = {k: v for k, v in state.items() if isinstance(v, torch.Tensor)}
    if state and all(key.startswith("module.") for key in state) and not hasattr(module, "module"):
        state = {key.removeprefix("module."): value for key, value in state.items()}
        report.note("the weights were saved from DataParallel: the prefix 'module.' was taken off their names")
    try:
        missing, unexpected = module.load_state_dict(state, strict=False, assign=True)
    except RuntimeError as error:
        raise BadInput(
            f"the weights in {source.label} do not fit {options.model}: {' '.join(str(error).split())[:600]}",
            hint="check that --model builds the same architecture",
        ) from error
    if missing or unexpected:
        parts = [
            f"{what} {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
            for what, names in (("missing:", missing), ("unexpected:", unexpected))
            if names
        ]
        raise BadInput(
            f"the weights in {source.label} do not fit {options.model}; {'; '.join(parts)}",
            hint="check that --model builds the same architecture",
        )
    return module


def factory(text: str) -> Callable[[], Any]:
    """The callable that `pkg.mod:name` or `file.py:name` names. Raises `UsageError` if it cannot be found.

    Importing it runs the user's own code, which is what `--model` asks for.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"--model {text!r} does not name a function", hint="write pkg.mod:factory or file.py:factory")
    try:
        if place.endswith(".py"):
            found: Any = runpy.run_path(place)[name]
        else:
            if "" not in sys.path and str(Path.cwd()) not in sys.path:
                sys.path.insert(0, str(Path.cwd()))
            found = importlib.import_module(place)
            for part in name.split("."):
                found = getattr(found, part)
    except (ImportError, OSError, KeyError, AttributeError) as error:
        raise UsageError(
            f"--model {text}: {type(error).__name__}: {error}",
            hint="check the spelling, and that the module can be imported from here",
        ) from error
    return found


# -- programs ---------------------------------------------------------------------------------------------------------


def _load_torchscript(path: Path, trust: bool) -> Any:
    if not trust:
        refuse_unsafe(path)
    refuse_damaged_debug_info(path)
    unknown = declare_operators(custom_operators(path))
    if unknown:
        raise BadInput(
            f"{path} calls operators that no library here has registered: {', '.join(unknown)}",
            hint="import the library that defines them in a file of rules, and give that with --rules FILE",
        )

    def loaded() -> Any:
        return torch.jit.load(path, map_location="cpu")

    with warnings.catch_warnings(), silent(1, 2):  # a __setstate__ may print
        warnings.simplefilter("ignore")
        try:
            return loaded() if trust else in_confined_thread(loaded)
        except Exception as error:
            raise BadInput(
                f"{path} could not be read as TorchScript: {' '.join(str(error).split())[:400]}",
                hint="the file may be damaged, or made by a newer PyTorch",
            ) from error
