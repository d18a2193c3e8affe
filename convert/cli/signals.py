"""Signals that end this process: one line, and the exit code that shells expect, from the first import on."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # importing typing takes longer than everything here, and an interrupt may come meanwhile
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

_NAMES = (
    "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGALRM", "SIGVTALRM", "SIGPROF",
    "SIGIO", "SIGPWR", "SIGSTKFLT", "SIGABRT",
)  # fmt: skip
ENDS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""The signals whose default is the end of a process, but for those of a fault in it, which come back when it goes on.

Temporary files and the worker are not left behind by any of them.
"""

ASKED = tuple(number for number in ENDS if signal.Signals(number).name not in ("SIGABRT", "SIGXCPU"))
"""The signals in `ENDS` that no library and no limit sends to end a process."""

_LINES = {
    "SIGINT": "interrupted",
    "SIGTERM": "terminated",
    "SIGHUP": "ended: the terminal has gone",
    "SIGXCPU": "ended: the limit of processor time is reached (ulimit -t)",
}


class Ended(BaseException):
    """Raised by a signal that ends this process; `exit_code` is 128 plus its number, `line` is what to print."""

    def __init__(self, number: int) -> None:
        super().__init__(line_of(number))
        self.exit_code, self.line = 128 + number, line_of(number)


def line_of(number: int) -> str:
    """Return the line to print if a signal ended this process."""
    name = signal.Signals(number).name
    return _LINES.get(name, f"ended by {name}")


def leave_at_once() -> None:
    """End without a traceback on each of the signals, while there is nothing to clean up yet.

    The parent may ignore the exits of its children, as some daemons do. A process that inherits this setting does not
    learn how its own children ended.
    """
    handle(_leave)
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def raise_in_main_thread() -> None:
    """Make each of the signals raise `Ended` in the main thread, for a process that must clean up."""
    handle(_raise)


def handle(handler: Callable[[int, FrameType | None], Any] | signal.Handlers) -> None:
    """Install this handler for each of the signals, except those that the parent process ignores (nohup)."""
    for number in ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    try:  # noqa: SIM105  (see above)
        os.write(2, f"{line_of(number)}\n".encode())
    except OSError:
        pass
    os._exit(128 + number)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    handle(signal.SIG_IGN)  # ignore all signals after the first one
    raise Ended(number)
