"""Rules of the user's own: Python files that register them, loaded in every process that reads or runs a model."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from convert.errors import BadInput
from convert.files.missing import near_path
from convert.rules.rule_errors import last_line


def load_rules(files: Iterable[str | Path]) -> tuple[str, ...]:
    """Run Python files that register rules, each once in a process; returns their whole paths, for other processes.

    Raises `BadInput` where a file is missing or fails: one that was changed since it was loaded does, because its
    operators have rules already.
    """
    found = []
    for file in files:
        path = Path(file).resolve()
        if not path.is_file():
            near = near_path(Path(file))
            raise BadInput(
                f"there is no rules file {file}",
                hint=f"did you mean {near}?" if near else "name a Python file that registers rules: --rules FILE.py",
            )
        _run_file(str(path), path.stat().st_mtime_ns)
        found.append(str(path))
    return tuple(found)


@cache
def _run_file(path: str, changed: int) -> None:
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.append(folder)  # for modules of the user's beside it; behind all others, which it may not stand for
    try:
        runpy.run_path(path, run_name=f"convert_rules_{Path(path).stem}")
    except MemoryError:
        raise
    except Exception as error:
        line = last_line(error, path)
        where = f"{path}, line {line}," if line else path
        raise BadInput(f"the rules file {where} failed: {type(error).__name__}: {error}") from error
