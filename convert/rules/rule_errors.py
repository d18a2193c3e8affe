"""What is told of a rule of the user's own that failed: its file and line, and what it was called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_LONGEST = 80


def is_own(rule: Callable[..., Any]) -> bool:
    """Whether a rule is one of this project's."""
    return str(getattr(rule, "__module__", "")).partition(".")[0] == "convert"


def place_of_error(error: BaseException, rule: Callable[..., Any]) -> str:
    """`my_rules.py:7`: the last line of the rule's file that was run, or where the rule begins."""
    code = getattr(rule, "__code__", None)
    if code is None:
        return str(rule)
    return f"{code.co_filename}:{last_line(error, code.co_filename) or code.co_firstlineno}"


def last_line(error: BaseException, file: str) -> int:
    """The innermost line of `file` in an exception's traceback, 0 where there is none."""
    found, step = 0, error.__traceback__
    if isinstance(error, SyntaxError) and error.filename == file:
        found = error.lineno or 0
    while step is not None:
        found = step.tb_lineno if step.tb_frame.f_code.co_filename == file else found
        step = step.tb_next
    return found


def shown_call(rule: Callable[..., Any], out: Any, positional: Sequence[Any], keyword: Mapping[str, Any]) -> str:
    """The call as it was made: `it was called as cube(g, x=float32[2,3], scale=0.5)`."""
    code = getattr(rule, "__code__", None)
    names = [] if code is None else list(code.co_varnames[: code.co_argcount])
    parts = names[:1] or [type(out).__name__]
    for i, value in enumerate(positional, 1):
        parts.append(f"{names[i]}={_shown(value)}" if i < len(names) else _shown(value))
    parts += [f"{name}={_shown(value)}" for name, value in keyword.items()]
    return f"it was called as {getattr(rule, '__name__', 'rule')}({', '.join(parts)})"


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        text = "[" + ", ".join(map(_shown, value)) + "]"
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        dtype = str(getattr(value.dtype, "name", value.dtype)).lower()
        shape = "[…]" if value.shape is None else "[" + ",".join(map(str, value.shape)) + "]"
        text = {"float": "float32", "double": "float64"}.get(dtype, dtype) + shape
    else:
        text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
