"""The local engine: runs as many tasks at a time as there are jobs, in the order of the plan."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace

from convert.batch.fork_server_pool import WarmPool, warm_pool
from convert.batch.plan import Task
from convert.batch.worker import PASSING, TaskResult, run
from convert.processes import machine

RETRIES = 1

_PATIENCE = 0.2  # seconds between checks whether the run was stopped

_USUAL = 4 << 30
"""Bytes of memory that a conversion is assumed to need if no limit is given."""


def default_jobs(tasks: Iterable[Task]) -> int:
    """Return how many tasks can run at a time, by the number of CPUs and the memory of the largest task."""
    most = max((task.memory or _USUAL for task in tasks), default=_USUAL)
    return max(1, min(machine.cpus(), machine.memory() // most))


def run_all(
    tasks: Iterable[Task],
    jobs: int,
    started: Callable[[Task], None],
    ended: Callable[[Task, TaskResult], None],
    *,
    retries: int = RETRIES,
    warm: bool = False,
) -> None:
    """Run every task; `started` and `ended` are called in the calling thread.

    With `warm`, workers are forked from a process that has imported what they need, instead of starting interpreters. A
    task that crashed or ran out of memory is tried again, the latter with twice the memory if the machine has it. On
    any exception, including KeyboardInterrupt, the running tasks are killed and the exception propagates.
    """
    waiting = list(tasks)
    endings: queue.SimpleQueue[tuple[Task, TaskResult | BaseException | None]] = queue.SimpleQueue()
    total = len(waiting)
    with warm_pool(waiting) if warm and total > 1 else nullcontext((WarmPool(), None)) as (source, process):
        workers = _Workers(min(jobs, max(total, 1)), waiting, endings, retries, source, process)
        try:
            workers.start()
            while total:
                task, what = endings.get()
                if isinstance(what, BaseException):
                    raise what
                if what is None:
                    started(task)
                else:
                    ended(task, what)
                    total -= 1
        finally:
            workers.end()


class _Workers:
    """Threads that take waiting tasks, and report to `endings` each start (as None) and each result."""

    def __init__(
        self,
        count: int,
        waiting: list[Task],
        endings: queue.SimpleQueue[tuple[Task, TaskResult | BaseException | None]],
        retries: int,
        warm: WarmPool,
        process: subprocess.Popen[bytes] | None,
    ) -> None:
        self._waiting, self._endings, self._retries = waiting, endings, retries
        self._warm, self._process = warm, process
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(not i,), daemon=True) for i in range(count)]

    def start(self) -> None:
        """Start the threads. An interruption may occur between any two; `end` handles those that were started."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Kill what is running, and wait until it is cleaned up."""
        self._stop.set()
        if self._process is not None:
            self._process.kill()  # do not wait until it has imported everything
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _work(self, first: bool) -> None:
        if first and self._process is not None:
            self._warm.follow(self._process)  # importing takes the place of one task
        while (taken := _take_task(self._waiting, self._warm, self._stop)) is not None:
            task, address = taken
            self._endings.put((task, None))
            try:
                self._endings.put((task, run_with_retries(task, self._stop, self._retries, address)))
            except BaseException as error:
                self._endings.put((task, error))


def _take_task(waiting: list[Task], warm: WarmPool, stop: threading.Event) -> tuple[Task, str] | None:
    """Return the first task that can begin and the address of its worker's server; None when nothing is left."""
    with warm.changed:
        while waiting and not stop.is_set():
            for i, task in enumerate(waiting):
                if (address := warm.address(task)) is not None:
                    return waiting.pop(i), address
            warm.changed.wait(_PATIENCE)
    return None


def run_with_retries(
    task: Task, stop: threading.Event | None = None, retries: int = RETRIES, fork_address: str = ""
) -> TaskResult:
    """Run a task, and repeat it as long as another attempt may end differently."""
    count = 0
    while True:
        ending = run(task, stop, fork_address)
        count += 1
        ending.attempts = count
        if ending.outcome not in PASSING or count > retries or (stop is not None and stop.is_set()):
            return ending
        if ending.outcome == "memory" and task.memory is not None:
            more = 2 * task.memory
            if more > machine.memory():
                return ending
            task = replace(task, memory=more)
