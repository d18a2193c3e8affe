"""Classes in the inputs or outputs of an exported program that no library here has registered, such as transformers'
outputs.

`torch.export.load` looks a class up by the name that its library registers at import. Only the names of its parts are
needed, and the file has these; so no library is imported because a file names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..torch_internals import fx_pytree, pytree


class StoredParts(dict[str | int, Any]):
    """The parts of an object by name, or by position if the file has no names; `context` is what the file says."""

    context: Any = None


@contextmanager
def stand_in_classes() -> Iterator[None]:
    """Replace each unregistered name by its own class of `StoredParts` while a program is loaded."""
    registered = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
    pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE = _AnyName(registered)
    try:
        yield
    finally:
        pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE = registered


class _AnyName(dict[str, type[Any]]):
    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __missing__(self, name: str) -> type[Any]:
        if name not in _STAND_INS:
            _STAND_INS[name] = type("StoredParts", (StoredParts,), {})
            _register(_STAND_INS[name], name)
        return _STAND_INS[name]


_STAND_INS: dict[str, type[StoredParts]] = {}
"""Placeholder classes by their names in files; a class created twice would be two different structures."""


def _register(stand_in: type[StoredParts], name: str) -> None:
    def unflatten(parts: Any, context: Any) -> StoredParts:
        parts = list(parts)
        made = stand_in(zip(part_names(context, len(parts)), parts, strict=True))
        made.context = context
        return made

    pytree.register_pytree_node(
        stand_in,
        lambda made: ([*made.values()], made.context),
        unflatten,
        serialized_type_name=name,
        from_dumpable_context=_plain_context,
        to_dumpable_context=json.dumps,
        flatten_with_keys_fn=lambda made: ([(pytree.MappingKey(k), part) for k, part in made.items()], made.context),
    )
    fx_pytree.register_pytree_flatten_spec(stand_in, lambda made, spec: [*made.values()])


def _plain_context(text: Any) -> Any:
    """Return the parsed JSON, or the text; PyTorch's own reader would import the module of an enumeration in it."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def part_names(context: Any, count: int) -> list[str] | list[int]:
    """Return the names of `count` parts: a list of them, as for dicts, or the first of two lists, as for
    dataclasses.
    """
    for names in (context, context[0] if isinstance(context, list) and context else None):
        if isinstance(names, list) and len({n for n in names if isinstance(n, str)}) == len(names) == count:
            return names
    return list(range(count))
