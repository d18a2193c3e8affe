"""Starts the process that warm workers are forked from, with what a plan needs imported, and ends it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from convert.batch.plan import Task
from convert.batch.processes import MARK, new_mark
from convert.errors import ConvertError
from convert.sniff import sniff


def needs(tasks: Iterable[Task]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of the sources, as far as their content tells, and the formats to write."""
    kinds, formats = set(), set()
    for task in tasks:
        formats.add(task.format)
        try:
            kinds.add(sniff(task.source))
        except (ConvertError, OSError):
            continue  # its own conversion says what is wrong with it
    return tuple(sorted(kinds)), tuple(sorted(formats))


@contextmanager
def nursery(kinds: Iterable[str], formats: Iterable[str]) -> Iterator[str]:
    """A warm process while this lasts: the path of its socket, or an empty string where it did not come up.

    It dies with the thread that calls this. A room of which it has imported more than was asked for does no harm.
    """
    with tempfile.TemporaryDirectory(prefix="convert-") as folder:
        place = Path(folder) / "nursery"
        words = [str(place), str(os.getpid()), ",".join(kinds), ",".join(formats)]
        # One thread: OpenBLAS starts its own when it is loaded. Forks have what is set here as well.
        environment = {**os.environ, MARK: new_mark(), "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "convert.batch.nursery", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            ready = process.stdout.readline() == b"ready\n"
            yield str(place) if ready else ""
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
