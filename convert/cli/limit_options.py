"""The options of the command line that bound time and memory, shared by every verb that reads a model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from convert import limits
from convert.errors import UsageError

if TYPE_CHECKING:
    from convert.runners.process import Limits


_LONGEST = 1e8
"""Seconds: three years, and few enough for every clock of the system."""


@dataclass(frozen=True)
class LimitOptions:
    """What the options said: seconds for the whole, and memory as `8GB`; None where the user said nothing."""

    timeout: float | None = None
    memory: str | None = None

    def seconds(self) -> float:
        """Of wall time for the whole. Raises `UsageError` for what is no number."""
        if self.timeout is None:
            return limits.COMMAND_SECONDS
        if not self.timeout > 0:
            raise UsageError(f"--timeout {self.timeout:g} leaves no time", hint="give seconds, for instance 7200")
        if self.timeout > _LONGEST:
            raise UsageError(f"--timeout {self.timeout:g} is longer than any", hint="give seconds, for instance 7200")
        return self.timeout

    def bytes(self) -> int | None:
        """Of memory, None for as much as the machine has. Raises `UsageError` for what is no amount."""
        from convert.options import parse_size

        return None if self.memory is None else parse_size(self.memory)

    def of_runs(self) -> Limits:
        """The limits of each run of a model."""
        from convert.runners.process import Limits

        memory = self.bytes()
        return Limits(memory=memory) if self.timeout is None else Limits(self.seconds(), memory)


_OPTIONS = [
    click.option("--timeout", type=float, metavar="SECONDS",
                 help=f"Limit of time for the whole, by default {limits.COMMAND_SECONDS:g}; for each run of a model "
                 "too, by default 600."),
    click.option("--memory", metavar="SIZE",
                 help="Limit of memory, e.g. 16GB, for the conversion and for each run; by default the machine's."),
]  # fmt: skip


def with_limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options, which it takes together as `limit_options`."""

    @functools.wraps(command)
    def with_options(*args: Any, timeout: float | None, memory: str | None, **rest: Any) -> Any:
        return command(*args, limit_options=LimitOptions(timeout, memory), **rest)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options
