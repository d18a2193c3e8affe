"""What a conversion asks of Python's interpreter: no garbage collection meanwhile, room for recursion, processes."""

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
"""Where nothing is, and nothing can be made."""
_START = Path(__file__).with_name("start_module.py")
_own: list[bool] = []
"""Whether this process is the project's own: nothing or True."""
_locks: dict[str, threading.Lock] = {}
"""By what is done by one thread at a time."""
_inside: ContextVar[frozenset[str]] = ContextVar("inside", default=frozenset())
"""What is done here, or by a thread that waits for this one and has given it its context."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks.clear)  # a fork has none of the threads that are inside


@contextmanager
def one_thread_at_a_time(work: str) -> Iterator[None]:
    """The threads of a program take turns inside, where they do the same `work`.

    One may be inside several times, and so may one that it has started in its context (`sandbox.in_reading_thread`):
    there a rule of the user's may convert a model itself.
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
    """Nothing is collected inside, save by reference counts; afterwards all is as it was. One thread at a time.

    It is what reads and writes models. torch.export keeps what it is at work on for all threads, and so does what is
    put in its place meanwhile: a second thread of a program that captured would find the state of the first.

    A graph is many objects that live until its end. The collector goes over them and over those of the frameworks again
    and again, which took 40 % of the time of a graph of 10,000 nodes and grew with it. What holds many bytes, tensors,
    is in no cycle, and is freed as before.
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
    """Let Python's calls lie `calls` deeper inside of one another than they may now."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def set_thread_variables() -> None:
    """How the threads of OpenMP and OpenBLAS wait in this process and in what it starts, where the user does not say.

    A model runs in a verification a few times, beside its conversion and the reference. Threads that spin while they
    wait took five times the CPU seconds of an LSTM's runs on cores that others used as well, and OpenBLAS's cannot be
    made to sleep, so that numpy, which the reference runs in, has half of the cores.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "OMP_NUM_THREADS" not in os.environ:  # which OpenBLAS reads as well
        os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // 2)))


def claim_process() -> None:
    """Declare that this process is the project's own, and what is forked from it.

    The worker of a command is, and so is what `module_command` starts. A program that calls the functions is not.
    """
    _own[:] = [True]


def is_own_process() -> bool:
    """Return whether nobody but this project goes on with what is imported here (`claim_process`)."""
    return bool(_own)


def module_command(name: str, *arguments: str) -> list[str]:
    """The command line of a process that runs a module of ours.

    Without -P Python looks for every module in the folder that the user is in first: a `numpy.py` beside a model would
    be run before anything is confined. TensorFlow loads libraries from beside the script that it finds in the command
    line, which after -m would be the module's name, as a path from that folder on.
    """
    return [sys.executable, "-P", str(_START), name, *arguments]


def own_variables() -> dict[str, str]:
    """What a process that works for nobody else has otherwise than the environment that it was started with.

    Libraries start `uname` and others while they are imported: where PATH has an entry that is no whole path, one from
    the folder that the user is in. Keras writes settings into the home folder when it is imported, and where there are
    some it takes other dtypes and layouts from them, of which a model would get other bytes.
    """
    places = [place for place in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(place)]
    path = os.pathsep.join(places) or os.defpath
    return {"PATH": path, "KERAS_HOME": _NO_FOLDER, "KERAS_BACKEND": "tensorflow"}


def check_own_folder() -> None:
    """Raises `UnsafeInput` for a folder from which TensorFlow would load libraries in `python -m convert`.

    `module_command` says why; the other commands take nothing from the folder that the user is in.
    """
    for place in ("convert/tensorflow/core/kernels", "convert.runfiles/org_tensorflow"):
        if os.path.lexists(place):
            raise UnsafeInput(
                f"TensorFlow would load libraries from ./{place}",
                hint="run it as convert-model, which takes nothing from here",
            )
