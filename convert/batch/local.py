"""The local engine: as many tasks at a time as there are jobs, in the order of the plan."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from convert.batch.plan import Task
from convert.batch.warm import needs, nursery
from convert.batch.worker import PASSING, Ending, run

RETRIES = 1


def run_all(
    tasks: Iterable[Task],
    jobs: int,
    started: Callable[[Task], None],
    ended: Callable[[Task, Ending], None],
    *,
    retries: int = RETRIES,
    warm: bool = False,
) -> None:
    """Run every task; `started` and `ended` are called in the thread that calls this.

    warm: fork the workers from a process that has imported what they need, instead of starting interpreters.

    A task that crashed, or that ran out of memory, is tried again, the latter with twice the memory if the machine has
    that. On an exception, KeyboardInterrupt included, the running tasks are killed and it goes on to the caller.
    """
    tasks = list(tasks)
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    told: queue.SimpleQueue[tuple[Task, Ending | BaseException | None]] = queue.SimpleQueue()
    total = len(tasks)
    with (
        nursery(*needs(tasks)) if warm and total > 1 else nullcontext("") as address,
        _threads(min(jobs, max(total, 1)), waiting, told, retries, address),
    ):
        while total:
            task, what = told.get()
            if isinstance(what, BaseException):
                raise what
            if what is None:
                started(task)
            else:
                ended(task, what)
                total -= 1


@contextmanager
def _threads(
    count: int,
    waiting: queue.SimpleQueue[Task],
    told: queue.SimpleQueue[tuple[Task, Ending | BaseException | None]],
    retries: int,
    nursery: str,
) -> Iterator[None]:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                task = waiting.get_nowait()
            except queue.Empty:
                return
            told.put((task, None))
            try:
                told.put((task, attempts(task, stop, retries, nursery)))
            except BaseException as error:
                told.put((task, error))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def attempts(task: Task, stop: threading.Event | None = None, retries: int = RETRIES, nursery: str = "") -> Ending:
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
            if more > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
                return ending
            task = replace(task, memory=more)
