"""Runs a command in a process that exists for it alone: the command line, and the worker of a batch's task."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from convert.cli import signals, streams
from convert.processes.interpreter import set_thread_variables


def run_in_own_process(work: Callable[[], object]) -> NoReturn:
    """Set up this process, do `work`, which exits, and exit with its code."""
    # TensorFlow writes start-up messages directly to stderr; the user's own setting has priority.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    set_thread_variables()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    try:
        work()
    except SystemExit as ended:
        # Exit now: while the interpreter shuts down, it would restore the default signal handlers.
        signals.handle(signal.SIG_IGN)
        sys.exit(streams.exit_code(ended.code))
    raise AssertionError("the work exits")
