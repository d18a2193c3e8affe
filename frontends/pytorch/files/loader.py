"""Loads a PyTorch model from a file without executing what the file contains, unless that is trusted."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import re
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from convert.errors import BadInput, ConvertError, UnsafeInput, UsageError
from convert.files import pickle_scan
from convert.files.archive_layout import check_checksums
from convert.files.legacy_storages import check_legacy_storages
from convert.files.pickle_opcodes import Pickle, read_pickle, refuse_unfolding
from convert.files.scratch import place_of_temporary_files
from convert.files.storages import check_storages
from convert.outcome.report import Report
from convert.processes.quiet_import import silent
from convert.processes.sandbox import in_confined_thread
from convert.request.options import Options
from convert.request.source import Source

from ..common.modes import note_training, refuse_cycles, refuse_odd_forward
from ..inputs.fixed_values import fixed_by_name, note_fixed, with_fixed_values, with_keywords, with_nested_inputs
from ..torch_internals import gelu, own_buffers, own_parameters, own_parts, without_compiler
from .checkpoint import hyper_parameters, stand_ins, state_dicts
from .code_folder import load_code
from .custom_operators import declare_operators
from .diffusers_folder import KIND as DIFFUSERS
from .diffusers_folder import component_folder, is_of_transformers, load_component, note_left_out
from .diffusers_parts import with_diffusers_forward
from .factory import build_with_factory
from .hugging_face import is_hugging_face, load_folder, with_plain_forward
from .hugging_face_adapter import merge_adapter
from .hugging_face_counts import check_counts
from .hugging_face_safety import check_folder, pickled_weights
from .hugging_face_sentences import pickled_module_weights
from .hugging_face_tasks import ADAPTER, TASK, has_sentence_modules
from .legacy import is_legacy, load_legacy
from .old_torchscript import is_old, rewritten
from .pickled_modules import DAMAGED, chosen_module, code_hint, missing_class_hint, unpickler
from .prepacked_torchscript import is_prepacked, unpacked
from .pt2_archive import read_exported
from .safetensors_file import read_safetensors
from .torchscript_safety import custom_operators, refuse_damaged_debug_info, refuse_unsafe

_ODD = re.compile(r"[\"'\\\x00-\x1f]")


def load(source: Source, options: Options, report: Report | None = None, *, keep_mode: bool = False) -> Any:
    """Return a module in eval mode, an ExportedProgram or a ScriptModule.

    keep_mode: leave a file's module in the mode in which it was saved. Raises `BadInput`, `UnsafeInput` (the file would
    have to be executed and `options.trust` is not set) and `UsageError` (a factory is missing).
    """
    report = report or Report("load")
    if ADAPTER.of(options) and source.kind != "hf-folder":
        raise UsageError("--adapter belongs to a Hugging Face folder", hint="leave it out, or give the model's folder")
    loaders: dict[str, Callable[[], Any]] = {
        "torch-module": lambda: _load_module(source, options, report),
        "torch-state-dict": lambda: build_with_factory(source, *_load_checkpoint(source, options), options, report),
        "safetensors": lambda: build_with_factory(source, *_load_checkpoint(source, options), options, report),
        "torchscript": lambda: _load_torchscript(source.file, options.trust),
        "hf-folder": lambda: _load_folder(source.file, options, report),
        DIFFUSERS: lambda: _load_component(source.file, options, report),
        "torch-export": lambda: read_exported(source.file, options.trust),
        "torch-code": lambda: load_code(source, options.trust),
    }
    if source.path is not None and source.kind in ARCHIVES:
        check_archive(source.file, options, report)
    # Otherwise PyTorch uses indices of sparse tensors unchecked, and writes where they point.
    with torch.sparse.check_sparse_tensor_invariants(True):
        loaded = loaders[source.kind]() if source.path is not None else source.model
    loaded = without_compiler(loaded)
    if type(loaded) is torch.nn.DataParallel:  # its forward has no named inputs
        loaded = _wrapped(loaded, source)
    if isinstance(loaded, torch.nn.Module):
        refuse_cycles(loaded)
        refuse_odd_forward(loaded)
        note_training(loaded, report)
    if is_hugging_face(source):
        note_fixed(fixed_by_name([], options.fixed, variadic=True), report)
        if source.kind == DIFFUSERS:
            return with_diffusers_forward(loaded, source.file, component_folder(source.file, options), options)
        return with_plain_forward(loaded, options)
    # An object in memory keeps its mode; the code that runs it restores the mode.
    if source.path is not None and isinstance(loaded, torch.nn.Module) and not keep_mode:
        loaded.eval()
    if isinstance(loaded, torch.nn.Module) and not isinstance(loaded, torch.jit.ScriptModule):
        loaded = with_keywords(loaded, options)
        loaded = with_nested_inputs(loaded, options.nested_inputs, report) if options.nested_inputs else loaded
    return with_fixed_values(loaded, options.fixed, report) if options.fixed else loaded


def _wrapped(parallel: torch.nn.DataParallel[Any], source: Source) -> torch.nn.Module:
    found = own_parts(parallel).get("module")
    if found is None:
        raise BadInput(f"{source.label} has a DataParallel without a module", hint="get the file again")
    return found


ARCHIVES = ("torch-module", "torch-state-dict", "torchscript", "torch-export")
"""Kinds of files that `torch.save` and similar functions write."""


def check_archive(path: Path, options: Options, report: Report) -> None:
    """Verify a zip archive's checksums, and the tensors of any file against its bytes unless it is trusted."""
    if is_legacy(path):
        if not options.trust:
            check_legacy_storages(path)
        return
    if not options.trust:
        check_storages(path)
    if not check_checksums(path):
        report.note(
            f"{path.name} was written without checksums: a change of its weights cannot be noticed", code="no-checksums"
        )


def _load_folder(path: Path, options: Options, report: Report) -> torch.nn.Module:
    if not options.trust:
        check_folder(path)
        check_counts(path)
    sentences = has_sentence_modules(path, TASK.of(options))
    for file in [*pickled_weights(path), *(pickled_module_weights(path) if sentences else ())]:
        check_archive(file, options, report)
    model = load_folder(path, options, report)
    if adapter := ADAPTER.of(options):
        merge_adapter(model, Path(adapter), report)
    return model


def _load_component(path: Path, options: Options, report: Report) -> torch.nn.Module:
    """Return the requested model of a diffusers folder."""
    folder = component_folder(path, options)
    note_left_out(path, report)
    if not options.trust:
        check_folder(folder)
        check_counts(folder)
    for file in pickled_weights(folder):
        check_archive(file, options, report)
    return (load_folder if is_of_transformers(folder) else load_component)(folder, options, report)


# -- pickles ----------------------------------------------------------------------------------------------------------


def _read_saved(path: Path) -> Pickle:
    data = read_pickle(pickle_scan.torch_pickle_bytes(path))
    refuse_unfolding(data.top)
    return data


def _load_module(source: Source, options: Options, report: Report) -> torch.nn.Module:
    path = source.file
    data = _read_saved(path)
    found = list(data.globals)
    if "torch.ScriptObject" in found and is_legacy(path):
        raise BadInput(
            f"{path} has layers with packed weights, such as quantized ones, whose weights are not in it: torch.save "
            "loses them with _use_new_zipfile_serialization=False, and PyTorch loads other numbers each time",
            hint="save the module again with torch.save as it is",
        )
    unsafe = sorted({*pickle_scan.unsafe_globals(found), *pickle_scan.unsafe_calls(data.called)})
    classes = [_layer_class(name) for name in found if pickle_scan.is_layer(name)] if not unsafe else []
    refused = unsafe or [name for name, kind in classes if kind is None]
    if refused and options.model and not options.trust and (states := _weights_as_data(path)):
        return build_with_factory(source, states, {}, options, report)
    if refused and not options.trust:
        own = code_hint(found, options)
        raise UnsafeInput(
            f"{path} is a pickle that needs {', '.join(refused[:12])}{' …' if len(refused) > 12 else ''}; "
            "loading it would execute code of the file's choice",
            hint=f"if you trust it, add --trust{own and f' and {own}'}; else save the weights alone "
            "(module.state_dict()) and give --model pkg.mod:factory",
        )
    extra = [(kind, name) for name, kind in classes if kind is not None] + _known_functions(found)
    code = unpickler(options) if refused and (options.model or options.code) else pickle
    loaded = _torch_load(
        path, None if refused else extra, code, lambda error: missing_class_hint(error, found, options)
    )
    module = chosen_module(path, loaded, options, report)
    if not options.trust:
        _refuse_odd_names(module, path)
    return module


def _refuse_odd_names(module: torch.nn.Module, path: Path) -> None:
    """Raise `UnsafeInput` for a name that would end its quotes in code that PyTorch generates."""
    try:
        tables = [table(part) for part in module.modules() for table in (own_parts, own_parameters, own_buffers)]
        names = {str(name) for table in tables for name, _ in table.items()}
    except (AttributeError, TypeError, RecursionError) as error:
        raise BadInput(f"{path} holds a module without its parts: {error}", hint="get the file again") from error
    if odd := sorted(name for name in names if _ODD.search(name)):
        raise UnsafeInput(f"{path} has layers or weights called {odd[0][:200]!r}", hint="if you trust it, add --trust")


def _layer_class(name: str) -> tuple[str, type | None]:
    """Return a class of torch.nn.modules by name; None if it is not a module's class."""
    place, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(place), attribute, None) if _module_exists(place) else None
    return name, found if isinstance(found, type) and issubclass(found, torch.nn.Module) else None


def _module_exists(place: str) -> bool:
    try:
        return importlib.util.find_spec(place) is not None
    except (ImportError, ValueError):
        return False


def _known_functions(names: list[str]) -> list[tuple[Any, str]]:
    """Return the functions that pickled layers name, most of which are arguments that they keep as attributes."""
    known = {
        pickle_scan.OLD_BACKEND: lambda: None,
        "torch.nn.functional.relu": torch.nn.functional.relu,
        "torch.nn.functional.gelu": torch.nn.functional.gelu,
        "torch._C._nn.gelu": gelu,
    }
    return [(known[name], name) for name in names if name in known]


def _torch_load(
    path: Path,
    allowed: list[tuple[Any, str]] | None,
    pickle_module: Any = pickle,
    hint: Callable[[Exception], str] = lambda _: DAMAGED,
) -> Any:
    """Return the result of `torch.load` with plain data and the classes `allowed`, or with anything for None (trusted).

    pickle_module: finds the classes of a trusted file. hint: returns a hint for an exception. Raises `BadInput`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            legacy = is_legacy(path)
            if allowed is None:
                return torch.load(
                    path, map_location="cpu", weights_only=False, mmap=not legacy, pickle_module=pickle_module
                )
            with torch.serialization.safe_globals([*allowed]):
                if legacy:
                    return load_legacy(path)
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:
            text = " ".join(str(error).split())[:400]
            raise BadInput(f"{path} could not be loaded: {type(error).__name__}: {text}", hint=hint(error)) from error


def load_weights(source: Source, options: Options) -> list[tuple[str, Mapping[str, torch.Tensor]]]:
    """Return the dicts of tensors in a file of weights, each with its path in it, the likeliest first.

    Other content is data that nobody interprets. Raises `BadInput` if there are none.
    """
    return _load_checkpoint(source, options)[0]


def _load_checkpoint(
    source: Source, options: Options
) -> tuple[list[tuple[str, Mapping[str, torch.Tensor]]], dict[str, Any]]:
    """Return the result of `load_weights`, and the Python arguments that the module was created with, by name."""
    path = source.file
    if source.kind == "safetensors":
        return [("", read_safetensors(path))], {}
    data = _read_saved(path)
    trusted = options.trust and bool(pickle_scan.unsafe_globals(data.globals))
    loaded = _torch_load(path, None if trusted else stand_ins(data))
    found = list(state_dicts(loaded))
    if not found:
        raise BadInput(f"{path} holds no state dict", hint="save one with torch.save(module.state_dict(), path)")
    return found, hyper_parameters(loaded)


def _weights_as_data(path: Path) -> list[tuple[str, Mapping[str, torch.Tensor]]]:
    """Return the dicts of tensors next to a module that cannot be loaded; empty if there are none."""
    data = _read_saved(path)
    try:
        return list(state_dicts(_torch_load(path, stand_ins(data))))
    except BadInput:
        return []


# -- programs ---------------------------------------------------------------------------------------------------------


def _load_torchscript(path: Path, trust: bool) -> Any:
    rewrite = rewritten if is_old(path) else unpacked if is_prepacked(path) else None
    if rewrite is None:
        return _load_current_torchscript(path, trust)
    with tempfile.TemporaryDirectory(dir=place_of_temporary_files()) as folder:
        archive = rewrite(path, Path(folder))
        try:
            check_storages(archive)
            return _load_current_torchscript(archive, trust)
        except ConvertError as error:
            error.message = error.message.replace(str(archive), str(path))
            raise


def _load_current_torchscript(path: Path, trust: bool) -> Any:
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
