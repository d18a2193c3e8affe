"""Checks the metadata that this tool writes into ONNX files (`convert/graph/metadata.py`), because anybody may write
it.

It covers bounds of dims, conditions on sizes, ranges of inputs and initial states.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir

from convert.errors import BadInput
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY, STATE_KEY

_CHARACTERS = 10_000
"""Maximum length of one condition; PyTorch's longest have some hundred characters."""
_CONDITIONS = 1000
"""Maximum number of conditions; PyTorch's models have about ten, and every sampled size is checked against each."""
_NUMBERS = 1 << 62


def check_notes(model: ir.Model) -> None:
    """Raise `BadInput` for malformed metadata of the model or of an input."""
    forms: dict[str, Callable[[Any], bool]] = {
        DIMS_KEY: _are_bounds,
        GUARDS_KEY: _are_conditions,
        STATE_KEY: lambda content: isinstance(content, dict),
    }
    for key, fits in forms.items():
        _check(model.metadata_props, key, fits)
    dims = {str(d) for value in model.graph.inputs for d in value.shape or () if not isinstance(d, int)}
    for value in model.graph.inputs:
        _check(value.metadata_props, RANGE_KEY, lambda content: _is_range(content, dims))


def _check(notes: Mapping[str, str], key: str, fits: Callable[[Any], bool]) -> None:
    if key not in notes:
        return
    try:
        fit = fits(json.loads(notes[key]))
    except (ValueError, RecursionError):
        fit = False
    if not fit:
        shown = notes[key] if len(notes[key]) < 100 else f"{notes[key][:100]} …"
        raise BadInput(f"the note {key} in the file is damaged: {shown!r}", hint=f"remove the metadata {key}")


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < _NUMBERS


def _is_table(content: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(content, dict) and all(map(fits, content.values()))


def _are_bounds(content: Any) -> bool:
    """Return whether content looks like {"batch": [1, null]}."""
    return _is_table(
        content,
        lambda pair: (
            isinstance(pair, list)
            and len(pair) == 2
            and _is_size(pair[0])
            and (pair[1] is None or (_is_size(pair[1]) and pair[1] >= pair[0]))
        ),
    )


def _is_expression(text: Any) -> bool:
    try:
        return isinstance(text, str) and len(text) < _CHARACTERS and bool(ast.parse(text, mode="eval"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _are_conditions(content: Any) -> bool:
    """Return whether content looks like ["h % 8 == 0"]."""
    return isinstance(content, list) and len(content) <= _CONDITIONS and all(map(_is_expression, content))


def _is_range(content: Any, dims: set[str]) -> bool:
    """Return whether content looks like [1, "time"], optionally with "descending" or "partition" after that."""
    orders: list[list[str]] = [[], ["descending"], ["partition"]]
    if not isinstance(content, list) or len(content) not in (2, 3) or content[2:] not in orders:
        return False
    return all(_is_bound(bound, dims) for bound in content[:2])


def _is_bound(bound: Any, dims: set[str]) -> bool:
    if isinstance(bound, int):
        return abs(bound) < _NUMBERS
    if not _is_expression(bound):
        return False
    nodes = list(ast.walk(ast.parse(bound, mode="eval")))
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    return all(n.id in dims or id(n) in called for n in nodes if isinstance(n, ast.Name))
