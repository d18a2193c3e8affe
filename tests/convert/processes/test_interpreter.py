"""Thread settings of our processes unless the user sets them, and work that the threads of a program do one at a
time.
"""

from __future__ import annotations

import contextvars
import gc
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from convert.processes.interpreter import one_thread_at_a_time, paused_garbage_collection, set_thread_variables
from convert.processes.sandbox import in_reading_thread

CASES = {
    "nothing": ({}, 8, {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "4"}),
    "one_core": ({}, 1, {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}),
    "a_policy": ({"OMP_WAIT_POLICY": "active"}, 2, {"OMP_WAIT_POLICY": "active", "OPENBLAS_NUM_THREADS": "1"}),
    "a_number": ({"OMP_NUM_THREADS": "3"}, 8, {"OMP_WAIT_POLICY": "passive"}),
    "both_numbers": (
        {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "2"},
        8,
        {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "2"},
    ),
}
"""The user's settings, the number of cores, and the expected settings."""


@pytest.mark.parametrize("case", CASES)
def test_threads_wait_asleep_and_leave_room(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, cores, wanted = CASES[case]
    for name in ("OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")  # restores what is set below after the test
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    set_thread_variables()
    assert {n: os.environ.get(n) for n in ("OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS")} == {
        "OMP_WAIT_POLICY": None, "OPENBLAS_NUM_THREADS": None, **wanted,
    }  # fmt: skip


def test_threads_take_turns() -> None:
    inside, most, enabled = 0, 0, gc.isenabled()

    def work() -> None:
        nonlocal inside, most
        with paused_garbage_collection(), paused_garbage_collection():
            inside += 1
            most = max(most, inside)
            time.sleep(0.02)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert gc.isenabled() == enabled


def test_a_thread_that_reads_for_another_is_inside_with_it() -> None:
    """A rule that itself converts a model runs in that thread, while the waiting thread holds the lock."""
    with paused_garbage_collection(), ThreadPoolExecutor(1) as other:
        assert in_reading_thread(lambda: _enter(timeout=10))
        alone = other.submit(_enter, timeout=0.2)
        assert not alone.result()
    assert _enter(timeout=10)


def _enter(timeout: float) -> bool:
    """Return whether a thread in the context of this one gets the lock within this many seconds."""

    def work() -> None:
        with paused_garbage_collection():
            pass

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    thread.start()
    thread.join(timeout)
    return not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_fork_waits_for_no_thread_of_its_parent() -> None:
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        with one_thread_at_a_time("a test"):
            begun.set()
            done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    if not (pid := os.fork()):
        signal.alarm(10)
        with one_thread_at_a_time("a test"):
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
