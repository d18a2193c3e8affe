"""Keeps sizes dynamic in conditions that only affect memory layout: `if x.shape[0] >= 64: x = x.contiguous()`.

diffusers does this for an old kernel, and a capture would hold for batches below 64 only. Both branches give the same
content; the source shows which is which.
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
"""`x = x.contiguous()` as text, outside comments."""


def without_choices_of_place(original: Any) -> Any:
    """Return a `ShapeEnv.evaluate_expr` that answers False to conditions that only lead to `x = x.contiguous()`.

    Such an answer bounds no dim.
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
    """Return the lines of such conditions in a function, a class or a module; an expression has none."""
    name = code.co_name
    if name == "<module>":
        return _lines(code.co_filename, 0)
    return frozenset() if name.startswith("<") else _lines(code.co_filename, code.co_firstlineno)


@cache
def _has_copies(file: str) -> bool:
    """Return whether `x = x.contiguous()` occurs in a file: most have none, and parsing is slow."""
    return bool(_COPY.search("".join(linecache.getlines(file))))


@cache
def _lines(file: str, start: int) -> frozenset[int]:
    """Return the lines of conditions whose body is only `x = x.contiguous()`, and that assign nothing.

    start: the line of the function or class to search; 0 for the whole file.
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
    """Return whether a statement is `x = x.contiguous()`."""
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
