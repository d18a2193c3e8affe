"""Finds the classes of a trusted pickle in the user's script, and chooses among the modules that a file holds."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from convert.errors import BadInput, UsageError
from convert.options import Options
from convert.report import Report

from .checkpoint import is_average, nested_modules, places_note
from .factory import factory, named_code
from .hugging_face_tasks import PART

_SCRIPT = "__main__"
"""Where pickles look for the classes of the script that wrote them."""


def unpickler(model: str) -> Any:
    """Return a stand-in for Python's module `pickle` that finds the classes of a script in the file of `--model`.

    Classes of `__main__`, and of the module that the file is called like, are those of the file.
    Raises `UsageError` where `model` names nothing.
    """
    _, names = named_code(model)
    places = {_SCRIPT, Path(model.rpartition(":")[0]).stem}

    class Unpickler(pickle.Unpickler):
        def find_class(self, place: str, name: str, /) -> Any:
            first, *rest = name.split(".")
            if place not in places or first not in names:
                return super().find_class(place, name)
            found = names[first]
            for part in rest:
                found = getattr(found, part)
            return found

    return SimpleNamespace(
        **{**vars(pickle), "Unpickler": Unpickler, "load": lambda *a, **k: Unpickler(*a, **k).load()}
    )


def script_hint(needed: Sequence[str], options: Options, before: str = "") -> str:
    """Return the words of a hint that name the script whose classes a file needs; "" where there is none to name."""
    own = [name.removeprefix(f"{_SCRIPT}.") for name in needed if name.startswith(f"{_SCRIPT}.")]
    if not own or options.model:
        return ""
    return f"{before} --model FILE.py:{own[-1]}, where FILE.py is the script that defines {', '.join(own[:4])}"


DAMAGED = "the file may be damaged, or need a module that is not installed"


def missing_class_hint(error: Exception, needed: Sequence[str], options: Options) -> str:
    """Return the hint for a trusted file of which PyTorch loads nothing: what defines the classes that it `needed`."""
    if isinstance(error, AttributeError) and (script := script_hint(needed, options)):
        return f"add{script}"
    absent = str(error.name) if isinstance(error, ModuleNotFoundError) else ""
    lacking = next((n for n in needed if absent and n.startswith(f"{absent}.")), "")
    if not lacking or options.model:
        return DAMAGED
    place, _, name = lacking.rpartition(".")
    return f"install {absent}, or go to the folder that holds it and add --model {place}:{name}"


def chosen_module(path: Path, thing: Any, options: Options, report: Report) -> torch.nn.Module:
    """Return the module that a file holds; of several the one at `--part`, or the only one of the class of `--model`.

    Averages over training (`ema`) count only where there is nothing else. Raises `BadInput` where the file holds no
    module, and `UsageError` where it holds several and nothing tells which is meant.
    """
    modules = nested_modules(thing)
    if not modules:
        raise BadInput(
            f"{path} holds no torch.nn.Module", hint="give the factory of the module with --model pkg.mod:factory"
        )
    part = PART.of(options)
    if part and part not in modules:
        listed = ", ".join(place for place in modules if place)
        raise UsageError(
            f"{path} holds no module at {part!r}", hint=f"it has {listed}" if listed else "leave out --part"
        )
    fitting = [part] if part else _fitting(modules, options)
    trained = [place for place in fitting if not is_average(place)] or fitting
    if len(trained) > 1:
        listed = ", ".join(f"{place} ({type(modules[place]).__name__})" for place in trained[:12])
        raise UsageError(
            f"{path} holds {len(trained)} modules: {listed}", hint=f"name the one to convert: --part {trained[0]}"
        )
    (place,) = trained
    if place:
        others = [p for p in modules if p != place]
        beside = f"; beside it lie {places_note(others)} (--part)" if others else ""
        report.note(
            f"the module was taken from inside a checkpoint: {place}{beside}",
            code="chosen-part" if others else "loaded-as",
        )
    return modules[place]


def _fitting(modules: dict[str, torch.nn.Module], options: Options) -> list[str]:
    """The places of the modules whose class `--model` names; all where it names none of theirs."""
    wanted = factory(options.model) if options.model and len(modules) > 1 else None
    name = wanted.__name__ if isinstance(wanted, type) else None
    return [p for p, module in modules.items() if type(module).__name__ == name] or list(modules)
