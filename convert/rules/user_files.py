"""Loads the user's Python files in every process that needs them: rules, and code with the classes of a model."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from convert.errors import BadInput, UsageError
from convert.files.missing import near_path
from convert.processes.quiet_import import silent
from convert.rules.rule_errors import last_line


def load_rules(files: Iterable[str | Path]) -> tuple[str, ...]:
    """Run Python files that register rules, each once per process; return their absolute paths, for other processes.

    Raises `BadInput` if a file is missing or fails. A file that was changed after it was loaded fails, because its
    operators have rules already.
    """
    found = [_existing(file, "rules file", "--rules") for file in files]
    for path in found:
        _run_file(str(path), path.stat().st_mtime_ns)
    return tuple(map(str, found))


def load_code(files: Iterable[str | Path]) -> tuple[str, ...]:
    """Import Python files under their stems; return their absolute paths, for other processes.

    Pickles then find the classes of `nets.py` as `nets.Net`, and Keras finds those that a file registers. Raises
    `BadInput` if a file is missing or fails, and `UsageError` if an installed module has its name.
    """
    found = [_existing(file, "file of code", "--code") for file in files]
    for path in found:
        _import_file(str(path), path.stat().st_mtime_ns)
    return tuple(map(str, found))


def _existing(file: str | Path, what: str, option: str) -> Path:
    path = Path(file).resolve()
    if not path.is_file():
        near = near_path(Path(file))
        hint = f"did you mean {option} {near}?" if near else f"name a Python file: {option} FILE.py"
        raise BadInput(f"there is no {what} {file}", hint=hint)
    return path


@cache
def _run_file(path: str, changed: int) -> None:
    _find_modules_beside(path)
    try:
        runpy.run_path(path, run_name=f"convert_rules_{Path(path).stem}")
    except (MemoryError, UsageError):  # a second rule for an operator is described with its file already
        raise
    except Exception as error:
        raise _failure("rules file", path, error) from error


_IMPORTED: dict[str, tuple[str, int]] = {}
"""By module name (the file's stem): the file that it was loaded from, and the file's modification time."""


def _import_file(path: str, changed: int) -> None:
    stem = Path(path).stem
    if stem in sys.modules and _IMPORTED.get(stem) == (path, changed):
        return
    if stem not in _IMPORTED and not _is_free(stem, path):
        raise UsageError(
            f"--code {path} would hide the module {stem}, which is installed",
            hint=f"give the file another name, or, if it is the installed {stem} that is needed, leave out --code",
        )
    _find_modules_beside(path)
    spec = importlib.util.spec_from_file_location(stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--code {path} is no file of Python", hint="name a file that ends in .py")
    before = sys.modules.get(stem)
    module = sys.modules[stem] = importlib.util.module_from_spec(spec)
    try:
        with silent(2):  # silences TensorFlow's log output, if the file imports it
            spec.loader.exec_module(module)
    except BaseException as error:
        if before is None:
            del sys.modules[stem]
        else:
            sys.modules[stem] = before
        if isinstance(error, MemoryError) or not isinstance(error, Exception):
            raise
        raise _failure("file of code", path, error) from error
    _IMPORTED[stem] = path, changed


def _is_free(stem: str, path: str) -> bool:
    """Return whether no module is named `stem`, except the one in the file at `path`."""
    module = sys.modules.get(stem)
    try:
        found = module.__spec__ if module is not None else importlib.util.find_spec(stem)
    except (ImportError, ValueError, AttributeError):
        return module is None
    if found is None or found.origin is None:
        return True
    return Path(found.origin).resolve() == Path(path) or Path(found.origin).parent in _BESIDE


_BESIDE: set[Path] = set()
"""Folders of user files, whose modules can be imported."""


def _find_modules_beside(path: str) -> None:
    folder = str(Path(path).parent)
    if folder not in sys.path:
        _BESIDE.add(Path(folder))
        sys.path.append(folder)  # for the user's modules beside it; last, so that it hides no installed module


def _failure(what: str, path: str, error: Exception) -> BadInput:
    line = last_line(error, path)
    where = f"{path}, line {line}," if line else path
    return BadInput(f"the {what} {where} failed: {type(error).__name__}: {error}", hint="correct it there")
