"""Imports a framework without the chatter that its libraries print before their log levels apply."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from convert.interpreter import is_own_process, one_thread_at_a_time


def import_quietly(
    name: str,
    environment: Mapping[str, str],
    start: Callable[[Any], object] | None = None,
    late: Collection[str] = (),
) -> Any:
    """The module `name`, imported at most once. Raises ImportError as the import does.

    environment: variables that the module reads while it is imported, for those that are not set.
    start: called once with the module after its import, where that prints as well; a start may start threads.
    late: modules that it imports for its users and does not use itself (`late_modules`).
    """
    # A module is in `sys.modules` before it is whole, and file descriptor 2 is of all threads.
    with one_thread_at_a_time("importing"):
        for variable, value in environment.items():
            os.environ.setdefault(variable, value)
        if name in sys.modules:
            return sys.modules[name]
        with silent(2), late_modules(late):
            module = importlib.import_module(name)
            if start is not None:
                start(module)
        return module


class _LateModule(ModuleType):
    """A module that has its name and place, and is executed when it is asked for anything that its code makes.

    importlib's own LazyLoader executes one for its `__file__` too, and TensorFlow asks every module that there is for
    that whenever it takes a function apart.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        loader = self.__spec__ and self.__spec__.loader
        assert isinstance(loader, _LateLoader)
        if (inner := f"{self.__name__}.{name}") in loader.names:
            return importlib.import_module(inner)
        # As Python does, the packages that it lies in first: their modules may need one another in that order.
        for place in (*_packages(self.__name__), self.__name__):
            if isinstance(module := sys.modules.get(place), _LateModule):
                module.execute()
        return getattr(self, name)

    def execute(self) -> None:
        """Run its code, as its import would have done."""
        loader = self.__spec__ and self.__spec__.loader
        assert isinstance(loader, _LateLoader)
        self.__class__ = ModuleType  # type: ignore[assignment]
        loader.whole.exec_module(self)


def _packages(name: str) -> list[str]:
    """The packages that a module lies in, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


class _LateLoader(Loader):
    """Makes a `_LateModule` of what another loader would execute at once."""

    def __init__(self, whole: Loader, names: Collection[str]) -> None:
        self.whole, self.names = whole, names

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that is empty still."""
        return _LateModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet."""


class _LateFinder:
    """Finds modules of some names as Python does, with a loader that waits until an attribute is asked for."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of one of the names, else None."""
        found = PathFinder.find_spec(name, path, target) if name in self.names else None
        if found is not None and found.loader is not None:
            found.loader = _LateLoader(found.loader, self.names)
        return found


@contextmanager
def late_modules(names: Collection[str]) -> Iterator[None]:
    """Inside, modules of these names are imported empty; each is executed when somebody asks it for an attribute.

    Does so in the project's own processes only (`is_own_process`). A program goes on with what is imported here, and
    its other libraries may look into `sys.modules`: there every module is imported whole.
    """
    if not is_own_process():
        yield
        return
    finder = _LateFinder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def silent(*streams: int) -> Iterator[None]:
    """Native libraries write to nowhere instead of these file descriptors meanwhile; exceptions pass as ever."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(number) for number in streams]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in streams:
            os.dup2(nowhere, number)
        yield
    finally:
        for number, copy in zip(streams, kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)
