"""What a conversion asks of Python's interpreter: no garbage collection meanwhile, room for recursion, processes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_garbage_collection() -> Iterator[None]:
    """Nothing is collected inside, save by reference counts; afterwards all is as it was.

    A graph is many objects that live until its end. The collector goes over them and over those of the frameworks again
    and again, which took 40 % of the time of a graph of 10,000 nodes and grew with it. What holds many bytes, tensors,
    is in no cycle, and is freed as before.
    """
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


def module_command(name: str, *arguments: str) -> list[str]:
    """The command line of a process that runs a module of ours.

    Without -P Python looks for every module in the folder that the user is in first: a `numpy.py` beside a model would
    be run before anything is confined.
    """
    return [sys.executable, "-P", "-m", name, *arguments]
