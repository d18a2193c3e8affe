"""Starts and ends the processes that warm workers are forked from, which have imported what a plan needs."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from convert.batch.plan import Task
from convert.batch.processes import kill_marked
from convert.errors import ConvertError
from convert.files.scratch import scratch_folder
from convert.files.sniff import sniff
from convert.processes.interpreter import module_command
from convert.processes.marks import MARK, new_mark

Stage = tuple[tuple[str, ...], tuple[str, ...]]
"""Kinds to read and formats to write whose packages are imported together."""


class WarmPool:
    """The warm processes while they start, one for each stage of imports that a plan needs.

    Each stage has imported what the earlier stages have, and more. So the first tasks can begin as soon as their
    imports are done, while another process imports the next framework.
    """

    def __init__(self, place: str = "", tasks: Sequence[Task] = ()) -> None:
        self.place = place
        self.changed = threading.Condition()
        self.stages, self._stage_of = import_stages(tasks)
        self._ready, self._over = 0, not place

    def address(self, task: Task) -> str | None:
        """Return the socket to fork the task's worker from; "" if there is none, None if it is not ready yet."""
        number = self._stage_of.get(str(task.output), 0)
        if number < self._ready:
            return f"{self.place}.{number}"
        return "" if self._over else None

    def follow(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until all processes are ready, or have failed to start; notify the threads that wait for a change."""
        assert process.stdout is not None
        while self._ready < len(self.stages) and process.stdout.readline() == b"ready\n":
            with self.changed:
                self._ready += 1
                self.changed.notify_all()
        with self.changed:
            self._over = True
            self.changed.notify_all()


def import_stages(tasks: Iterable[Task]) -> tuple[list[Stage], dict[str, int]]:
    """Return the stages of imports, in the order in which the plan needs them, and the stage that each output needs."""
    known: dict[tuple[str, str], int] = {}
    found: list[Stage] = []
    stage_of: dict[str, int] = {}
    for task in tasks:
        wanted = [("format", task.format), *(("kind", kind) for kind in _source_kinds(task))]
        if new := [item for item in wanted if item not in known]:
            known |= dict.fromkeys(new, len(found))
            kinds, formats = (tuple(name for what, name in new if what == which) for which in ("kind", "format"))
            found.append((kinds, formats))
        stage_of[str(task.output)] = max(known[item] for item in wanted)
    return found, stage_of


def kinds_and_formats(tasks: Iterable[Task]) -> Stage:
    """Return the kinds of the sources, as far as their content shows them, and the formats to write."""
    every = list(tasks)
    return tuple(sorted({k for t in every for k in _source_kinds(t)})), tuple(sorted({t.format for t in every}))


def _source_kinds(task: Task) -> list[str]:
    try:
        return [sniff(task.source)]
    except (ConvertError, OSError):
        return []  # its own conversion reports what is wrong with it


@contextmanager
def warm_pool(tasks: Sequence[Task]) -> Iterator[tuple[WarmPool, subprocess.Popen[bytes] | None]]:
    """Context manager: start the warm processes of a plan, and yield the pool and its first process, to be followed."""
    with scratch_folder() as folder:
        warm = WarmPool(str(folder / "forks"), tasks)
        with _server_process(folder / "forks", warm.stages) as process:
            yield warm, process


@contextmanager
def fork_server_socket(kinds: Iterable[str], formats: Iterable[str]) -> Iterator[str]:
    """Context manager: start one warm process, and yield the path of its socket, or "" if it failed to start.

    It does no harm if a package imported more than was requested.
    """
    with (
        scratch_folder() as folder,
        _server_process(folder / "forks", [(tuple(kinds), tuple(formats))]) as process,
    ):
        assert process.stdout is not None
        yield str(folder / "forks.0") if process.stdout.readline() == b"ready\n" else ""


@contextmanager
def _server_process(place: Path, wanted: Sequence[Stage]) -> Iterator[subprocess.Popen[bytes]]:
    """Context manager: yield the first warm process; the others descend from it. All die with the calling thread."""
    mark = new_mark()
    process = subprocess.Popen(
        module_command("convert.processes.fork_server", str(place), str(os.getpid()), json.dumps(wanted)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # A server must have one thread, but OpenBLAS starts threads when it is loaded. Forks inherit this setting.
        env={**os.environ, MARK: mark, "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        kill_marked(lambda found: found == mark)
