"""Finds the classes of a trusted pickle in the user's script, and selects among the modules in a file."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from convert.errors import BadInput, UsageError
from convert.outcome.extras import install_command
from convert.outcome.report import Report
from convert.request.options import Options

from .checkpoint import is_average, nested_modules, places_note
from .factory import factory, named_code
from .hugging_face_tasks import PART

_SCRIPT = "__main__"
"""The module in which pickles look for the classes of the script that wrote them."""


def unpickler(options: Options) -> Any:
    """Return a replacement for Python's `pickle` that finds classes in the files of `--model` and `--code`.

    Classes of `__main__`, and of a module named like a file, are those of the file. Raises `UsageError` if `--model`
    names nothing.
    """
    files = {Path(file).stem: vars(sys.modules[Path(file).stem]) for file in options.code}
    if options.model:
        files[Path(options.model.rpartition(":")[0]).stem] = dict(named_code(options.model)[1])

    class Unpickler(pickle.Unpickler):
        def find_class(self, place: str, name: str, /) -> Any:
            first, *rest = name.split(".")
            # This includes a script inside a package: `project.nets` is the file nets.py.
            own = [*files.values()] if place == _SCRIPT else [files.get(place.rpartition(".")[2], {})]
            found = next((names[first] for names in own if first in names), None)
            if found is None:
                return super().find_class(place, name)
            for part in rest:
                found = getattr(found, part)
            return found

    return SimpleNamespace(
        **{**vars(pickle), "Unpickler": Unpickler, "load": lambda *a, **k: Unpickler(*a, **k).load()}
    )


def code_hint(needed: Sequence[str], options: Options) -> str:
    """Return the options that name the files whose classes a pickle needs; "" if they are given, or none is needed.

    needed: the names in the pickle. `--model` names a script's classes, and selects among several modules; `--code`
    names those of a module that cannot be imported here.
    """
    own = [name.removeprefix(f"{_SCRIPT}.") for name in needed if name.startswith(f"{_SCRIPT}.")]
    if own and not options.model and not options.code:
        return f"--model FILE.py:{own[-1]}, where FILE.py is the script that defines {', '.join(own[:4])}"
    given = {Path(file).stem for file in options.code} | {Path(options.model.rpartition(":")[0]).stem}
    lacking = [name for name in needed if _is_lacking(name) and _module_of(name).rpartition(".")[2] not in given]
    if not lacking:
        return ""
    stems = dict.fromkeys(_module_of(name).rpartition(".")[2] for name in lacking)
    files = " ".join(f"--code {_existing_file(stem)}" for stem in stems)
    return f"{files}, which defines {', '.join(lacking[:4])}"


def _is_lacking(name: str) -> bool:
    """Return whether a class belongs to a module that is not installed; nothing is imported to find out."""
    top = name.partition(".")[0]
    if top == _SCRIPT or "." not in name:
        return False
    try:
        return top not in sys.modules and importlib.util.find_spec(top) is None
    except (ImportError, ValueError):
        return False


def _module_of(name: str) -> str:
    """Return the module in the name of a class, which may be nested: `train` for `train.Scorer.Head`."""
    parts = name.split(".")
    return ".".join(takewhile(lambda part: not part[:1].isupper(), parts[:-1])) or parts[0]


def _existing_file(stem: str) -> str:
    """Return the file of a module, as the user would type it."""
    return f"{stem}.py" if Path(f"{stem}.py").is_file() else f"FOLDER/{stem}.py"


DAMAGED = "the file may be damaged: get it again"


def missing_class_hint(error: Exception, needed: Sequence[str], options: Options) -> str:
    """Return the hint for a trusted file that PyTorch cannot load: the files that define the `needed` classes."""
    if isinstance(error, (AttributeError, ImportError)):
        if hint := code_hint(needed, options):
            return f"add {hint}"
        absent = str(error.name) if isinstance(error, ModuleNotFoundError) else ""
        lacking = [name for name in needed if absent and name.startswith(f"{absent}.")]
        if absent:
            return f"{install_command(absent)}, which {', '.join(lacking[:4]) or 'its code'} needs"
        return "the code here is not that which saved the file: name the file of that one with --code FILE.py"
    return DAMAGED


def chosen_module(path: Path, content: Any, options: Options, report: Report) -> torch.nn.Module:
    """Return the module in a file; of several, the one at `--part`, or the only one of `--model`'s class.

    Averages over training (`ema`) count only if there is nothing else. Raises `BadInput` if the file has no module, and
    `UsageError` if it has several and the choice is open.
    """
    modules = nested_modules(content)
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
    """Return the paths of the modules with the class that `--model` names; all paths if no module has that class."""
    wanted = factory(options.model) if options.model and len(modules) > 1 else None
    name = wanted.__name__ if isinstance(wanted, type) else None
    return [p for p, module in modules.items() if type(module).__name__ == name] or list(modules)
