"""Validates lines of the journal; an invalid line is ignored, and its task runs again.

A journal may be damaged, of another version, or part of a folder from somebody else.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from convert.outcome.notes import Note
from convert.outcome.report import Tensor
from convert.outcome.verdict import Verdict

_TEXTS = ("key", "output", "outcome", "reason")
_REPORT: dict[str, Any] = {
    "kind": str,
    "inputs": list[Tensor],
    "outputs": list[Tensor],
    "operators": dict[str, int],
    "parameters": int,
    "weight_bytes": int,
    "output_bytes": int,
    "seconds": dict[str, float],
    "verdict": Verdict | None,
    "unverified": str,
    "notes": list[Note],
}
_PROBLEM = ("why", "operator", "node", "module", "source")


def is_record(line: Mapping[str, Any]) -> bool:
    """Return whether a line records how a task ended, in the form that views and pages show."""
    limits, report, peak = (line.get(name) for name in ("limits", "report", "peak"))
    return (
        all(isinstance(line.get(name), str) for name in _TEXTS)
        and re.fullmatch(r"[a-z][a-z ]*", line["outcome"]) is not None
        and _fits(line.get("seconds"), float)
        and line.get("seconds") is not None
        and all(_fits(n, int) for n in (peak, line.get("attempts")))
        and isinstance(limits, dict)
        and all(_fits(limits.get(name), float) for name in ("seconds", "memory"))
        and isinstance(report, dict)
        and all(_fits(report[name], form) for name, form in _REPORT.items() if name in report)
        and _is_error(report.get("error", {}))
    )


def _is_error(error: Any) -> bool:
    """Return whether a value has the form of the `error` in a command's JSON; fields that no view shows are ignored."""
    if not isinstance(error, dict) or not all(isinstance(error.get(name, ""), str) for name in ("message", "hint")):
        return False
    problems = error.get("problems", [])
    return isinstance(problems, list) and all(
        isinstance(p, dict) and all(isinstance(p.get(name), str) for name in _PROBLEM) and _fits(p.get("count"), int)
        for p in problems
    )


def _fits(value: Any, form: Any) -> bool:
    """Return whether a JSON `value` is a valid form of a field of type `form`; infinite numbers are null."""
    kind, parts = get_origin(form), get_args(form)
    if kind in (Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if kind in (list, tuple, Sequence):
        return isinstance(value, list) and all(_fits(item, parts[0]) for item in value)
    if kind is dict:
        return isinstance(value, dict) and all(_fits(item, parts[1]) for item in value.values())
    if form is Note:
        return isinstance(value, str) or _is_note(value)  # an older version wrote only the text
    if is_dataclass(form) and isinstance(form, type):
        return isinstance(value, dict) and _fits_class(value, form)
    if form is float:
        return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    if form is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return form is Any or isinstance(value, form)


def _is_note(value: Any) -> bool:
    if not isinstance(value, dict) or not all(isinstance(value.get(name), str) for name in ("code", "level", "text")):
        return False
    return _fits(value.get("operators", []), list[str])


def _fits_class(value: dict[str, Any], form: type) -> bool:
    hints, needed = _fields_of(form)
    return needed <= value.keys() and all(_fits(value[name], hint) for name, hint in hints.items() if name in value)


@cache
def _fields_of(form: type) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the types of a data class's fields, and the names of those without a default."""
    hints, found = get_type_hints(form), fields(form)
    needed = frozenset(f.name for f in found if f.default is MISSING and f.default_factory is MISSING)
    return {f.name: hints[f.name] for f in found}, needed
