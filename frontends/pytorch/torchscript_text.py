"""Text of a TorchScript program: keys, modes and messages, put together while the program is read.

What is known at run time only is shown as "…", which matters to messages alone: as a key it would be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .torchscript_fold import plain
from .torchscript_values import is_known
from .torchscript_walk import Walk


def _in_text(walk: Walk, node: Any, args: list[Any]) -> Any:
    if not is_known(args[0]):
        return "…"
    return str(plain(args[0]))


def _joined_text(walk: Walk, node: Any, args: list[Any]) -> Any:
    return str(args[0]).join(args[1].state) if is_known(args[1]) else "…"


def _formatted(walk: Walk, node: Any, args: list[Any]) -> Any:
    return str(args[0]).format(*(a if is_known(a) else "…" for a in args[1:]))


def _percent(walk: Walk, node: Any, args: list[Any]) -> Any:
    values = args[1] if len(args) == 2 and isinstance(args[1], tuple) else tuple(args[1:])
    return str(args[0]) % tuple(plain(v) for v in values) if is_known(values) else "…"


TEXT: dict[str, Callable[[Walk, Any, list[Any]], Any]] = {
    "aten::str": _in_text,
    "aten::join": _joined_text,
    "aten::format": _formatted,
    "aten::percentFormat": _percent,
}
"""The operators that make text of values."""
