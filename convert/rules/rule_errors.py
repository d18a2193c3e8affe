"""Error texts for user rules that failed: file and line, and the arguments of the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from convert.errors import UsageError

_LONGEST = 80


def is_own(rule: Callable[..., Any]) -> bool:
    """Return whether a rule belongs to this project."""
    return str(getattr(rule, "__module__", "")).partition(".")[0] == "convert"


def clash(title: str, operator: str, first: Callable[..., Any], second: Callable[..., Any]) -> Exception:
    """Return what to raise for a second rule of an operator: `UsageError` if one of them is the user's.

    Which of the two is registered first depends on when a table is loaded, and is not the user's doing.
    """
    if is_own(first) and is_own(second):
        return ValueError(f"{title}: {operator} has a rule already ({first.__name__})")
    theirs, other = (first, second) if is_own(second) else (second, first)
    where = "convert has one" if is_own(other) else f"{_place(other)} has one"
    return UsageError(
        f"{_place(theirs)} registers a {title} rule for {operator}, and {where}",
        hint="remove one of the two" if not is_own(other) else f"remove it: `convert ops {operator}` shows the tables",
    )


def _place(rule: Callable[..., Any]) -> str:
    code = getattr(rule, "__code__", None)
    return str(rule) if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def place_of_error(error: BaseException, rule: Callable[..., Any]) -> str:
    """Return `my_rules.py:7`: the last line of the rule's file that ran, or the line where the rule begins."""
    code = getattr(rule, "__code__", None)
    if code is None:
        return str(rule)
    return f"{code.co_filename}:{last_line(error, code.co_filename) or code.co_firstlineno}"


def last_line(error: BaseException, file: str) -> int:
    """Return the innermost line of `file` in an exception's traceback; 0 if there is none."""
    found, step = 0, error.__traceback__
    if isinstance(error, SyntaxError) and error.filename == file:
        found = error.lineno or 0
    while step is not None:
        found = step.tb_lineno if step.tb_frame.f_code.co_filename == file else found
        step = step.tb_next
    return found


def shown_call(rule: Callable[..., Any], out: Any, positional: Sequence[Any], keyword: Mapping[str, Any]) -> str:
    """Return the call as text: `it was called as cube(g, x=float32[2,3], scale=0.5)`."""
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
