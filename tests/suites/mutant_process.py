"""Run tests on a mutant: in a forked process whose functions are replaced by the mutated ones."""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.util
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = (
    "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--disable-warnings",
    "-m", "not long and not not_core",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one file; `line` and `changed` are the source's line before and after."""

    file: str
    number: int
    line: str
    changed: str
    source: str


def is_in_place(mutant: Mutant, reached: Mapping[int, Collection[str]]) -> bool:
    """Return whether the change is in a function body that runs in tests only, and not while modules are imported.

    reached: the names of the tests that execute each line; "" means the import.
    """
    tree = ast.parse((ROOT / mutant.file).read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in (n for body in (tree.body, *(c.body for c in classes)) for n in body):
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= mutant.number <= (node.end_lineno or 0):
            lines = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
            return not any("" in reached.get(n, ()) for n in lines)
    return False


Job = tuple[Mutant, Mapping[str, float]]
"""A mutant, and its tests with the seconds of processor time after which each does not end."""


def notices_in_place(package: str, jobs: Sequence[Job]) -> Iterator[bool]:
    """Return for each mutant whether one of its tests fails or does not end; the tests are collected once."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        with contextlib.suppress(BaseException):
            _drop_output()
            _collect_and_serve(package, jobs, writer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        for _ in jobs:
            answer = answers.read(1)
            if not answer:
                raise SystemExit(f"the tests of {package} could not be collected")
            yield answer == b"1"
    os.waitpid(pid, 0)


def _collect_and_serve(package: str, jobs: Sequence[Job], writer: int) -> None:
    import pytest

    class Server:
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session: Any) -> bool:
            items = {item.nodeid: item for item in session.items}
            for mutant, tests in jobs:
                chosen = [(items[name], seconds) for name, seconds in tests.items()]
                failed = in_child(lambda m=mutant, c=chosen: _run_items(m, c), sum(tests.values()))  # type: ignore[misc]
                os.write(writer, b"1" if failed else b"0")
            return True

    pytest.main([*ARGUMENTS, f"tests/{package}"], plugins=[Server()])


def _run_items(mutant: Mutant, chosen: Sequence[tuple[Any, float]]) -> int:
    """Return 1 at the first test that fails; a test that does not end is ended with its process."""
    import pytest

    failures = []

    class Watcher:
        def pytest_runtest_logreport(self, report: Any) -> None:
            failures.extend([report] if report.failed else [])

    put_in_place(mutant)
    items = [item for item, _ in chosen]
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    items[0].config.pluginmanager.register(Watcher())
    with contextlib.suppress(pytest.Session.Interrupted, pytest.Session.Failed):
        for (item, seconds), following in zip(chosen, [*items[1:], None], strict=True):
            resource.setrlimit(resource.RLIMIT_CPU, (min(int(time.process_time() + seconds) + 1, most), most))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if failures:
                return 1
    return 1 if failures else 0


def put_in_place(mutant: Mutant) -> None:
    """Give functions and methods of the mutant's module the changed code, also in a module that is imported later."""
    finder = _MutantFinder(mutant)
    sys.meta_path.insert(0, finder)
    if (module := sys.modules.get(finder.name)) is None:
        return
    codes = dict(_codes(compile(mutant.source, str(ROOT / mutant.file), "exec")))
    for function in _functions(module):
        if (code := codes.get(function.__qualname__)) is not None:
            function.__code__ = code


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """Return names and code of the functions of a module and of its classes."""
    for found in code.co_consts:
        if isinstance(found, CodeType):
            yield found.co_qualname, found
            if not found.co_flags & 1:  # a class's body: each function in it comes with its own code
                yield from _codes(found)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Return the functions that a module defines, including methods and functions wrapped by decorators."""
    members = [v for v in vars(module).values() if getattr(v, "__module__", None) == module.__name__]
    members += [v for c in members if isinstance(c, type) for v in vars(c).values()]
    for member in members:
        for name in ("fget", "func", "__func__"):
            member = getattr(member, name, member) if not isinstance(member, FunctionType) else member
        while not isinstance(member, type) and hasattr(member, "__wrapped__"):
            member = member.__wrapped__
        if isinstance(member, FunctionType):
            yield member


def notices(mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
    """Do the same for a mutant that must exist at import: every module is imported with it."""

    def run() -> int:
        import pytest

        sys.meta_path.insert(0, _MutantFinder(mutant))
        return int(pytest.main([*ARGUMENTS, *tests]))

    return in_child(run, seconds) != 0


class _MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Import the mutated source instead of the module."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        file = str(ROOT / self.mutant.file)
        return importlib.util.spec_from_file_location(fullname, file, loader=self)

    def get_filename(self, fullname: str) -> str:
        return str(ROOT / self.mutant.file)

    def get_data(self, path: str | bytes) -> bytes:
        return self.mutant.source.encode()


def in_child(work: Callable[[], int], seconds: float) -> int:
    """Return the exit code of `work` in a forked process, whose output is dropped; 1 if it does not end.

    seconds: the limit of processor time, so that a busy machine does not look like an endless loop; wall time gets ten
    times as much.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
            _drop_output()
            code = work()
        os._exit(code)
    end = time.monotonic() + 10 * seconds
    status = None
    while status is None and time.monotonic() < end:
        found, result = os.waitpid(pid, os.WNOHANG)
        status = os.waitstatus_to_exitcode(result) if found else None
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
        return 1
    return status


def _drop_output() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
