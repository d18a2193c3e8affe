"""Values that leave a branch or pass between steps of a loop: decomposed into leaves, compared, and rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Dim, Graph

from ..common.complexes import ComplexPair
from ..common.values import cast, mark_scalar, onnx_dtype
from .context import Walk
from .numbers import as_number
from .sequences import set_sequence_type
from .snapshots import MAYBE, Path, Slot, Snapshot, Tree, as_optional, is_optional, may_be_none
from .values import (
    NUMBERS,
    UNINITIALIZED,
    UNKNOWN,
    Container,
    Dict,
    List,
    Mutable,
    Number,
    Object,
    OptionalValue,
    Sequence,
    Tensor,
    TensorState,
    View,
    mark_listed,
    read,
)


def snapshot(walk: Walk, value: Any) -> Tree:
    """Return a copy of a value's present state, which later writes do not change.

    Raises `Unsupported` for a complex tensor.
    """
    if isinstance(value, List) and isinstance(value.state, tuple):
        return Snapshot(value, tuple(snapshot(walk, v) for v in value.state))
    if isinstance(value, Dict):
        return Snapshot(value, tuple(snapshot(walk, v) for v in value.state.values()), tuple(value.state))
    if isinstance(value, Object) and (value.written or value.script is None):
        # A module's attributes stay unless the program assigns to them; an object of the program's own has no other
        # state.
        names = tuple(sorted(n for n in value.state if n in value.written or value.script is None))
        return Snapshot(value, tuple(snapshot(walk, value.state[n]) for n in names), names)
    if isinstance(value, OptionalValue):
        return Snapshot(None, (snapshot(walk, value.present), snapshot(walk, value.value)), MAYBE)
    if isinstance(value, tuple):
        return Snapshot(None, tuple(snapshot(walk, v) for v in value))
    if isinstance(value, Tensor):
        content: Any = read(walk.memory, value)
        if isinstance(content, ComplexPair):
            raise Unsupported("a complex tensor that a branch or a step of a loop, which depends on data, gives")
        if isinstance(content, torch.Tensor):
            return Slot(content, value, Tensor, onnx_dtype(content.dtype), tuple(content.shape), value.state.example)
        shape = walk.g.shape(content) if isinstance(content, ir.Value) and content.shape is not None else None
        return Slot(content, value, Tensor, getattr(content, "dtype", None), shape, value.state.example)
    if isinstance(value, List) and isinstance(value.state, Sequence):
        state = value.state
        return Slot(state, value, Sequence, state.dtype, _unknown_dims(state.rank), None, state.item)
    kind = value.kind if isinstance(value, Number) else type(value)
    example = value.example if isinstance(value, Number) else value
    return Slot(value, None, kind, NUMBERS[kind], (), example) if kind in NUMBERS else Slot(value)


def complete_snapshot(walk: Walk, tree: Tree, other: Tree) -> Tree:
    """Return a module's snapshot with the attributes that only `other` has: their present values, which never
    changed.
    """
    if not isinstance(tree, Snapshot) or not isinstance(other, Snapshot) or not isinstance(tree.obj, Object):
        return tree
    here = dict(zip(tree.keys, tree.items, strict=True))
    state = tree.obj.state
    here |= {name: snapshot(walk, state[name]) for name in other.keys if name not in here and name in state}
    return replace(tree, keys=tuple(sorted(here)), items=tuple(here[name] for name in sorted(here)))


def is_unknown(tree: Tree) -> bool:
    """Return whether any leaf comes from an operator without a rule."""
    return any(map(is_unknown, tree.items)) if isinstance(tree, Snapshot) else tree.content is UNKNOWN


def as_sequence_slot(tree: Tree) -> Slot:
    """Return a list as one leaf: the sequence of its items.

    Raises `Unsupported` if the items are not tensors of one dtype, or numbers of one type.
    """
    if isinstance(tree, Slot):
        return tree
    items = [i for i in tree.items if isinstance(i, Slot) and i.kind is not None]
    if len(items) != len(tree.items) or len({(i.kind, i.dtype) for i in items}) > 1:
        raise Unsupported("a list of unknown length of something else than tensors of one dtype, or numbers")
    ranks = {None if i.shape is None else len(i.shape) for i in items}
    shape = _unknown_dims(ranks.pop()) if len(ranks) == 1 else None
    for item in items:
        if isinstance(item.obj, Tensor):
            mark_listed(item.obj)
    first = items[0] if items else None
    return Slot(tree, tree.obj, Sequence, first.dtype if first else None, shape, None, first.kind if first else None)


def _unknown_dims(rank: int | None) -> tuple[Dim, ...] | None:
    return None if rank is None else (None,) * rank


# -- comparing --------------------------------------------------------------------------------------------------------

Leaf = Callable[[Path, Slot, Slot], Any]


Joined: TypeAlias = dict[tuple[int, int], Any]
"""The objects made for pairs of lists, dicts or objects, so that two names of one object still share it."""


def merge_snapshots(
    walk: Walk, a: Tree, b: Tree, leaf: Leaf, path: Path = (), *, own: bool = False, joined: Joined | None = None
) -> Any:
    """Merge two snapshots into one value: `leaf(path, a, b)` where they differ; an object that both hold stays.

    `own` compares the content of an object rather than its identity. Raises `Unsupported` for values of different
    structure.
    """
    a, b = match_structure(a, b), match_structure(b, a)
    if isinstance(a, Snapshot) and isinstance(b, Snapshot):
        if a.obj is not None and a.obj is b.obj and not own:
            return a.obj
        if isinstance(a.obj, List) and isinstance(b.obj, List) and len(a.items) != len(b.items):
            return leaf(path, as_sequence_slot(a), as_sequence_slot(b))
        if len(a.items) != len(b.items) or a.keys != b.keys or type(a.obj) is not type(b.obj):
            raise Unsupported("a tuple or dict whose items depend on data")
        if a.obj is not b.obj and any(isinstance(t.obj, Object) and t.obj.script is not None for t in (a, b)):
            raise Unsupported("which of two modules is meant, as the data decides")
        items = [
            merge_snapshots(walk, x, y, leaf, (*path, i), joined=joined)
            for i, (x, y) in enumerate(zip(a.items, b.items, strict=True))
        ]
        made = _build_container(walk, a, items)
        if joined is None or own or not isinstance(made, Container):
            return made
        _link_older(walk, made, a.obj, b.obj)
        return joined.setdefault((id(a.obj), id(b.obj)), made)
    if isinstance(a, Snapshot) or isinstance(b, Snapshot):
        if all(isinstance(t.obj, List) for t in (a, b)):
            return leaf(path, as_sequence_slot(a), as_sequence_slot(b))
        raise Unsupported(f"a variable that is {_describe(a)} or {_describe(b)}, as the data decides")
    return _slot_value(a) if _is_same(a, b, own) else leaf(path, a, b)


def build_value(walk: Walk, tree: Tree, given: dict[Path, Any], path: Path = (), *, own: bool = False) -> Any:
    """Rebuild the value of a snapshot with `given[path]` at each given path; objects that contain no such path stay."""
    if path in given:
        return given[path]
    if isinstance(tree, Slot):
        return _slot_value(tree)
    if tree.obj is not None and not own and not any(p[: len(path)] == path for p in given):
        return tree.obj
    made = _build_container(walk, tree, [build_value(walk, t, given, (*path, i)) for i, t in enumerate(tree.items)])
    if not own and isinstance(made, Container):
        _link_older(walk, made, tree.obj)
    return made


def _link_older(walk: Walk, made: Container, *objs: Any) -> None:
    """Link a new list, dict or object to the older ones that it stands for, which exist since before the finished
    branch or step.
    """
    found: list[Any] = [t for t in objs if isinstance(t, Container) and t is not made]
    older = [t for t in found if t.scope <= walk.memory.scope]
    walk.memory.link(made, list(dict.fromkeys(older)))


def leaf_at(tree: Tree, path: Path) -> Slot:
    """Return the leaf at `path`."""
    return leaf_at(tree.items[path[0]], path[1:]) if path and isinstance(tree, Snapshot) else as_sequence_slot(tree)


def match_structure(tree: Tree, other: Tree) -> Tree:
    """Return `tree` in the structure of `other`: an optional if either may be None, empty items if never
    initialized.
    """
    if may_be_none(tree, other):
        tree, other = as_optional(tree), as_optional(other)
    if isinstance(tree, Slot):
        if tree.content is not UNINITIALIZED or isinstance(other, Slot):
            return tree
        fresh = {List: lambda: List(()), Dict: lambda: Dict({})}.get(type(other.obj))
        tree = Snapshot(fresh() if fresh else other.obj, (tree,) * len(other.items), other.keys)
    if isinstance(other, Slot) or len(tree.items) != len(other.items):
        return tree
    return replace(tree, items=tuple(match_structure(x, y) for x, y in zip(tree.items, other.items, strict=True)))


def _build_container(walk: Walk, like: Snapshot, items: list[Any]) -> Any:
    if is_optional(like):
        return OptionalValue(*items)
    if like.obj is None:
        return tuple(items)
    if isinstance(like.obj, List):
        return List(tuple(items), walk.memory.scope)
    contents = dict(zip(like.keys, items, strict=True))
    if isinstance(like.obj, Object):
        made = Object(like.obj.script, like.obj.path, {**like.obj.state, **contents}, walk.memory.scope)
        made.written |= like.obj.written
        return made
    return Dict(contents, walk.memory.scope)


def _slot_value(slot: Slot) -> Any:
    return slot.obj if slot.obj is not None else slot.content


def _is_same(a: Slot, b: Slot, own: bool) -> bool:
    """Return whether two leaves hold the same value, so that nothing has to be computed."""
    if a.obj is not None or b.obj is not None:
        return a.obj is b.obj and (not own or a.content is b.content)
    if isinstance(a.content, Number) and isinstance(b.content, Number):
        return a.content.value is b.content.value
    return a.content is b.content or (type(a.content) is type(b.content) and bool(a.content == b.content))


def _describe(tree: Tree) -> str:
    if isinstance(tree, Snapshot):
        return "a tuple" if tree.obj is None else f"a {type(tree.obj).__name__.lower()}"
    if tree.kind is Tensor:
        return f"a tensor of {tree.dtype.name.lower() if tree.dtype else 'unknown dtype'}"
    return repr(tree.content) if tree.kind is None else "a list" if tree.kind is Sequence else f"a {tree.kind.__name__}"


def common_slot(a: Slot, b: Slot) -> Slot:
    """Return a slot that can hold either; `a` itself if it can hold `b`. Raises `Unsupported` if there is none."""
    if b.kind is Sequence and b.dtype is None and a.kind is Sequence:
        return a
    if a.kind is Sequence and a.dtype is None and b.kind is Sequence:
        return b
    if a.content is UNINITIALIZED or b.content is UNINITIALIZED:
        return _allow_blank(b if a.content is UNINITIALIZED else a)
    if a.kind is None or a.kind is not b.kind or a.dtype != b.dtype or a.item is not b.item:
        raise Unsupported(f"a variable that is {_describe(a)} or {_describe(b)}, as the data decides")
    shape = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
    return a if shape == a.shape else replace(a, shape=shape, example=a.example if shape is not None else None)


def _allow_blank(slot: Slot) -> Slot:
    """Return a slot that can also hold the `_blank_value` of a value that is never read, whose named dims have length
    1.
    """
    shape = None if slot.shape is None else tuple(d if isinstance(d, int) else None for d in slot.shape)
    return slot if shape == slot.shape else replace(slot, shape=shape)


# -- in and out of graphs ---------------------------------------------------------------------------------------------


def as_input(slot: Slot, body: Graph) -> ir.Value:
    """Add an input for a slot to a loop's body."""
    assert slot.dtype is not None
    value = body.input("list" if slot.kind is Sequence else "carried", slot.dtype, slot.shape)
    return set_sequence_type(value, slot.dtype) if slot.kind is Sequence else value


def as_output(walk: Walk, slot: Slot, g: Graph, like: Slot) -> ir.Value:
    """Return the content of a slot as a value in graph `g`; a value that is never read gets the type of `like`."""
    outer, walk.g = walk.g, g
    try:
        if slot.content is UNINITIALIZED:
            return _blank_value(g, like)
        if slot.kind is Tensor:
            return walk.value(slot.content)
        if slot.kind is not Sequence:
            return as_number(g, slot.content)
        if isinstance(slot.content, Sequence):
            return slot.content.value
        assert like.dtype is not None
        items = [as_output(walk, i, g, i) for i in slot.content.items]
        return set_sequence_type(
            g.SequenceConstruct(*items) if items else g.SequenceEmpty(dtype=like.dtype), like.dtype
        )
    finally:
        walk.g = outer


def _blank_value(g: Graph, like: Slot) -> ir.Value:
    assert like.dtype is not None
    if like.kind is Sequence:
        return set_sequence_type(g.SequenceEmpty(dtype=like.dtype), like.dtype)
    dims = [d if isinstance(d, int) else 1 for d in like.shape or ()]
    return cast(g, g.Expand(0.0, dims), like.dtype) if dims else cast(g, g.const(0.0), like.dtype)


def as_value(walk: Walk, slot: Slot, value: ir.Value, *others: Any, own: bool = False) -> Any:
    """Return the program's value for an ONNX value in a slot; it may share memory with the tensors `others`.

    `own`: the value is the content of the only object in `others`, not another object.
    """
    if slot.kind is Sequence:
        assert slot.dtype is not None
        rank = None if slot.shape is None else len(slot.shape)
        made = List(Sequence(set_sequence_type(value, slot.dtype), slot.dtype, rank, slot.item), walk.memory.scope)
        if not own:
            _link_older(walk, made, *others)
        return made
    walk.g.facts(value, dtype=slot.dtype, shape=slot.shape)
    if slot.kind is not Tensor:
        return Number(mark_scalar(value), slot.kind, slot.example)
    tensor = walk.tensor(value, slot.example)
    tensor.listed = any(isinstance(t, Tensor) and t.listed for t in others)
    bases = tuple(dict.fromkeys(b for t in others if isinstance(t, Tensor) for b in _outer_bases(walk, t)))
    if bases:
        tensor.view = View(bases)
        tensor.state = replace(tensor.state, seen=tensor.view.versions)
    return tensor


def _outer_bases(walk: Walk, tensor: Tensor) -> list[Tensor]:
    """Return the tensors, older than the finished branch or step, that `tensor` is or may be a view of."""
    if tensor.scope <= walk.memory.scope:
        return [tensor]
    return [] if tensor.view is None else [b for base in tensor.view.bases for b in _outer_bases(walk, base)]


def restore_state(walk: Walk, obj: Mutable, value: Any, *, effect: bool = True) -> None:
    """Give an object the state of `value`."""
    state = value.state
    if isinstance(obj, Tensor):
        seen = obj.view.versions if obj.view is not None else ()
        example = obj.state.example if state.example is None else state.example
        state = TensorState(state.content, example, walk.memory.version(), seen)
    walk.memory.write(obj, state, effect=effect)


def forget_state(walk: Walk, obj: Mutable) -> None:
    """Make an object's content unknown, after an operator without a rule."""
    if isinstance(obj, Tensor):
        walk.memory.write(obj, replace(obj.state, content=UNKNOWN, version=walk.memory.version()))
    else:
        walk.memory.write(obj, UNKNOWN if isinstance(obj, List) else dict.fromkeys(obj.state, UNKNOWN))
