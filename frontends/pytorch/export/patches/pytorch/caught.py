"""Determines whether an exception raised at some point would be caught by an `except` in forward."""

from __future__ import annotations

import ast
import builtins
import linecache
from functools import cache
from types import FrameType
from typing import Any

from ....common.locate import TORCH
from ... import FOLDER

_OUTSIDE = (TORCH, FOLDER, "<")
_OUTERMOST = f"{FOLDER}capture/export_module.py"
"""Callers of the capture may catch anything, so they do not count."""


def is_caught(frame: FrameType | None, raised: type[BaseException] | None) -> bool:
    """Return whether the program catches `raised` (None: of unknown class) if it is raised in `frame`.

    Handlers that raise again do not count.
    """
    while frame is not None and frame.f_code.co_filename != _OUTERMOST:
        if not frame.f_code.co_filename.startswith(_OUTSIDE):
            for first, last, handlers in _guarded_lines(frame.f_code.co_filename):
                if first <= frame.f_lineno <= last and any(_catches(h, frame, raised) for h in handlers):
                    return True
        frame = frame.f_back
    return False


def raised_class(statement: ast.stmt | None, frame: FrameType) -> type[BaseException] | None:
    """Return the class that a `raise` or an assertion raises in `frame`; None if it is computed."""
    if not isinstance(statement, ast.Raise):
        return AssertionError
    raised = statement.exc
    found = _looked_up(raised.func if isinstance(raised, ast.Call) else raised, frame)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def tree_of(file: str) -> ast.Module | None:
    """Return the syntax tree of a file; None if it is not Python."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None


@cache
def _guarded_lines(file: str) -> list[tuple[int, int, list[ast.ExceptHandler]]]:
    """Return first and last line of each `try` body, with the handlers that do not end in a `raise`."""
    tree, found = tree_of(file), []
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Try):
            handlers = [h for h in node.handlers if not isinstance(h.body[-1], ast.Raise)]
            found.append((node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno, handlers))
    return found


def _catches(handler: ast.ExceptHandler, frame: FrameType, raised: type[BaseException] | None) -> bool:
    if handler.type is None or raised is None:
        return True
    listed = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    classes = [_looked_up(each, frame) for each in listed]
    return any(isinstance(c, type) and issubclass(raised, c) for c in classes)


def _looked_up(expression: ast.expr | None, frame: FrameType) -> Any:
    """Return what a name, or an attribute of one, refers to in `frame`; None for anything else."""
    if isinstance(expression, ast.Attribute):
        return getattr(_looked_up(expression.value, frame), expression.attr, None)
    if not isinstance(expression, ast.Name):
        return None
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if expression.id in names:
            return names[expression.id]
    return None
