"""The local engine: as many tasks at a time as there are jobs, in the order of the plan."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace

from convert.batch import machine
from convert.batch.fork_server_pool import WarmPool, warm_pool
from convert.batch.plan import Task
from convert.batch.worker import PASSING, TaskResult, run

RETRIES = 1

_PATIENCE = 0.2  # seconds between looks whether all has been given up

_USUAL = 4 << 30
"""Bytes of memory that a conversion is taken to need where no limit is given."""


def default_jobs(tasks: Iterable[Task]) -> int:
    """As many tasks at a time as there are CPUs, and memory for the largest."""
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
    """Run every task; `started` and `ended` are called in the thread that calls this.

    warm: fork the workers from a process that has imported what they need, instead of starting interpreters.

    A task that crashed, or that ran out of memory, is tried again, the latter with twice the memory if the machine has
    that. On an exception, KeyboardInterrupt included, the running tasks are killed and it goes on to the caller.
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
    """Threads that take the tasks that wait, and put into `endings` what begins, with None, and how it ends."""

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
        """Begin; an interruption may come between any two of them, and `end` is for those that have begun."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Kill what is running, and wait until that is tidied up."""
        self._stop.set()
        if self._process is not None:
            self._process.kill()  # nobody is to wait until it has imported everything
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _work(self, first: bool) -> None:
        if first and self._process is not None:
            self._warm.follow(self._process)  # what it imports takes the place of a task
        while (taken := _take_task(self._waiting, self._warm, self._stop)) is not None:
            task, address = taken
            self._endings.put((task, None))
            try:
                self._endings.put((task, run_with_retries(task, self._stop, self._retries, address)))
            except BaseException as error:
                self._endings.put((task, error))


def _take_task(waiting: list[Task], warm: WarmPool, stop: threading.Event) -> tuple[Task, str] | None:
    """The first task that can begin, and where its worker comes from; None when there is no more to do."""
    with warm.changed:
        while waiting and not stop.is_set():
            for i, task in enumerate(waiting):
                if (address := warm.address(task)) is not None:
                    return waiting.pop(i), address
            warm.changed.wait(_PATIENCE)
    return None


def run_with_retries(
    task: Task, stop: threading.Event | None = None, retries: int = RETRIES, nursery: str = ""
) -> TaskResult:
    """Run a task, and again as long as its end is one that may not come twice."""
    count = 0
    while True:
        ending = run(task, stop, nursery)
        count += 1
        ending.attempts = count
        if ending.outcome not in PASSING or count > retries or (stop is not None and stop.is_set()):
            return ending
        if ending.outcome == "memory" and task.memory is not None:
            more = 2 * task.memory
            if more > machine.memory():
                return ending
            task = replace(task, memory=more)
