"""Leaves out checks that do nothing but raise: `if bad.any(): raise`, `assert (x > 0).all()`, `torch._assert(…)`.

What a graph computes for input that passes them does not depend on them. Which way a condition on data goes is read
off the source: the one that does not raise.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import sympy
import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.overrides import TorchFunctionMode

from ...common.locate import shown_path

_TORCH = str(Path(torch.__file__).parent)
_MACHINERY = ("__init__.py", "overrides.py", "fx/experimental/", "utils/_stats.py", "_export/non_strict_utils.py")
BETWEEN = (
    str(Path(__file__).parents[1]),
    *(f"{_TORCH}/{name}" for name in _MACHINERY),
)
"""What lies between a condition and the place that decides it: any other frame of PyTorch decides on its own."""


@contextmanager
def without_checks() -> Iterator[list[str]]:
    """Inside, conditions on data that only lead to an exception are taken not to hold; the lines of those found."""
    found: list[str] = []
    shape_env: Any = ShapeEnv
    original = shape_env.evaluate_expr

    def evaluate(self: Any, condition: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, condition, *args, **kwargs)
        except GuardOnDataDependentSymNode:
            boolean = isinstance(condition, sympy.logic.boolalg.Boolean)  # a number that Python wants is none
            passes = _passing_value(sys._getframe(1), found) if boolean else None
            if passes is None:
                raise
            return sympy.true if passes else sympy.false

    shape_env.evaluate_expr = evaluate
    try:
        with _PassedChecks(found):
            yield found
    finally:
        shape_env.evaluate_expr = original


class _PassedChecks(TorchFunctionMode):
    """Python's truth of a tensor is the one with which a check passes."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self.found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__bool__:
            passes = _passing_value(sys._getframe(1), self.found)
            if passes is not None:
                return passes
        return func(*args, **(kwargs or {}))


def _passing_value(frame: FrameType | None, found: list[str]) -> bool | None:
    """What the condition that is asked for has to be so that nothing is raised; None where it decides on more."""
    asserted = False
    while frame is not None and frame.f_code.co_filename.startswith(BETWEEN):
        asserted = asserted or frame.f_code.co_name == "_assert"
        frame = frame.f_back
    if frame is None:
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    passes = True if asserted else _conditions(file).get(line)
    if passes is not None:
        where = f"{shown_path(file)}:{line} ({linecache.getline(file, line).strip()})"
        if where not in found:
            found.append(where)
    return passes


_DECIDING = (ast.IfExp, ast.comprehension, ast.Lambda)
"""What has conditions of its own in the line of another one."""


@cache
def _conditions(file: str) -> dict[int, bool]:
    """The lines of conditions that only decide whether an exception is raised, with the value that avoids it."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    found: dict[int, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            wanted = _wanted_values(node.test, True)
        elif isinstance(node, ast.If) and not node.orelse and _only_raises(node.body):
            wanted = _wanted_values(node.test, False)
        else:
            continue
        if len(wanted) == 1 and not any(isinstance(part, _DECIDING) for part in ast.walk(node.test)):
            end = node.test.end_lineno or node.test.lineno
            found |= dict.fromkeys(range(node.test.lineno, end + 1), next(iter(wanted)))
    return found


def _only_raises(body: list[ast.stmt]) -> bool:
    """True for statements of which the last raises, and those before it do nothing but prepare its message."""
    *before, last = body
    raises = isinstance(last, ast.Raise) or (
        isinstance(last, ast.Expr)
        and isinstance(last.value, ast.Call)
        and isinstance(last.value.func, ast.Attribute)
        and last.value.func.attr == "_assert"
        and bool(last.value.args)
        and isinstance(last.value.args[0], ast.Constant)
        and last.value.args[0].value is False
    )
    return raises and all(isinstance(s, (ast.Assign, ast.AnnAssign)) for s in before)


def _wanted_values(test: ast.expr, wanted: bool) -> set[bool]:
    """The truth that the parts of a condition need so that the whole is `wanted`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _wanted_values(test.operand, not wanted)
    if isinstance(test, ast.BoolOp):
        return set().union(*(_wanted_values(part, wanted) for part in test.values))
    return {wanted}
