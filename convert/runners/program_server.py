"""Processes that the runs of a program are forked from.

Of a program that calls the functions nothing is forked, because it may have threads. An interpreter that is started for
each run would import a framework for seconds, and a verification has several: here one is started that imports it once,
while the program reads its source, and serves forks (`convert.runners.fork_server`). It ends with the program, and when
nobody has asked it for a minute.
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

from convert.files.scratch import HeldFolder
from convert.interpreter import module_command, own_variables
from convert.runners.marks import MARK, new_mark

IDLE = 60.0
"""Seconds after which a process ends that nobody asks for a fork."""
_TURN = 1.0
"""Seconds between looks at a process."""

_lock = threading.Lock()
_servers: dict[str, ProgramServer] = {}


class ProgramServer:
    """An interpreter that imports what runs a `kind` and writes `formats`, and then serves forks. See `IDLE`."""

    def __init__(self, kind: str, formats: Sequence[str]) -> None:
        self.environment, self.ready = _environment(), False
        self.folder = HeldFolder()
        self.address = str(self.folder.path / "warm.0")
        place = self.address.removesuffix(".0")
        stages = json.dumps([([kind], list(formats))])
        self.command = module_command("convert.runners.fork_server", place, str(os.getpid()), stages, str(IDLE))
        started: queue.SimpleQueue[subprocess.Popen | OSError] = queue.SimpleQueue()
        threading.Thread(target=self._start, args=(started,), daemon=True).start()
        if isinstance(process := started.get(), OSError):
            raise process
        self.process = process
        weakref.finalize(self, self.process.kill)

    def _start(self, started: queue.SimpleQueue[subprocess.Popen | OSError]) -> None:
        """Start the process, and stay until it has ended.

        It dies with the thread that has started it (`die_with_parent`), and what it has forked dies with it: that is no
        thread of the user's, and this one keeps a process that another has replaced, whose forks may be at work still.
        """
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # One thread: OpenBLAS starts its own when it is loaded, and a process with threads serves no fork.
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
        """Whether it is alive, and its runtimes have read the variables that they would read today."""
        return self.process.poll() is None and self.environment == _environment()

    def use(self) -> bool:
        """Whether it is alive and has imported what it is to import.

        What is in the environment by now is its own as well: a program gets to a run when it has read and written, and
        variables that are new since `start_server` were set by the libraries that it imported for that.
        """
        if self.process.poll() is not None or not self.wait():
            return False
        self.environment = _environment()
        return True

    def wait(self) -> bool:
        """Wait until it has imported what it is to import, which a new interpreter would do as well; whether it has."""
        if not self.ready and self.process.stdout is not None:
            self.ready = self.process.stdout.readline() == b"ready\n"
        return self.ready


def start_server(runner: str, kind: str, formats: Sequence[str]) -> None:
    """Start the process of a runner, for artefacts of a `kind` and what writes `formats`, where none serves yet.

    Call it when a verification begins, before anything is imported for it: see `ProgramServer.use`.
    """
    if sys.platform != "linux":
        return
    with _lock:
        server = _servers.get(runner)
        if server is None or not server.serves():
            _servers[runner] = ProgramServer(kind, formats)


def server_address(runner: str) -> str:
    """The socket of the process that forks the runs of a runner, or an empty string where there is none."""
    with _lock:
        server = _servers.get(runner)
        return server.address if server is not None and server.use() else ""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
