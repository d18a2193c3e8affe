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
    with _silent_stderr():
        module = importlib.import_module(name)
        if start is not None:
            start(module)
    return module


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Native libraries write to nowhere instead of the process's stderr meanwhile; exceptions pass as ever."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
