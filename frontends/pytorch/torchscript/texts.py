"""Texts that a TorchScript program makes of values: keys, modes and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import Walk
from .evaluate import as_python
from .values import RunTimeText, is_known


def text_of(text: str, known: bool) -> str:
    """Return a text; a `RunTimeText` if it contains values that are known at run time only."""
    return text if known else RunTimeText(text)


def _to_text(walk: Walk, node: Any, args: list[Any]) -> Any:
    return str(as_python(args[0])) if is_known(args[0]) else RunTimeText("…")


def _join_text(walk: Walk, node: Any, args: list[Any]) -> Any:
    return str(args[0]).join(args[1].state) if is_known(tuple(args)) else RunTimeText("…")


def _format_text(walk: Walk, node: Any, args: list[Any]) -> Any:
    return text_of(str(args[0]).format(*(a if is_known(a) else "…" for a in args[1:])), is_known(tuple(args)))


def _percent_format(walk: Walk, node: Any, args: list[Any]) -> Any:
    values = args[1] if len(args) == 2 and isinstance(args[1], tuple) else tuple(args[1:])
    return str(args[0]) % tuple(as_python(v) for v in values) if is_known((args[0], values)) else RunTimeText("…")


TEXT: dict[str, Callable[[Walk, Any, list[Any]], Any]] = {
    "aten::str": _to_text,
    "aten::join": _join_text,
    "aten::format": _format_text,
    "aten::percentFormat": _percent_format,
}
"""The operators that make text of values: keys, modes and messages. A value that is known at run time only is shown as
"…", which is enough for messages; as a key, and in a comparison, such a text is refused.
"""
