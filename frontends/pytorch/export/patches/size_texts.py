"""The text of a size is that of the number, which the capture then holds for: `str(n)`, `f"{n}"`.

torch.export has the name of a symbol there (`s77`), which a comparison, a key or a length would go by. A text that is
only a message, as in a call whose result nobody takes (`print`, `logger.info`) or in a `raise`, is left as it is.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import torch

from ..branches import asking_frame

_MESSENGERS = frozenset(("logging", "warnings", "traceback", "pprint", "reprlib", "rich"))
"""Packages of which a text that is made there is a message."""


@contextmanager
def sizes_as_text() -> Iterator[None]:
    """Inside, the text that code outside of PyTorch makes of a size is that of its number, unless it is a message."""
    kinds: tuple[Any, ...] = (torch.SymInt, torch.SymFloat, torch.SymBool)
    originals = [kind.__repr__ for kind in kinds]
    for kind, original, number in zip(kinds, originals, (int, float, bool), strict=True):
        kind.__repr__, kind.__format__ = _text_of(original, number), _formatted(number)
    try:
        yield
    finally:
        for kind, original in zip(kinds, originals, strict=True):
            kind.__repr__ = original
            del kind.__format__


def _text_of(original: Any, number: Any) -> Any:
    def text(self: Any) -> str:
        frame = asking_frame()
        return original(self) if frame is None or _is_message(frame) else repr(number(self))

    return text


def _formatted(number: Any) -> Any:
    def text(self: Any, spec: str) -> str:
        frame = asking_frame()
        return object.__format__(self, spec) if frame is None or _is_message(frame) else format(number(self), spec)

    return text


def _is_message(frame: FrameType) -> bool:
    if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _MESSENGERS:
        return True
    return frame.f_lineno in _message_lines(frame.f_code.co_filename)


@cache
def _message_lines(file: str) -> frozenset[int]:
    """The lines of statements that give no text to anything: calls whose results nobody takes, and exceptions."""
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
