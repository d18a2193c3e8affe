"""Processes from which the runs of a program are forked.

A program that calls the API is never forked itself, because it may have threads. A new interpreter per run would import
a framework for seconds, and a verification has several runs. So one interpreter is started. It imports the framework
once, while the program reads its source, and then serves forks (`convert.processes.fork_server`). It ends with the
program, or after a minute without requests.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence

from convert.files.scratch import LockedFolder
from convert.processes.interpreter import module_command, own_variables
from convert.processes.marks import MARK, new_mark

IDLE = 60.0
"""Seconds without requests after which a process ends."""
_TURN = 1.0
"""Seconds between looks at a process."""

_lock = threading.Lock()
_servers: dict[str, ProgramServer] = {}


class ProgramServer:
    """An interpreter that imports what runs a `kind` and writes `formats`, and then serves forks. See `IDLE`."""

    def __init__(self, kind: str, formats: Sequence[str]) -> None:
        self.environment, self.ready = _environment(), False
        self.folder = LockedFolder()
        self.address = str(self.folder.path / "warm.0")
        place = self.address.removesuffix(".0")
        stages = json.dumps([([kind], list(formats))])
        self.command = module_command("convert.processes.fork_server", place, str(os.getpid()), stages, str(IDLE))
        started: queue.SimpleQueue[subprocess.Popen | OSError] = queue.SimpleQueue()
        threading.Thread(target=self._start, args=(started,), daemon=True).start()
        process = started.get()
        if isinstance(process, OSError):
            raise process
        self.process = process
        weakref.finalize(self, self.process.kill)

    def _start(self, started: queue.SimpleQueue[subprocess.Popen | OSError]) -> None:
        """Start the process, and stay until it has ended.

        The process and its forks die with the thread that started it (`die_with_parent`). So this runs in a thread of
        its own, not in one of the user's. The thread also outlives the replacement of a process whose forks may still
        be running.
        """
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # OpenBLAS starts threads when it is loaded, and a process with several threads serves no forks.
                env={**os.environ, **own_variables(), MARK: new_mark(), "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        except OSError as error:  # no more processes
            started.put(error)
            return
        started.put(process)
        while process.poll() is None:
            time.sleep(_TURN)

    def serves(self) -> bool:
        """Return whether the process is alive, and whether its runtimes would read the same variables today."""
        return self.process.poll() is None and self.environment == _environment()

    def use(self) -> bool:
        """Return whether the process is alive and its imports are done, and accept the current environment.

        Variables that are new since `start_server` do not matter, because libraries that the program imported for
        reading and writing have set them.
        """
        if self.process.poll() is not None or not self.wait():
            return False
        self.environment = _environment()
        return True

    def wait(self) -> bool:
        """Wait until its imports are done; a new interpreter would need the same time.

        Returns whether they succeeded.
        """
        if not self.ready and self.process.stdout is not None:
            self.ready = self.process.stdout.readline() == b"ready\n"
        return self.ready


def start_server(runner: str, kind: str, formats: Sequence[str]) -> None:
    """Start the process that forks a runner's runs, with imports for a `kind` and `formats`, unless one serves already.

    Call it at the beginning of a verification, before anything is imported for it: see `ProgramServer.use`.
    """
    if sys.platform != "linux":
        return
    with _lock:
        server = _servers.get(runner)
        if server is None or not server.serves():
            _servers[runner] = ProgramServer(kind, formats)


def server_address(runner: str) -> str:
    """Return the socket of the process that forks a runner's runs; "" if there is none."""
    with _lock:
        server = _servers.get(runner)
        return server.address if server is not None and server.use() else ""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
