"""Imports a framework without the chatter that its libraries print before their log levels apply."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


def import_quietly(name: str, environment: Mapping[str, str], start: Callable[[Any], object] | None = None) -> Any:
    """The module `name`, imported at most once. Raises ImportError as the import does.

    environment: variables that the module reads while it is imported, for those that are not set.
    start: called once with the module after its import, where that prints as well; a start may start threads.
    """
    for variable, value in environment.items():
        os.environ.setdefault(variable, value)
    if name in sys.modules:
        return sys.modules[name]
    with silent(2):
        module = importlib.import_module(name)
        if start is not None:
            start(module)
    return module


@contextmanager
def silent(*streams: int) -> Iterator[None]:
    """Native libraries write to nowhere instead of these file descriptors meanwhile; exceptions pass as ever."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(number) for number in streams]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in streams:
            os.dup2(nowhere, number)
        yield
    finally:
        for number, copy in zip(streams, kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)
