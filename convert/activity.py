"""What a conversion is doing, for whoever waits for it, and how long it may: checked where work goes on in Python.

A library in C cannot be asked to look at a clock. The command line does its work in a process that another one watches
(`convert.cli.supervisor`), which is told of every activity; programs that call the functions have the checks here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from convert.errors import ResourceLimit

WORDS = {
    "import": "importing the frameworks",
    "read": "reading the model",
    "load": "loading the model",
    "check": "checking the operators",
    "write": "writing the output",
    "verify": "verifying",
    "prepare": "preparing the model for capture",
    "capture": "capturing the model",
    "inputs": "looking for inputs",
    "lower": "taking the operators over",
}
"""The stages of a report, as a sentence names them."""

_current: ContextVar[tuple[str, ...]] = ContextVar("activities", default=())
_size: ContextVar[str] = ContextVar("size", default="")
_deadline: ContextVar[tuple[float, float] | None] = ContextVar("deadline", default=None)
DOING, DONE, MADE, GONE = "doing", "done", "made", "gone"
"""What listeners are told: an activity, how much of it is done, a temporary folder that is there, one that is gone."""

_listeners: list[Callable[[str, str], None]] = []


def listen(listener: Callable[[str, str], None]) -> None:
    """Call `listener` from now on with `DOING` and every activity that begins, and the outer one when it is over.

    With `MADE` and `GONE` and the path of each folder that is there for a time, and to be removed if this is killed.
    With `DONE` and two numbers, how much of the activity is done and how much there is.
    """
    _listeners.append(listener)


def forget_listeners() -> None:
    """Tell nobody any more: for a process that does other work than the one it was forked from."""
    _listeners.clear()


@contextmanager
def listening(listener: Callable[[str, str], None]) -> Iterator[None]:
    """Inside, `listener` is called as `listen` has it."""
    listen(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def doing(what: str, size: str = "") -> Iterator[None]:
    """Inside, this process is doing `what`. Raises `ResourceLimit`, which names it, in the place of a MemoryError.

    size: how much there is to do, for whoever watches.
    """
    outer = _current.get()
    token, sized = _current.set((*outer, what)), _size.set(size)
    _tell(DOING, current_activity())
    try:
        yield
    except MemoryError as error:
        hint = "give a larger --memory, or convert on a machine with more"
        raise ResourceLimit(f"out of memory while {current_activity()}", hint=hint) from error
    finally:
        _current.reset(token)
        _size.reset(sized)
        _tell(DOING, current_activity())


def advance(done: int, whole: int) -> None:
    """Tell how much of what is being done is done, where as much of it again takes about as long again."""
    _tell(DONE, f"{done} {whole}")


def current_activity() -> str:
    """What is being done, from the outermost activity to the innermost: `verifying, running the graph in float64`."""
    return ", ".join(dict.fromkeys(_current.get()))


def innermost_activity() -> str:
    """What is being done, the innermost activity with its size: `reading the model (net.onnx, 1.2 MB)`."""
    found, size = _current.get(), _size.get()
    return "" if not found else f"{found[-1]} ({size})" if size else found[-1]


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """Inside, `check_time` raises once that many seconds have passed; a limit around this one holds as well."""
    outer, mine = _deadline.get(), time.monotonic() + seconds
    token = _deadline.set((mine, seconds) if outer is None or mine < outer[0] else outer)
    try:
        yield
    finally:
        _deadline.reset(token)


def check_time() -> None:
    """Raise `ResourceLimit` if the time is over: to be called in loops whose length a file tells."""
    limit = _deadline.get()
    if limit is not None and time.monotonic() > limit[0]:
        raise ResourceLimit(
            f"{current_activity() or 'this'} took longer than {limit[1]:g} s", hint="give a larger --timeout"
        )


@contextmanager
def temporary_folder_at(path: Path) -> Iterator[None]:
    """Inside, the folder is there that somebody has to remove if this process is killed."""
    _tell(MADE, str(path))
    try:
        yield
    finally:
        _tell(GONE, str(path))


def _tell(kind: str, text: str) -> None:
    for listener in _listeners:
        listener(kind, text)
