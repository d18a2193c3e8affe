"""Checks texts of an exported program from which PyTorch generates Python code: names, sizes and conditions only.

`torch.fx` generates and executes the source of a function for a graph. It contains names of values as in the archive,
names of attributes in quotes, and conditions (`guards_code`) unchanged. A name that contains a call would be executed.
The structure of inputs (`in_spec`) may name a module to import, for a default or an enumeration.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Iterator
from typing import Any

_NAMES = frozenset(("name", "as_name"))
"""Keys of names of values and arguments in the generated functions."""
_VALUES = re.compile(r"(tensor|sym_int|sym_float|sym_bool|custom_obj|opaque_obj)_values")
"""Keys of tables indexed by such names."""
_ATTRIBUTES = re.compile(r"fqn|target|\w+_fqn|\w+_name|\w+_to_mutate")
"""Keys of attribute names, which are quoted if they are not plain."""
_SPECS = frozenset(("in_spec", "out_spec"))
_NUMBERS = frozenset(("min_val", "max_val", "as_int"))
_QUOTABLE = re.compile(r"[^\"'\\{}()\[\]=;\x00-\x1f]*")
_HARMLESS_MODULES = ("builtins", "collections", None)
_METHODS = frozenset(("size", "stride", "storage_offset", "dim", "numel", "item", "shape", "ndim"))
_FUNCTIONS = frozenset(
    ("L", "len", "math", "inf", "int", "float", "max", "min", "Max", "Min", "Mod", "PythonMod", "FloorDiv", "CeilDiv",
     "CeilToInt", "FloorToInt", "TruncToInt", "RoundToInt", "IntTrueDiv", "FloatTrueDiv", "Eq", "Ne", "Lt", "Le", "Gt",
     "Ge", "And", "Or", "Not")
)  # fmt: skip
"""Names that conditions may use, besides the sizes of inputs."""
_CONDITION = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Subscript, ast.Attribute, ast.Name,
    ast.Constant, ast.Load, ast.boolop, ast.unaryop, ast.cmpop, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv,
    ast.Mod,
)  # fmt: skip


def findings(content: Any) -> Iterator[str]:
    """Yield descriptions of what in a JSON document of an archive could become code."""
    pending = [content]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        if not isinstance(item, dict):
            continue
        for key, value in item.items():
            yield from _entry_findings(key, value)
        pending.extend(item.values())


def _entry_findings(key: str, value: Any) -> Iterator[str]:
    names: list[Any] = []
    if key in _NAMES and isinstance(value, str):
        names = [value]
    elif key == "forward_arg_names" or _VALUES.fullmatch(key):
        names = list(value) if isinstance(value, list | dict) else []
    elif _ATTRIBUTES.fullmatch(key) and isinstance(value, str) and not _QUOTABLE.fullmatch(value):
        yield f"has an attribute called {value[:200]!r}"
    elif key in _NUMBERS and not (value is None or isinstance(value, int)):
        yield f"has {str(value)[:200]!r} where a number should be"
    elif key in _SPECS and isinstance(value, str):
        yield from _spec_findings(value)
    elif key == "guards_code":
        guards = value if isinstance(value, list) else [value]
        yield from (f"has the condition {str(guard)[:200]!r}" for guard in guards if not is_condition(guard))
    yield from (f"calls a value {str(name)[:200]!r}" for name in names if not is_name(name))


def is_name(text: Any) -> bool:
    """Return whether a text is the name of a variable, or empty."""
    return isinstance(text, str) and (not text or (text.isidentifier() and not keyword.iskeyword(text)))


def is_attribute(text: str) -> bool:
    """Return whether a text remains a name when it is put in quotes."""
    return _QUOTABLE.fullmatch(text) is not None


def is_condition(text: Any) -> bool:
    """Return whether a text only compares sizes of inputs and numbers."""
    try:
        tree = ast.parse(text, mode="eval") if isinstance(text, str) and len(text) < 10_000 else None
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return tree is not None and all(_may_be_in_condition(node) for node in ast.walk(tree))


def _may_be_in_condition(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _FUNCTIONS
        case ast.Attribute(value=ast.Name(id="math"), attr=name):
            return not name.startswith("_")
        case ast.Attribute(attr=name):
            return name in _METHODS
        case ast.Call(func=ast.Name() | ast.Attribute(), keywords=[]):
            return True
        case ast.Constant(value=str(text)):
            return re.fullmatch(r"[\w.]*", text) is not None
        case ast.Constant(value=value):
            return value is None or isinstance(value, int | float)
    return isinstance(node, _CONDITION) and not isinstance(node, ast.Call)


def _spec_findings(text: str) -> Iterator[str]:
    """Yield what is wrong with the structure of inputs or outputs: JSON, with JSON texts as contexts."""
    pending: list[Any] = [text]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            if "__enum__" in item or item.get("default_factory_module") not in _HARMLESS_MODULES:
                yield f"has a structure that imports {item.get('fqn') or item.get('default_factory_module')!r}"
            pending.extend((*item, *item.values()))
        elif isinstance(item, str):
            try:
                inner = json.loads(item)
            except RecursionError:
                yield "has a structure without end"
                continue
            except ValueError:
                inner = None
                if not _QUOTABLE.fullmatch(item):
                    yield f"has a structure with the key {item[:200]!r}"
            if isinstance(inner, list | dict | str) and inner != item:
                pending.append(inner)
