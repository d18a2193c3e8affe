"""What a row of the table of patches is, and the one manager that puts rows in place and takes them away again."""

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
    """What a conversion is without a patch, which decides what is done where a target is missing."""

    RESULT = "without it the program is another one, or none: such a release is refused"
    TIME = "without it a capture takes longer: it is left out"
    MODELS = "without it PyTorch refuses the models that call the target: it is left out, and PyTorch says so"


class Stage(Enum):
    """When a patch is in place."""

    MESSAGES = auto()
    """All captures of a module, the further tries among them."""
    WATCH = auto()
    """One capture: what it decides and changes is written down."""
    CAPTURE = auto()
    """One call of torch.export."""
    LENGTHS = auto()
    """One call of torch.export, but for one that records gradients."""
    BLOCKS = auto()
    """One call of torch.export that is made again where blocks turn out to differ."""
    GRADIENTS = auto()
    """One call of torch.export below autograd."""
    DECISIONS = auto()
    """A capture that takes one way of each decision on data."""
    CACHE = auto()
    """A capture of a transformers model, inside of its forward."""
    CACHE_SIZES = auto()
    """A run of a transformers model without content, which says what its cache holds."""


@dataclass(frozen=True)
class Put:
    """A value in the place of a target's."""

    value: Any


@dataclass(frozen=True)
class Wrap:
    """A function `make(original)` that gives what is put in the place of a target."""

    make: Callable[[Any], Any]


@dataclass(frozen=True)
class Within:
    """A context manager that exchanges the targets together; `given` are the arguments that it takes, by name."""

    manager: Callable[..., AbstractContextManager[Any]]
    given: tuple[str, ...] = ()


@dataclass(frozen=True)
class Patch:
    """A row of the table.

    targets: what is replaced, by its dotted name; none where a public mode or the module's own names are enough. A `*`
    stands for each module that is loaded and has the name. library, releases: whose they are, and on which releases
    the tests of the patch have run. upstream: an issue or a change of the library about it, as far as one is known.
    since, until: the releases from which and up to which the library needs it, where that is known. where_imported: the
    patch is for a module that may not have been imported, and then no program calls it.
    """

    stage: Stage
    targets: tuple[str, ...]
    change: Put | Wrap | Within
    why: str
    need: Need = Need.RESULT
    library: str = "torch"
    releases: str = "2.13, 2.14"
    upstream: str = ""
    since: str = ""
    until: str = ""
    where_imported: bool = False


@dataclass(frozen=True)
class Target:
    """A name that can be replaced: what holds it, what it is called there, and what it is now."""

    holder: Any
    name: str
    value: Any


def target_of(dotted: str) -> Target:
    """Find what a dotted name stands for, and import its module. Raises `AttributeError` where it is missing."""
    holder, names = importlib.import_module(dotted.split(".")[0]), dotted.split(".")
    path = names[0]
    for name in names[1:-1]:
        path = f"{path}.{name}"
        if isinstance(holder, ModuleType) and not hasattr(holder, name):
            importlib.import_module(path)
        holder = getattr(holder, name)
    last = names[-1]
    if isinstance(holder, ModuleType) and not hasattr(holder, last) and hasattr(builtins, last):
        return Target(holder, last, getattr(builtins, last))  # a module's own name would hide Python's
    return Target(holder, last, getattr(holder, last))


@contextmanager
def in_place(rows: Iterable[Patch], **given: Any) -> Iterator[Mapping[Any, Any]]:
    """Put patches in place, in the order of the rows, and take them away at the end.

    Yields what the context managers among them yield, by the manager. Raises `Unsupported`, which names the release,
    if one lacks what a patch that decides about the result replaces.
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
    """The target of a name; of one with a `*` those of the modules that are loaded."""
    package, star, name = dotted.partition(".*.")
    if not star:
        return [target_of(dotted)]
    loaded = [module for place, module in list(sys.modules.items()) if place.startswith(f"{package}.")]
    return [Target(module, name, vars(module)[name]) for module in loaded if name in vars(module)]


def _is_imported(dotted: str) -> bool:
    """Whether the module of a function is loaded."""
    return dotted.rpartition(".")[0] in sys.modules
