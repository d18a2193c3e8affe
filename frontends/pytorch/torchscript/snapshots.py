"""Snapshots of values of a TorchScript program: trees whose leaves ONNX nodes can carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx_ir as ir

from convert.graph import Dim

from .values import NUMBERS, UNINITIALIZED, Sequence


@dataclass(frozen=True)
class Slot:
    """A leaf: the content of a tensor, a number, string or None, or a list that became a sequence.

    `kind` is Tensor, int, float, bool, Sequence, or None for what cannot vary; `item` is the kind of a list's items.
    """

    content: Any
    obj: Any = None
    kind: Any = None
    dtype: ir.DataType | None = None
    shape: tuple[Dim, ...] | None = None
    example: Any = None
    item: Any = None


@dataclass(frozen=True)
class Snapshot:
    """The content of a list, dict, tuple or module at one moment; `obj` is the object, `keys` those of a dict."""

    obj: Any
    items: tuple[Any, ...]
    keys: tuple[Any, ...] = ()


Tree: TypeAlias = "Slot | Snapshot"
Path = tuple[int, ...]

MAYBE = ("present", "value")
"""The keys of the snapshot of an `OptionalValue`."""


# -- optionals --------------------------------------------------------------------------------------------------------


def is_optional(tree: Tree) -> bool:
    """Return whether a snapshot is an optional whose presence depends on data."""
    return isinstance(tree, Snapshot) and tree.obj is None and tree.keys == MAYBE


def may_be_none(a: Tree, b: Tree) -> bool:
    """Return whether a variable that is `a` or `b` may be None, but need not be."""
    if is_optional(a) or is_optional(b):
        return not (_is_blank(a) or _is_blank(b))
    one, other = (a, b) if _is_none(a) else (b, a)
    return _is_none(one) and (isinstance(other, Snapshot) or other.kind not in (None, Sequence))


def as_optional(tree: Tree) -> Snapshot:
    """Return a value or None as an optional."""
    if isinstance(tree, Snapshot) and is_optional(tree):
        return tree
    there = not _is_none(tree)
    return Snapshot(
        None, (Slot(there, None, bool, NUMBERS[bool], (), there), tree if there else Slot(UNINITIALIZED)), MAYBE
    )


def _is_none(tree: Tree) -> bool:
    return isinstance(tree, Slot) and tree.content is None


def _is_blank(tree: Tree) -> bool:
    return isinstance(tree, Slot) and tree.content is UNINITIALIZED
