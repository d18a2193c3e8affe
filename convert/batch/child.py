"""The child's side of `worker`: runs the command line in a process that dies with its batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from convert.processes.interpreter import own_variables
from convert.processes.marks import driver_of
from convert.processes.sandbox import allow_bounded_memory, die_with_parent


def convert(arguments: Sequence[str]) -> None:
    """Run the command line with these arguments."""
    from convert.cli import streams
    from convert.cli.commands import run_command_line

    streams.hold()
    os.environ.update(own_variables())
    allow_bounded_memory()
    sys.argv = ["convert", *arguments]
    run_command_line(supervised=False)


if __name__ == "__main__":
    die_with_parent(driver_of(os.environ))
    convert(sys.argv[1:])
