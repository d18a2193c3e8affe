"""Python files of the user's: rules, and code that a model's classes are in, run in every process that needs them."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from convert.errors import BadInput, UsageError
from convert.files.missing import near_path
from convert.rules.rule_errors import last_line
from convert.runners.quiet_import import silent


def load_rules(files: Iterable[str | Path]) -> tuple[str, ...]:
    """Run Python files that register rules, each once in a process; returns their whole paths, for other processes.

    Raises `BadInput` where a file is missing or fails: one that was changed since it was loaded does, because its
    operators have rules already.
    """
    found = [_existing(file, "rules file", "--rules") for file in files]
    for path in found:
        _run_file(str(path), path.stat().st_mtime_ns)
    return tuple(map(str, found))


def load_code(files: Iterable[str | Path]) -> tuple[str, ...]:
    """Import Python files under their stems, and return their whole paths, for other processes.

    Pickles then find the classes of `nets.py` as `nets.Net`, and Keras finds those that a file registers. Raises
    `BadInput` where a file is missing or fails, and `UsageError` where an installed module has its name.
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
    except MemoryError:
        raise
    except Exception as error:
        raise _failure("rules file", path, error) from error


_IMPORTED: dict[str, tuple[str, int]] = {}
"""The file that the module of each stem was made from, and when that was written."""


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
        with silent(2):  # TensorFlow's chatter, where the file imports it
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
    """Whether no module but the one in the file at `path` is called so."""
    module = sys.modules.get(stem)
    try:
        found = module.__spec__ if module is not None else importlib.util.find_spec(stem)
    except (ImportError, ValueError, AttributeError):
        return module is None
    if found is None or found.origin is None:
        return True
    return Path(found.origin).resolve() == Path(path) or Path(found.origin).parent in _BESIDE


_BESIDE: set[Path] = set()
"""Folders that files of the user's lie in, whose modules can be imported."""


def _find_modules_beside(path: str) -> None:
    folder = str(Path(path).parent)
    if folder not in sys.path:
        _BESIDE.add(Path(folder))
        sys.path.append(folder)  # for modules of the user's beside it; behind all others, which it may not stand for


def _failure(what: str, path: str, error: Exception) -> BadInput:
    line = last_line(error, path)
    where = f"{path}, line {line}," if line else path
    return BadInput(f"the {what} {where} failed: {type(error).__name__}: {error}", hint="mend it there")
