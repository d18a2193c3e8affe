"""Skips checks that only raise: `if bad.any(): raise`, `assert (x > 0).all()`, `torch._assert(…)`.

The result for valid input does not depend on them. The source shows which branch of a condition on data does not raise.
If the program itself catches the exception, the condition is an ordinary decision. If it catches the error with which
PyTorch refuses to decide, that error is raised again.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import sympy
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ....common.locate import TORCH, shown_path
from ....torch_internals.symbols import GuardOnDataDependentSymNode, ShapeEnv
from ... import FOLDER
from .caught import is_caught, raised_class, tree_of

_MACHINERY = ("__init__.py", "overrides.py", "fx/experimental/", "utils/_stats.py", "_export/non_strict_utils.py")
BETWEEN = (
    FOLDER,
    *(f"{TORCH}{name}" for name in _MACHINERY),
)
"""Files between a condition and the code that decides it; any other frame of PyTorch decides on its own."""


@contextmanager
def without_checks() -> Iterator[list[str]]:
    """Assume inside the context that conditions on data that only lead to an exception do not hold; yield notes of
    them.

    This includes functions that raise for some numbers, if the program catches that (gpytorch's Cholesky). At the end,
    raises the error of a condition on data that the program caught.
    """
    found: list[str] = []
    caught: list[GuardOnDataDependentSymNode] = []
    shape_env: Any = ShapeEnv
    originals = {name: getattr(shape_env, name) for name in _PATCHED}
    original, original_node, original_assert = originals.values()

    def evaluate(self: Any, condition: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, condition, *args, **kwargs)
        except GuardOnDataDependentSymNode:
            boolean = isinstance(condition, sympy.logic.boolalg.Boolean)  # Python asks for a number
            passes = _passing_value(sys._getframe(1), found) if boolean else None
            if passes is None:
                raise
            return sympy.true if passes else sympy.false

    def evaluate_node(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original_node(self, *args, **kwargs)
        except GuardOnDataDependentSymNode as error:
            if is_caught(_asking_frame(sys._getframe(1)), type(error)):
                caught.append(error)
            raise

    def is_assertion(self: Any) -> bool:
        """Return whether PyTorch assumes the condition of an assertion to hold."""
        frame = self._get_user_frame() if original_assert(self) else None
        if frame is None or is_caught(frame, AssertionError):
            return False
        _add_note(found, _LEFT_OUT, frame)
        return True

    patched: tuple[Any, ...] = (evaluate, evaluate_node, is_assertion)  # functions of different types
    for name, function in zip(_PATCHED, patched, strict=True):
        setattr(shape_env, name, function)
    try:
        with _PassedChecks(found):
            yield found
    finally:
        for name, function in originals.items():
            setattr(shape_env, name, function)
    if caught:
        raise caught[0]


_PATCHED = ("evaluate_expr", "evaluate_sym_node", "_is_python_assert")
_LEFT_OUT = "a check that only raises an exception is left out"


class _PassedChecks(TorchFunctionMode):
    """Evaluates a tensor's truth so that a check passes."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self.found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__bool__:
            passes = _passing_value(sys._getframe(1), self.found)
            if passes is not None:
                return passes
        if getattr(func, "__name__", "") in _RAISING:
            frame = _asking_frame(sys._getframe(1))
            if frame is not None and is_caught(frame, torch.linalg.LinAlgError):
                _add_note(self.found, "forward catches what is raised here; the converted model goes on", frame)
        return func(*args, **(kwargs or {}))


_RAISING = frozenset(
    (  # noqa: SIM905
        "linalg_cholesky cholesky linalg_inv inverse linalg_solve linalg_eig linalg_eigh linalg_svd svd "
        "linalg_ldl_factor"
    ).split()
)
"""Functions that raise for some numbers, such as a matrix without an inverse."""


def _add_note(found: list[str], text: str, frame: FrameType) -> None:
    file, line = frame.f_code.co_filename, frame.f_lineno
    note = f"{text}: {shown_path(file)}:{line} ({linecache.getline(file, line).strip()})"
    if note not in found:
        found.append(note)


def _passing_value(frame: FrameType | None, found: list[str]) -> bool | None:
    """Return the truth value for which nothing is raised; None if the condition also decides on other things."""
    asserted = False
    while frame is not None and frame.f_code.co_filename.startswith(BETWEEN):
        asserted = asserted or frame.f_code.co_name == "_assert"
        frame = frame.f_back
    if frame is None:
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    passes, statement = (True, None) if asserted else _conditions(file).get(line, (None, None))
    if passes is not None and is_caught(frame, raised_class(statement, frame)):
        return None
    if passes is not None:
        _add_note(found, _LEFT_OUT, frame)
    return passes


def _asking_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the program that evaluates a condition; None if PyTorch itself does."""
    while frame is not None and frame.f_code.co_filename.startswith(BETWEEN):
        frame = frame.f_back
    return None if frame is None or frame.f_code.co_filename.startswith(TORCH) else frame


_DECIDING = (ast.IfExp, ast.comprehension, ast.Lambda)
"""Expressions that contain their own conditions within the line of another."""


@cache
def _conditions(file: str) -> dict[int, tuple[bool, ast.stmt]]:
    """Return the conditions, by line, that only decide whether to raise: the value that avoids it, and the raising
    statement.
    """
    tree = tree_of(file)
    found: dict[int, tuple[bool, ast.stmt]] = {}
    for node in ast.walk(tree) if tree is not None else ():
        statement: ast.stmt
        if isinstance(node, ast.Assert):
            wanted, statement = _wanted_values(node.test, True), node
        elif isinstance(node, ast.If) and not node.orelse and _only_raises(node.body):
            wanted, statement = _wanted_values(node.test, False), node.body[-1]
        else:
            continue
        if len(wanted) == 1 and not any(isinstance(part, _DECIDING) for part in ast.walk(node.test)):
            end = node.test.end_lineno or node.test.lineno
            found |= dict.fromkeys(range(node.test.lineno, end + 1), (next(iter(wanted)), statement))
    return found


def _only_raises(body: list[ast.stmt]) -> bool:
    """Return whether the last statement raises, and those before it only prepare its message."""
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
    """Return the truth values that the parts of a condition need so that the whole is `wanted`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _wanted_values(test.operand, not wanted)
    if isinstance(test, ast.BoolOp):
        return set().union(*(_wanted_values(part, wanted) for part in test.values))
    return {wanted}
