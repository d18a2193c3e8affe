"""Exceptions that a program catches itself: whether what is raised at a place would end in an `except` of forward."""

from __future__ import annotations

import ast
import builtins
import linecache
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from ...common.locate import TORCH

_OUTSIDE = (TORCH, f"{Path(__file__).parents[1]}/", "<")
_OUTERMOST = str(Path(__file__).parents[1] / "capture.py")
"""Whoever called for the capture may catch what he likes."""


def is_caught(frame: FrameType | None, raised: type[BaseException] | None) -> bool:
    """Whether the program catches `raised` (None: of a class that nobody knows) where it comes up in `frame`.

    Handlers that raise themselves catch nothing.
    """
    while frame is not None and frame.f_code.co_filename != _OUTERMOST:
        if not frame.f_code.co_filename.startswith(_OUTSIDE):
            for first, last, handlers in _guarded_lines(frame.f_code.co_filename):
                if first <= frame.f_lineno <= last and any(_catches(h, frame, raised) for h in handlers):
                    return True
        frame = frame.f_back
    return False


def raised_class(statement: ast.stmt | None, frame: FrameType) -> type[BaseException] | None:
    """The class of what a `raise` or an assertion raises in `frame`; None where that is computed."""
    if not isinstance(statement, ast.Raise):
        return AssertionError
    thing = statement.exc
    found = _looked_up(thing.func if isinstance(thing, ast.Call) else thing, frame)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def tree_of(file: str) -> ast.Module | None:
    """What is written in a file; None for one that is no Python."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None


@cache
def _guarded_lines(file: str) -> list[tuple[int, int, list[ast.ExceptHandler]]]:
    """First and last line of what stands in a `try`, with the handlers that do not end in a `raise`."""
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
    """What a name, or an attribute of one, stands for in `frame`; None for anything else."""
    if isinstance(expression, ast.Attribute):
        return getattr(_looked_up(expression.value, frame), expression.attr, None)
    if not isinstance(expression, ast.Name):
        return None
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if expression.id in names:
            return names[expression.id]
    return None
