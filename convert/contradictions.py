"""What a file makes code of ours stumble over, told as the fault of the file where something shows that it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from convert import limits
from convert.errors import BadInput, ConvertError, as_convert_error, is_defect
from convert.files.weight_files import weight_files
from convert.source import Source

_DOUBT = "is the file damaged? if it runs elsewhere this is a defect of convert: run again with -vv and report it"


def _changed_file(source: Source) -> Path | None:
    """A file of the model that was written, cut or replaced since it began to be read."""
    path = source.file
    files = itertools.islice(path.rglob("*"), limits.FOLDER_ENTRIES) if path.is_dir() else (path, *weight_files(path))
    for file in files:
        with suppress(OSError):
            if file.is_file() and file.stat().st_ctime_ns > source.since:
                return file
    return None


@contextmanager
def hold_against_file(source: Source, find: Callable[[], str] | None = None) -> Iterator[None]:
    """Inside, an error that would be called a defect of convert is held against the file that it is of.

    Files say shapes and options more than once, and a rule relies on what the others say. find: what the file says
    that its own specification forbids, or "", asked of a file that was read. Models in memory and what this run has
    written are no stranger's. Raises `BadInput` where the file is at fault, else what came, with the question added.
    """
    try:
        yield
    except Exception as error:
        problem = as_convert_error(error)
        if source.path is None or source.own or not is_defect(problem):
            raise
        if changed := _changed_file(source):
            raise BadInput(
                f"{changed} was changed while it was read", hint="convert it again when nobody writes to it"
            ) from error
        if reason := find() if find is not None else "":
            message = f"{source.label} contradicts itself: {reason}"
            raise BadInput(message, hint="export it again, or mend what it says there") from error
        known = isinstance(error, ConvertError)
        message = problem.sentence if known else f"what {source.label} holds was not foreseen: {problem.sentence}"
        raise ConvertError(message, hint=_DOUBT) from error
