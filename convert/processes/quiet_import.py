"""Imports a framework without the output that its libraries print before their log levels apply."""

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

from convert.processes.interpreter import is_own_process, one_thread_at_a_time


def import_quietly(
    name: str,
    environment: Mapping[str, str],
    start: Callable[[Any], object] | None = None,
    late: Collection[str] = (),
    hidden: Collection[str] = (),
) -> Any:
    """Return the module `name`, imported at most once. Raises ImportError as the import does.

    - `environment`: variables that the module reads during import, set unless they exist
    - `start`: called once with the module after its import, if that prints as well; it may start threads
    - `late`: modules that it imports for its users only, and does not use itself (`late_modules`)
    - `hidden`: packages that it imports if they are installed, and works without (`hidden_modules`)
    """
    # A module is in `sys.modules` before it is complete, and file descriptor 2 belongs to all threads.
    with one_thread_at_a_time("importing"):
        for variable, value in environment.items():
            os.environ.setdefault(variable, value)
        if name in sys.modules:
            return sys.modules[name]
        with silent(2), late_modules(late), hidden_modules(hidden):
            module = importlib.import_module(name)
            if start is not None:
                start(module)
        return module


class _LateModule(ModuleType):
    """An imported module whose code runs on the first access to an attribute that the code defines.

    importlib's own LazyLoader runs a module's code even for its `__file__`, which TensorFlow reads from every module
    whenever it analyses a function.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        loader = self.__spec__ and self.__spec__.loader
        assert isinstance(loader, _LateLoader)
        if (inner := f"{self.__name__}.{name}") in loader.names:
            return importlib.import_module(inner)
        # As in a normal import, run the enclosing packages first: their modules may need each other in that order.
        for place in (*_packages(self.__name__), self.__name__):
            module = sys.modules.get(place)
            if isinstance(module, _LateModule):
                module.execute()
        return getattr(self, name)

    def execute(self) -> None:
        """Run the module's code, as its import would have done."""
        loader = self.__spec__ and self.__spec__.loader
        assert isinstance(loader, _LateLoader)
        self.__class__ = ModuleType  # type: ignore[assignment]
        loader.whole.exec_module(self)


def _packages(name: str) -> list[str]:
    """Return the packages that contain a module, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


class _LateLoader(Loader):
    """Creates a `_LateModule`, where a normal loader would run the code at once."""

    def __init__(self, whole: Loader, names: Collection[str]) -> None:
        self.whole, self.names = whole, names

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module."""
        return _LateModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module runs later."""


class _LateFinder:
    """Finds modules with certain names as Python does, with a loader that waits for an attribute access."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of one of the names, else None."""
        found = PathFinder.find_spec(name, path, target) if name in self.names else None
        if found is not None and found.loader is not None:
            found.loader = _LateLoader(found.loader, self.names)
        return found


@contextmanager
def late_modules(names: Collection[str]) -> Iterator[None]:
    """Context manager: import modules with these names as empty modules; the code of each runs when one of its
    attributes is first read.

    This happens only in the project's own processes (`is_own_process`). A program continues to use what is imported
    here, and its other libraries may look into `sys.modules`. So a program imports every module normally.
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
def hidden_modules(names: Collection[str]) -> Iterator[None]:
    """Context manager: let imports of these packages fail as if they were not installed, unless they are imported.

    This happens only in the project's own processes (`is_own_process`), as in `late_modules`.
    """
    absent = [name for name in names if name not in sys.modules] if is_own_process() else []
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None makes an import raise ImportError
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


@contextmanager
def silent(*streams: int) -> Iterator[None]:
    """Context manager: discard what native libraries write to these file descriptors; exceptions propagate."""
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
