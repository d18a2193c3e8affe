"""The command-line options that limit time and memory, shared by every verb that reads a model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from convert import limits
from convert.errors import UsageError

if TYPE_CHECKING:
    from convert.processes.run_here import Limits


_LONGEST = 1e8
"""Seconds: three years, and few enough for every clock of the system."""


@dataclass(frozen=True)
class LimitOptions:
    """The values of these options: seconds for the whole command, and memory as text (`8GB`); None if not given."""

    timeout: float | None = None
    memory: str | None = None

    def seconds(self) -> float:
        """Return the seconds of wall time for the whole command. Raises `UsageError` if the value is no number."""
        if self.timeout is None:
            return limits.COMMAND_SECONDS
        if not self.timeout > 0:
            raise UsageError(f"--timeout {self.timeout:g} leaves no time", hint="give seconds, for instance 7200")
        if self.timeout > _LONGEST:
            raise UsageError(f"--timeout {self.timeout:g} is too long", hint="give seconds, for instance 7200")
        return self.timeout

    def bytes(self) -> int | None:
        """Return the bytes of memory; None for all memory of the machine. Raises `UsageError` if the value is no
        amount.
        """
        from convert.request.options import parse_size

        return None if self.memory is None else parse_size(self.memory)

    def of_runs(self) -> Limits:
        """Return the limits for each run of a model."""
        from convert.processes.run_here import Limits

        memory = self.bytes()
        return Limits(memory=memory) if self.timeout is None else Limits(self.seconds(), memory)


_OPTIONS = [
    click.option("--timeout", type=float, metavar="SECONDS",
                 help=f"Time limit for the command (default: {limits.COMMAND_SECONDS:g}) and for each run of a model "
                 "(default: 600)."),
    click.option("--memory", metavar="SIZE",
                 help="Memory limit for the conversion and for each run, e.g. 16GB (default: the machine's memory)."),
]  # fmt: skip


def with_limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them together as `limit_options`."""

    @functools.wraps(command)
    def with_options(*args: Any, timeout: float | None, memory: str | None, **rest: Any) -> Any:
        return command(*args, limit_options=LimitOptions(timeout, memory), **rest)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options
