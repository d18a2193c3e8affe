"""Reports what a conversion is doing, and limits its time.

The time is checked where work proceeds in Python, because a C library cannot check a clock. The command line does its
work in a process that reports every activity to a second process, which watches it (`convert.cli.supervisor`). Programs
that call the API have only the checks here.
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
"""The stages of a report, as phrases of a sentence."""

_current: ContextVar[tuple[str, ...]] = ContextVar("activities", default=())
_size: ContextVar[str] = ContextVar("size", default="")
_deadline: ContextVar[tuple[float, float] | None] = ContextVar("deadline", default=None)
DOING, DONE, MADE, GONE = "doing", "done", "made", "gone"
"""Events for listeners: an activity, its progress, a temporary folder that exists now, and one that is gone."""

_listeners: list[Callable[[str, str], None]] = []


def listen(listener: Callable[[str, str], None]) -> None:
    """Call `listener` from now on for each event.

    - `DOING` with each activity that begins, and with the outer one when it ends
    - `MADE` and `GONE` with the path of each temporary folder, which must be removed if this process is killed
    - `DONE` with two numbers: how much of the activity is done, and how much there is
    """
    _listeners.append(listener)


def forget_listeners() -> None:
    """Remove all listeners, in a process that does other work than the process it was forked from."""
    _listeners.clear()


@contextmanager
def listening(listener: Callable[[str, str], None]) -> Iterator[None]:
    """Context manager: call `listener` for each event inside, as `listen` does."""
    listen(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def doing(what: str, size: str = "") -> Iterator[None]:
    """Context manager: declare that this process is doing `what`; `size` tells listeners how much there is.

    Raises a `ResourceLimit` that names the activity instead of a MemoryError.
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
    """Report how much of the current activity is done; equal amounts should take about equal times."""
    _tell(DONE, f"{done} {whole}")


def current_activity() -> str:
    """Return the activities from the outermost to the innermost: `verifying, running the graph in float64`."""
    return ", ".join(dict.fromkeys(_current.get()))


def innermost_activity() -> str:
    """Return the innermost activity with its size: `reading the model (net.onnx, 1.2 MB)`."""
    found, size = _current.get(), _size.get()
    return "" if not found else f"{found[-1]} ({size})" if size else found[-1]


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """Context manager: make `check_time` raise after this many seconds; an outer limit stays in force."""
    outer, mine = _deadline.get(), time.monotonic() + seconds
    token = _deadline.set((mine, seconds) if outer is None or mine < outer[0] else outer)
    try:
        yield
    finally:
        _deadline.reset(token)


def check_time() -> None:
    """Raise `ResourceLimit` if the time is over; call this in loops whose length a file determines."""
    limit = _deadline.get()
    if limit is not None and time.monotonic() > limit[0]:
        raise ResourceLimit(
            f"{current_activity() or 'this'} took longer than {limit[1]:g} s", hint="give a larger --timeout"
        )


@contextmanager
def temporary_folder_at(path: Path) -> Iterator[None]:
    """Context manager: declare a folder that must be removed if this process is killed."""
    _tell(MADE, str(path))
    try:
        yield
    finally:
        _tell(GONE, str(path))


def _tell(kind: str, text: str) -> None:
    for listener in _listeners:
        listener(kind, text)
