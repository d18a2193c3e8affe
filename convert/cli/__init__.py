"""The command line: the only package that prints or exits."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from convert.cli.commands import cli

__all__ = ["cli", "main"]

_OBJECTS = 50_000
"""New objects after which the garbage collector runs: fewer runs save a twentieth of the time of `--help`."""


def main() -> NoReturn:
    """Entry point of the console scripts. Nothing is imported before signals are handled."""
    try:
        from convert.cli.signals import leave_at_once

        leave_at_once()
    except KeyboardInterrupt:  # the signal came during an import: print the same line as afterwards
        import sys

        print("interrupted", file=sys.stderr)
        sys.exit(130)
    from convert.cli import streams

    streams.hold()
    import gc
    import os

    from convert.processes.interpreter import own_variables

    os.environ.update(own_variables())
    gc.set_threshold(_OBJECTS)
    from convert.cli.commands import run_command_line

    run_command_line()


def __getattr__(name: str) -> Any:
    """The commands, imported on first use."""
    if name == "cli":
        from convert.cli.commands import cli

        return cli
    raise AttributeError(f"module 'convert.cli' has no attribute {name!r}")
