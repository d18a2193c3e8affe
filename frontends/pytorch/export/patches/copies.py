"""Leaves conditions on sizes open that only decide where a tensor lies: `if x.shape[0] >= 64: x = x.contiguous()`.

diffusers asks that for a kernel of old, and a capture would hold for batches below 64 alone. What the tensor holds is
the same on both ways; which one it is, is read off the source.
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
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .checks import BETWEEN


@contextmanager
def without_choices_of_place() -> Iterator[None]:
    """Inside, conditions on sizes that only lead to `x = x.contiguous()` do not hold, and bound no dim."""
    shape_env: Any = ShapeEnv
    original = shape_env.evaluate_expr

    def evaluate(self: Any, condition: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(condition, sympy.logic.boolalg.Boolean) and condition.free_symbols:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith(BETWEEN):
                frame = frame.f_back
            if frame is not None and frame.f_lineno in _lines(frame.f_code.co_filename):
                return sympy.false
        return original(self, condition, *args, **kwargs)

    shape_env.evaluate_expr = evaluate
    try:
        yield
    finally:
        shape_env.evaluate_expr = original


@cache
def _lines(file: str) -> frozenset[int]:
    """The lines of conditions behind which nothing stands but `x = x.contiguous()`, and that assign nothing."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return frozenset()
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
