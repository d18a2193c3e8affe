"""Leaves conditions on sizes open that only decide where a tensor lies: `if x.shape[0] >= 64: x = x.contiguous()`.

diffusers asks that for a kernel of old, and a capture would hold for batches below 64 alone. What the tensor holds is
the same on both ways; which one it is, is read off the source.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
import tokenize
from functools import cache
from types import CodeType, FrameType
from typing import Any

import sympy

from .checks import BETWEEN

_COPY = re.compile(r"\b(\w+)\s*=[\s(\\]*\1[\s)\\]*\.[\s\\]*contiguous\s*\(\s*\)")
"""`x = x.contiguous()`, as a text that is no comment may have it."""


def without_choices_of_place(original: Any) -> Any:
    """Return `ShapeEnv.evaluate_expr` for which conditions that only lead to `x = x.contiguous()` do not hold.

    They bound no dim.
    """

    def evaluate(self: Any, condition: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(condition, sympy.logic.boolalg.Boolean) and condition.free_symbols:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith(BETWEEN):
                frame = frame.f_back
            if frame is not None and frame.f_lineno in _lines_of(frame.f_code):
                return sympy.false
        return original(self, condition, *args, **kwargs)

    return evaluate


def _lines_of(code: CodeType) -> frozenset[int]:
    """The lines of such conditions in a function, a class or a module; an expression has none."""
    name = code.co_name
    if name == "<module>":
        return _lines(code.co_filename, 0)
    return frozenset() if name.startswith("<") else _lines(code.co_filename, code.co_firstlineno)


@cache
def _has_copies(file: str) -> bool:
    """Whether `x = x.contiguous()` is anywhere in a file: most have none, and to parse them takes long."""
    return bool(_COPY.search("".join(linecache.getlines(file))))


@cache
def _lines(file: str, start: int) -> frozenset[int]:
    """The lines of conditions behind which nothing stands but `x = x.contiguous()`, and that assign nothing.

    start: the line of the function or the class that is looked through; 0 for the whole file.
    """
    if not _has_copies(file):
        return frozenset()
    lines = linecache.getlines(file)
    try:
        block = inspect.getblock(lines[start - 1 :]) if start else lines
        above = ["if True:\n"] if start and block and block[0].startswith((" ", "\t")) else []
        tree = ast.parse("".join([*above, *block]))
    except (SyntaxError, tokenize.TokenError):
        return frozenset()
    ast.increment_lineno(tree, max(start - 1, 0) - len(above))
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and not node.orelse and all(map(_only_copies, node.body)):
            odd = (ast.IfExp, ast.comprehension, ast.Lambda, ast.NamedExpr)
            if not any(isinstance(part, odd) for part in ast.walk(node.test)):
                found.update(range(node.test.lineno, (node.test.end_lineno or node.test.lineno) + 1))
    return frozenset(found)


def _only_copies(statement: ast.stmt) -> bool:
    """True for `x = x.contiguous()`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, call = statement.targets[0], statement.value
    return (
        isinstance(target, ast.Name)
        and isinstance(call, ast.Call)
        and not call.args
        and not call.keywords
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "contiguous"
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == target.id
    )
