"""Makes the text of a size (`str(n)`, `f"{n}"`) the text of its number, to which the capture is then fixed, and gives
conditions on sizes the operators of bool.

torch.export returns the name of a symbol (`s77`), which a comparison, a key or a length would use. A text that is only
a message is unchanged: in a call whose result is unused (`print`, `logger.info`), or in a `raise`.
"""

from __future__ import annotations

import ast
import linecache
import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import FrameType
from typing import Any
from unittest import mock

import torch

from ...decisions.branches import asking_frame

_MESSENGERS = frozenset(("logging", "warnings", "traceback", "pprint", "reprlib", "rich"))
"""Packages in which such a text is a message."""


def text_of_number(number: Any) -> Any:
    """Return a wrapper of a size's `__repr__`: the text of its number, unless it is a message."""

    def wrap(original: Any) -> Any:
        def text(self: Any) -> str:
            frame = asking_frame()
            return original(self) if frame is None or _is_message(frame) else repr(number(self))

        return text

    return wrap


def formatted_number(number: Any) -> Any:
    """Return the `__format__` of a size, which formats its number unless the text is a message."""

    def text(self: Any, spec: str) -> str:
        frame = asking_frame()
        return object.__format__(self, spec) if frame is None or _is_message(frame) else format(number(self), spec)

    return text


@contextmanager
def operators_of_bool() -> Iterator[None]:
    """Give `torch.SymBool` the operators of bool that it lacks; each decides the condition, as `if` does."""

    def deciding(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *operands: function(*(bool(o) if isinstance(o, torch.SymBool) else o for o in operands))

    with ExitStack() as stack:
        for name, function in _OF_BOOL.items():
            stack.enter_context(mock.patch.object(torch.SymBool, name, deciding(function), create=True))
        yield


_OF_BOOL: dict[str, Callable[..., Any]] = {
    "__eq__": operator.eq,
    "__ne__": operator.ne,
    "__xor__": operator.xor,
    "__rxor__": lambda right, left: left ^ right,
    "__float__": float,
    "__index__": int,
}


def _is_message(frame: FrameType) -> bool:
    if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _MESSENGERS:
        return True
    return frame.f_lineno in _message_lines(frame.f_code.co_filename)


@cache
def _message_lines(file: str) -> frozenset[int]:
    """Return the lines of statements whose texts go nowhere: calls with unused results, and exceptions."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return frozenset()
    found: set[int] = set()
    others: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            is_message = isinstance(node, (ast.Expr, ast.Raise, ast.Assert))
            (found if is_message else others).update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(found - others)
