"""The child's side of `worker`: the command line, in a process that dies with the batch that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from convert.batch.worker import driver_of

_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def main() -> None:
    """Convert as the arguments say."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != driver_of(os.environ):  # it died before this was said
        sys.exit(1)
    from convert.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
