"""Settings of Python's interpreter during a conversion: garbage collection, recursion limit, processes."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from convert.errors import UnsafeInput

_NO_FOLDER = os.path.join(os.devnull, "none")
"""A path where nothing exists or can be created."""
_START = Path(__file__).with_name("start_module.py")
_own: list[bool] = []
"""[True] if this process belongs to the project; else []."""
_locks: dict[str, threading.Lock] = {}
"""Locks by the name of the work that one thread at a time may do."""
_inside: ContextVar[frozenset[str]] = ContextVar("inside", default=frozenset())
"""Names of the work in progress in this thread, or in one that passed its context to this thread and waits for it."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks.clear)  # the threads that hold the locks do not exist in a fork


@contextmanager
def one_thread_at_a_time(work: str) -> Iterator[None]:
    """Context manager: let the threads of a program do the same `work` one at a time.

    A thread may enter repeatedly, and so may a thread that it starts with its context (`sandbox.in_reading_thread`), in
    which a user's rule may itself convert a model.
    """
    if work in _inside.get():
        yield
        return
    with _locks.setdefault(work, threading.Lock()):
        token = _inside.set(_inside.get() | {work})
        try:
            yield
        finally:
            _inside.reset(token)


@contextmanager
def paused_garbage_collection() -> Iterator[None]:
    """Context manager for reading and writing models: disable the garbage collector, for one thread at a time.

    torch.export keeps the state of a capture in globals, and so do our patches for it: a second capturing thread would
    see the state of the first. A graph consists of many objects that live until the end. Collecting them and the
    objects of the frameworks repeatedly took 40 % of the time for a graph of 10,000 nodes, and more for larger graphs.
    Large objects, that is tensors, are in no reference cycle, and are freed as before.
    """
    with one_thread_at_a_time("reading and writing"):
        enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if enabled:
                gc.enable()


@contextmanager
def raised_recursion_limit(calls: int) -> Iterator[None]:
    """Context manager: allow `calls` more nested Python calls than now."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def set_thread_variables() -> None:
    """Set how threads of OpenMP and OpenBLAS wait, in this process and its children, unless the user has set it.

    A verification runs a model a few times, concurrently with its conversion and the reference. Spinning threads took
    five times the CPU seconds for the runs of an LSTM on shared cores. OpenBLAS's threads cannot be made to sleep, so
    numpy, which runs the reference, gets half of the cores.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "OMP_NUM_THREADS" not in os.environ:  # OpenBLAS reads this one, too
        os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // 2)))


def claim_process() -> None:
    """Declare that this process and its forks belong to the project.

    This is called in the worker of a command and in processes that `module_command` starts, but not in a program that
    calls the API.
    """
    _own[:] = [True]


def is_own_process() -> bool:
    """Return whether only this project uses what is imported here (`claim_process`)."""
    return bool(_own)


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command line of a process that runs one of our modules.

    Without -P, Python searches modules in the current folder first: a `numpy.py` beside a model would run before
    anything is confined. TensorFlow loads libraries from the folder of the script that the command line names. With -m
    that would be the module's name, taken as a path relative to the current folder.
    """
    return [sys.executable, "-P", str(_START), name, *arguments]


def own_variables() -> dict[str, str]:
    """Return the changes to the environment of a process that works only for this project.

    During import, libraries start `uname` and other programs. With a relative entry in PATH, those would be looked up
    in the current folder. Keras writes settings into the home folder during import; existing ones change its dtypes and
    layouts, and with them the bytes of a model.
    """
    places = [place for place in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(place)]
    path = os.pathsep.join(places) or os.defpath
    return {"PATH": path, "KERAS_HOME": _NO_FOLDER, "KERAS_BACKEND": "tensorflow"}


def check_own_folder() -> None:
    """Raise `UnsafeInput` for a current folder from which TensorFlow would load libraries in `python -m convert`.

    `module_command` explains why. The other commands load nothing from the current folder.
    """
    for place in ("convert/tensorflow/core/kernels", "convert.runfiles/org_tensorflow"):
        if os.path.lexists(place):
            raise UnsafeInput(
                f"TensorFlow would load libraries from ./{place}",
                hint="run it as convert-model, which loads nothing from the current folder",
            )
