"""Decisions that forward makes in Python on sizes: which of them a capture cannot tell for other sizes than its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ..common.locate import shown_path

_TORCH = str(Path(torch.__file__).parent)
_OWN = str(Path(__file__).parent)
# What lies between an `if` and the place that decides it; any other frame of PyTorch is a decision of its own.
_BETWEEN = (
    *(f"{_TORCH}/{name}" for name in ("__init__.py", "fx/experimental/", "utils/_stats.py")),
    *(f"{_OWN}/patches/{name}.py" for name in ("copies", "checks")),
)


@dataclass(frozen=True)
class Branch:
    """One decision: the condition in PyTorch's symbols, which way it went, and the line that asked for it."""

    condition: sympy.Basic
    taken: bool
    line: str

    @property
    def taken_way(self) -> sympy.Basic:
        """What has to hold for the same way to be taken."""
        return self.condition if self.taken else sympy.Not(self.condition)


@contextmanager
def record_branches() -> Iterator[list[Branch]]:
    """Records the decisions on sizes that code outside of PyTorch makes while it is captured.

    At the end they are in the symbols that are left: of two lengths that turned out to be equal, one.
    """
    found: list[Branch] = []
    environments: list[Any] = []
    shape_env: Any = ShapeEnv
    original = shape_env.evaluate_expr

    def evaluate(self: Any, condition: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, condition, *args, **kwargs)
        asked = condition
        if not isinstance(asked, sympy.logic.boolalg.Boolean) and getattr(result, "is_Integer", False):
            asked = sympy.Eq(asked, result)  # Python wanted the number itself, for a range() say
        if isinstance(asked, sympy.logic.boolalg.Boolean) and asked.free_symbols and (line := asking_line()):
            branch = Branch(asked, asked is not condition or bool(result), line)
            if branch not in found:
                found.append(branch)
                environments.append(self)
        return result

    shape_env.evaluate_expr = evaluate
    try:
        yield found
        found[:] = dict.fromkeys(map(_in_symbols_left, found, environments))
    finally:
        shape_env.evaluate_expr = original


def _in_symbols_left(branch: Branch, environment: Any) -> Branch:
    """The branch in the symbols that others were replaced by; as it is where nothing is left to decide."""
    condition = environment.replace(branch.condition)
    return replace(branch, condition=condition) if condition.free_symbols else branch


def asking_line(between: tuple[str, ...] = _BETWEEN) -> str:
    """file:line of whoever asked, "" where that is PyTorch itself; `between` are files that only hand on."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(between):
        frame = frame.f_back
    file = "" if frame is None else frame.f_code.co_filename
    if not file or file.startswith(("<", _TORCH, _OWN)):
        return ""
    return f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def changes_when_short(branch: Branch) -> bool:
    """True for a decision that goes the other way for a length of 0 or 1.

    PyTorch takes dynamic dims to be longer than that, and makes no guard of what follows from it.
    """
    symbols = sorted(branch.condition.free_symbols, key=str)
    for length in (0, 1):
        for some in [symbols, *([s] for s in symbols if len(symbols) > 1)]:
            try:
                decided = branch.condition.xreplace(dict.fromkeys(some, sympy.Integer(length)))
            except ZeroDivisionError:  # forward divides by it, and fails
                continue
            if decided in (sympy.true, sympy.false) and bool(decided) != branch.taken:
                return True
    return False


def ties_inputs(branches: Sequence[Branch]) -> bool:
    """True where forward decides on whether two lengths are equal, and they were."""
    return any(b.taken and isinstance(b.condition, sympy.Eq) and len(b.condition.free_symbols) > 1 for b in branches)
