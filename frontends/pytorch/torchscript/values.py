"""The values of a TorchScript program during its conversion: mutable tensors, lists, run-time numbers.

Python numbers, strings, None and tuples represent themselves. Everything that TorchScript can write to is an object
with a `state` that is replaced but never mutated, so that `Memory` can undo the writes of one branch of a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import onnx_ir as ir
import torch

from convert.errors import Location, Unsupported


class Unknown:
    """The result of an operator without a rule: interpretation continues after it, to list the other missing rules
    too.
    """

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()
UNINITIALIZED = object()
"""The content of a variable that the program never reads (`prim::Uninitialized`)."""

Content: TypeAlias = "ir.Value | torch.Tensor | Unknown"
"""A tensor's values: in the ONNX graph, or a constant (parameter, buffer, literal) that is not in it yet."""


@dataclass(frozen=True)
class Number:
    """An int, float or bool that is known at run time only; `value` has rank 0, `example` is a possible value."""

    value: ir.Value
    kind: type
    example: Any = None


@dataclass(frozen=True)
class View:
    """The relation of a view to its bases: `replay` computes its content from the first base, `scatter` writes it back.

    `replay` is None if the tensor may or may not share memory with the bases (for reshape the strides decide). `epoch`
    is the epoch of the base when the view was made.
    """

    bases: tuple[Tensor, ...]
    replay: Callable[[Any], Any] | None = None
    scatter: Callable[[Any, Any], Any] | None = None
    epoch: int = 0

    @property
    def versions(self) -> tuple[int, ...]:
        """The present versions of the bases."""
        return tuple(base.state.version for base in self.bases)


@dataclass(frozen=True)
class TensorState:
    """`version` is new with each write; `seen` are the versions of the bases from which `content` was computed.

    `stale` is True if a write may have changed the content in an unknown way; `where` is the location of the last
    write.
    """

    content: Any
    example: torch.Tensor | None = None
    version: int = 0
    seen: tuple[int, ...] = ()
    stale: bool = False
    where: str = ""


@dataclass(eq=False)
class Tensor:
    """A tensor of the program: an identity, with content that in-place operators replace.

    `scope` is the scope in which it was made, `epoch` counts in-place changes of its shape. A `listed` tensor may share
    memory with an item of a list that became an ONNX sequence. The sequence holds copies, so nothing may write to such
    a tensor.
    """

    state: TensorState
    view: View | None = None
    scope: int = 0
    epoch: int = 0
    listed: bool = False


class Lost:
    """The state of a list, dict or object that may have been changed under another name: every access is refused."""

    def _refuse(self, *_: Any) -> Any:
        raise Unsupported(
            "a list, dict or object that was changed under a name that stands for it or for another one, as the data "
            "decides, so that what it holds is not certain"
        )

    __getattr__ = __getitem__ = __iter__ = __len__ = __contains__ = __bool__ = _refuse


@dataclass(eq=False)
class Container:
    """A list, dict or object, which several names may share.

    If data selects the container, it is one of `may_be`; `stands` is the inverse relation. In the graph these are
    different objects, because a graph copies, but in PyTorch they are one: see `Memory.write`.
    """

    may_be: list[Any] = field(default_factory=list, kw_only=True, repr=False)
    stands: list[Any] = field(default_factory=list, kw_only=True, repr=False)


@dataclass(eq=False)
class List(Container):
    """A list of the program; `state` is a tuple of its items, or a `Sequence` if its length is not known."""

    state: Any
    scope: int = 0


@dataclass(frozen=True)
class Sequence:
    """The items of a list that grows inside a loop of unknown length: an ONNX sequence of tensors.

    `item` is Tensor, or int, float or bool for a list of numbers.
    """

    value: ir.Value
    dtype: ir.DataType
    rank: int | None
    item: type


@dataclass(eq=False)
class Dict(Container):
    """A dict of the program; `state` is a Python dict that is replaced as a whole."""

    state: dict[Any, Any]
    scope: int = 0


@dataclass(eq=False)
class Object(Container):
    """A module (or instance of a TorchScript class) and its path; `state` holds the attributes accessed so far.

    `read` names the attributes whose initial value was read; `written` those that were assigned to, with the location.
    """

    script: Any
    path: str
    state: dict[str, Any] = field(default_factory=dict)
    scope: int = 0
    written: dict[str, Location] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class OneOf:
    """One of a list's modules, all of one interface, at a run-time index."""

    place: Number
    modules: tuple[Object, ...]


@dataclass(frozen=True)
class OptionalValue:
    """An optional whose presence depends on data; `value` is read only if `present` (a bool or Number) is true."""

    present: Any
    value: Any


class RunTimeText(str):
    """A text that contains run-time values, shown as "…": good enough for a message, but equal to no other text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True)
class Function:
    """A TorchScript function as a value: `node` is the constant that names it."""

    node: Any


NUMBERS = {int: ir.DataType.INT64, float: ir.DataType.DOUBLE, bool: ir.DataType.BOOL}
"""The dtypes that hold Python's numbers exactly."""

Mutable: TypeAlias = "Tensor | List | Dict | Object"


@dataclass
class Memory:
    """Records which objects were written since a scope began, so that a branch can be undone and its writes
    compared.
    """

    journal: list[tuple[Any, Any, bool]] = field(default_factory=list)
    links: list[Any] = field(default_factory=list)
    scope: int = 0
    scopes: int = 0
    versions: int = 0

    def write(self, obj: Mutable, state: Any, *, effect: bool = True) -> None:
        """Replace the state of `obj`; with `effect` False, the write only refreshes a cache.

        Lists, dicts and objects that may be the same object under another name become `Lost`, because their content is
        then uncertain.
        """
        self.journal.append((obj, obj.state, effect))
        obj.state = state
        if effect and isinstance(obj, Container):
            for other in _others(obj):
                self.lose(other)

    def lose(self, obj: Any) -> None:
        """Forbid access to a list, dict or object, and to nothing else."""
        self.journal.append((obj, obj.state, True))
        obj.state = Lost()

    def link(self, new: Container, objs: list[Any]) -> None:
        """Note that data may decide that `new` stands for one of these lists, dicts or objects."""
        for obj in objs:
            new.may_be.append(obj)
            obj.stands.append(new)
        self.links += objs

    def recall(self, obj: Object, name: str, value: Any) -> None:
        """Add an attribute that `obj` always had to its recorded states before each write."""
        for i, (other, state, effect) in enumerate(self.journal):
            if other is obj and name not in state:
                self.journal[i] = (obj, {**state, name: value}, effect)

    def version(self) -> int:
        """Return a number that no content had before."""
        self.versions += 1
        return self.versions

    def written(self, since: int) -> list[Mutable]:
        """Return the objects older than the current scope that were written since the journal had length `since`."""
        found = {id(t): t for t, _, effect in self.journal[since:] if effect and t.scope < self.scope}
        return list(found.values())

    @contextmanager
    def trial(self) -> Iterator[int]:
        """Open a scope whose writes are undone at its end; yields the length of the journal at its beginning."""
        start, outer, links = len(self.journal), self.scope, len(self.links)
        self.scopes += 1
        self.scope = self.scopes
        try:
            yield start
        finally:
            for obj, state, _ in reversed(self.journal[start:]):
                obj.state = state
            del self.journal[start:]
            for obj in self.links[links:]:
                obj.stands.pop()
            del self.links[links:]
            self.scope = outer


def _others(obj: Container) -> list[Any]:
    """Return all containers that may be the same object as `obj`, by following `may_be` and then `stands`."""
    found: list[Any] = [obj]
    for one in found:
        found += [other for other in one.may_be if other not in found]
    for one in found:
        found += [other for other in one.stands if other not in found]
    return [other for other in found if not isinstance(other.state, Lost)][1:] if len(found) > 1 else []


def is_lost(obj: Any) -> bool:
    """Return whether the content of a tensor, list, dict or object is uncertain."""
    return obj.state.stale if isinstance(obj, Tensor) else isinstance(obj.state, Lost)


def is_known(value: Any) -> bool:
    """Return whether a value is independent of the model's inputs."""
    if isinstance(value, Tensor):
        return isinstance(value.state.content, torch.Tensor) and not value.state.stale
    if isinstance(value, List):
        return isinstance(value.state, tuple) and all(map(is_known, value.state))
    if isinstance(value, Dict):
        return all(map(is_known, value.state.values()))
    if isinstance(value, tuple):
        return all(map(is_known, value))
    return (
        not isinstance(value, (Number, OneOf, OptionalValue, RunTimeText, Unknown, ir.Value))
        and value is not UNINITIALIZED
    )


def has_unknown(value: Any) -> bool:
    """Return whether a value comes from an operator without a rule."""
    if isinstance(value, Tensor):
        return isinstance(value.state.content, Unknown)
    if isinstance(value, List):
        return has_unknown(value.state)
    if isinstance(value, Dict):
        return any(map(has_unknown, value.state.values()))
    if isinstance(value, OptionalValue):
        return has_unknown((value.present, value.value))
    if isinstance(value, (tuple, list)):
        return any(map(has_unknown, value))
    return isinstance(value, Unknown)


def read(memory: Memory, tensor: Tensor) -> Content:
    """Return the present content of a tensor, recomputed from its base if the base was written since.

    Raises `Unsupported` if a write may have changed it in an unknown way.
    """
    if tensor.state.stale:
        raise Unsupported(_uncertain_message(tensor.state.where))
    view = tensor.view
    if view is not None and not _is_fresh(tensor):
        if view.replay is None or view.epoch != view.bases[0].epoch:
            raise Unsupported(_uncertain_message(view.bases[0].state.where))
        base = read(memory, view.bases[0])
        content = base if isinstance(base, Unknown) else view.replay(base)
        state = replace(tensor.state, content=content, version=memory.version(), seen=view.versions)
        memory.write(tensor, state, effect=False)
    return tensor.state.content


def read_content(memory: Memory, tensor: Tensor) -> ir.Value | torch.Tensor:
    """Return `read` of a tensor. The caller ensures that no operator without a rule computed it."""
    content = read(memory, tensor)
    assert not isinstance(content, Unknown)
    return content


def _uncertain_message(where: str) -> str:
    by = f"the in-place operator {where}" if where else "an in-place operator before"
    return (
        f"{by} wrote to memory that this tensor may or may not share (after a reshape, or if the data decides which "
        "tensor it is), so that its value is not certain"
    )


def write(memory: Memory, tensor: Tensor, content: Content, example: torch.Tensor | None, where: str = "") -> None:
    """Replace the content of a tensor and of every tensor of which it is a view."""
    _refuse_listed(tensor)
    view = tensor.view
    if view is not None and view.scatter is not None and not isinstance(content, Unknown):
        base = view.bases[0]
        write(memory, base, view.scatter(read(memory, base), content), base.state.example, where)
    elif view is not None:
        for base in view.bases:
            mark_stale(memory, base, where)
    seen = () if view is None else view.versions
    memory.write(tensor, TensorState(content, example, memory.version(), seen, where=where))


def mark_stale(memory: Memory, tensor: Mutable, where: str = "") -> None:
    """Forbid access to a tensor, list, dict or object that a write may have changed in an unknown way.

    Other views of a tensor's memory are forbidden too.
    """
    if not isinstance(tensor, Tensor):
        memory.lose(tensor)
        return
    _refuse_listed(tensor)
    seen: tuple[int, ...] = ()
    if tensor.view is not None:
        for base in tensor.view.bases:
            mark_stale(memory, base, where)
        seen = tensor.view.versions
    memory.write(tensor, replace(tensor.state, stale=True, version=memory.version(), seen=seen, where=where))


def mark_listed(tensor: Tensor) -> None:
    """Note that an ONNX sequence holds a copy of a tensor: from now on nothing may write to it or to its bases."""
    tensor.listed = True
    for base in tensor.view.bases if tensor.view is not None else ():
        mark_listed(base)


def _refuse_listed(tensor: Tensor) -> None:
    if tensor.listed:
        raise Unsupported(
            "an in-place operator writes to memory that an item of a list of unknown length may share; a graph's list "
            "holds copies"
        )


def _is_fresh(tensor: Tensor) -> bool:
    view = tensor.view
    return view is None or (tensor.state.seen == view.versions and all(map(_is_fresh, view.bases)))
