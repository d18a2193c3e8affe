"""The rows of the patch table, and the context manager that applies and reverts them."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from types import ModuleType
from typing import Any
from unittest import mock

from ...releases import unknown_part


class Need(Enum):
    """The need for a patch, which decides what happens if its target is missing."""

    RESULT = "without it the program is another one, or none: such a release is refused"
    TIME = "without it a capture takes longer: it is left out"
    MODELS = "without it PyTorch refuses the models that call the target: it is left out, and PyTorch says so"


class Stage(Enum):
    """The time at which a patch is applied."""

    LOAD = auto()
    """One call of torch.export.load."""
    MESSAGES = auto()
    """All captures of a module, including further attempts."""
    WATCH = auto()
    """One capture, while its decisions and changes are recorded."""
    CAPTURE = auto()
    """One call of torch.export."""
    LENGTHS = auto()
    """One call of torch.export, except for one that records gradients, or of run_decompositions."""
    BLOCKS = auto()
    """One call of torch.export that is repeated if blocks turn out to differ."""
    GRADIENTS = auto()
    """One call of torch.export below autograd."""
    DECOMPOSITIONS = auto()
    """One call of run_decompositions."""
    RUNNABLE = auto()
    """One call of `ExportedProgram.module`."""
    TRACE = auto()
    """One call of torch.jit.trace of a module with compiled submodules."""
    DECISIONS = auto()
    """A capture that takes one path of each decision on data."""
    CACHE = auto()
    """A capture of a transformers model, inside its forward."""
    CACHE_SIZES = auto()
    """A run of a transformers model on fake tensors, which determines the content of its cache."""


@dataclass(frozen=True)
class Put:
    """A value that replaces a target."""

    value: Any


@dataclass(frozen=True)
class Wrap:
    """A function `make(original)` that returns the replacement of a target."""

    make: Callable[[Any], Any]


@dataclass(frozen=True)
class Within:
    """A context manager that replaces the targets together; `given` are its arguments, by name."""

    manager: Callable[..., AbstractContextManager[Any]]
    given: tuple[str, ...] = ()


@dataclass(frozen=True)
class Patch:
    """A row of the table.

    - targets: what is replaced, by dotted name; empty if a public mode or the module's own names are enough. A `*`
      stands for each loaded module that has the name.
    - library, releases: the library, and the releases on which the patch's tests have run
    - upstream: an issue or a change of the library about it, if known
    - since, until: the first and last release that needs it, if known
    - where_imported: the patch is for a module that may not be imported, and is then unused
    """

    stage: Stage
    targets: tuple[str, ...]
    change: Put | Wrap | Within
    why: str
    need: Need = Need.RESULT
    library: str = "torch"
    releases: str = "2.10 to 2.14"
    upstream: str = ""
    since: str = ""
    until: str = ""
    where_imported: bool = False


@dataclass(frozen=True)
class Target:
    """A name that can be replaced: its holder, its attribute name, and its current value."""

    holder: Any
    name: str
    value: Any


def target_of(dotted: str) -> Target:
    """Resolve a dotted name, importing its module. Raises `AttributeError` if it is missing."""
    holder, names = importlib.import_module(dotted.split(".")[0]), dotted.split(".")
    path = names[0]
    for name in names[1:-1]:
        path = f"{path}.{name}"
        if isinstance(holder, ModuleType) and not hasattr(holder, name):
            importlib.import_module(path)
        holder = getattr(holder, name)
    last = names[-1]
    if isinstance(holder, ModuleType) and not hasattr(holder, last) and hasattr(builtins, last):
        return Target(holder, last, getattr(builtins, last))  # a module's own name would shadow Python's
    return Target(holder, last, getattr(holder, last))


@contextmanager
def in_place(rows: Iterable[Patch], **given: Any) -> Iterator[Mapping[Any, Any]]:
    """Apply patches in the order of the rows, and revert them at the end.

    Yields what the context managers among them yield, by manager. Raises `Unsupported`, naming the release, if it lacks
    the target of a patch that the result depends on.
    """
    entered: dict[Any, Any] = {}
    with ExitStack() as stack:
        for row in rows:
            if row.where_imported and not any(map(_is_imported, row.targets)):
                continue
            try:
                found = [target for name in row.targets for target in _targets(name)]
                for change in _changes(row, found, given):
                    value = stack.enter_context(change)
                    if isinstance(row.change, Within):
                        entered[row.change.manager] = value
            except (AttributeError, ImportError) as error:
                if row.need is Need.RESULT:
                    raise unknown_part(error, row.library) from error
        yield entered


def _changes(row: Patch, targets: list[Target], given: Mapping[str, Any]) -> Iterator[AbstractContextManager[Any]]:
    match row.change:
        case Within(manager, names):
            yield manager(**{name: given[name] for name in names})
        case Put(value):
            yield from (mock.patch.object(t.holder, t.name, value) for t in targets)
        case Wrap(make):
            yield from (mock.patch.object(t.holder, t.name, make(t.value)) for t in targets)


def _targets(dotted: str) -> list[Target]:
    """Return the targets of a name; for one with a `*`, those of loaded modules."""
    package, star, name = dotted.partition(".*.")
    if not star:
        return [target_of(dotted)]
    loaded = [module for place, module in list(sys.modules.items()) if place.startswith(f"{package}.")]
    return [Target(module, name, vars(module)[name]) for module in loaded if name in vars(module)]


def _is_imported(dotted: str) -> bool:
    """Return whether the module of a function, or of a class's method, is loaded."""
    holder = dotted.rpartition(".")[0]
    place, _, name = holder.rpartition(".")
    return (place if name[:1].isupper() else holder) in sys.modules
