"""Processes that the runs of a program are forked from, once it verifies a second time.

Of a program that calls the functions nothing is forked, because it may have threads: each of its runs is an interpreter
of its own, which imports a framework for seconds. From the second verification on, one is started that imports it once
and serves forks (`convert.runners.fork_server`). It ends with the program, and when nobody has asked it for a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence

from convert.files.scratch import HeldFolder
from convert.interpreter import module_command, own_variables
from convert.report import Report
from convert.runners.marks import MARK, new_mark

IDLE = 60.0
"""Seconds after which a process ends that nobody asks for a fork."""

_lock = threading.Lock()
_users: dict[str, weakref.ref[Report]] = {}
"""The last verification that ran something with a runner."""
_servers: dict[str, ProgramServer] = {}


class ProgramServer:
    """An interpreter that imports what runs a `kind` and writes `formats`, and then serves forks. See `IDLE`."""

    def __init__(self, kind: str, formats: Sequence[str]) -> None:
        self.environment, self.ready = _environment(), False
        self.folder = HeldFolder()
        self.address = str(self.folder.path / "warm.0")
        place = self.address.removesuffix(".0")
        self.process = subprocess.Popen(
            module_command(
                "convert.runners.fork_server", place, str(os.getpid()), json.dumps([([kind], list(formats))]), str(IDLE)
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # One thread: OpenBLAS starts its own when it is loaded, and a process with threads serves no fork.
            env={**os.environ, **own_variables(), MARK: new_mark(), "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        weakref.finalize(self, self.process.kill)

    def serves(self) -> bool:
        """Whether it is alive, and its runtimes have read the variables that they would read today."""
        return self.process.poll() is None and self.environment == _environment()

    def wait(self) -> bool:
        """Wait until it has imported what it is to import, which a new interpreter would do as well; whether it has."""
        if not self.ready and self.process.stdout is not None:
            self.ready = self.process.stdout.readline() == b"ready\n"
        return self.ready


def count_use(verification: Report, runner: str, kind: str, formats: Sequence[str]) -> None:
    """A verification begins that runs artefacts of a `kind`. The second one of a runner starts its process."""
    if sys.platform != "linux":
        return
    with _lock:
        before = _users.get(runner)
        _users[runner] = weakref.ref(verification)
        server = _servers.get(runner)
        again = before is not None and before() is not verification
        if again and (server is None or not server.serves()):
            _servers[runner] = ProgramServer(kind, formats)


def server_address(runner: str) -> str:
    """The socket of the process that forks the runs of a runner, or an empty string where there is none."""
    with _lock:
        server = _servers.get(runner)
        return server.address if server is not None and server.serves() and server.wait() else ""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
