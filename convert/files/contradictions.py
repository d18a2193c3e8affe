"""Attributes unexpected errors to a damaged file, if there is evidence for that."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from convert import limits
from convert.errors import BadInput, ConvertError, as_convert_error, is_defect
from convert.files.weight_files import weight_files
from convert.request.source import Source

_DOUBT = "is the file damaged? if it runs elsewhere this is a defect of convert: run again with -vv and report it"


def _changed_file(source: Source) -> Path | None:
    """Return a file of the model that was written, truncated or replaced since reading began; None if there is none."""
    path = source.file
    files = itertools.islice(path.rglob("*"), limits.FOLDER_ENTRIES) if path.is_dir() else (path, *weight_files(path))
    for file in files:
        with suppress(OSError):
            if file.is_file() and file.stat().st_ctime_ns > source.opened_ns:
                return file
    return None


@contextmanager
def blame_file(source: Source, find: Callable[[], str] | None = None) -> Iterator[None]:
    """Context manager: raise `BadInput` instead of an unexpected error, if the file is wrong.

    Files state shapes and options redundantly, and a rule relies on their consistency. The file is wrong if it was
    changed while it was read, or if `find` returns a contradiction in it instead of "". If the file is not known to be
    wrong, the error is raised as a `ConvertError` that asks for a report. Errors about models in memory, and about
    files that this run wrote, pass unchanged, because these are trusted.
    """
    try:
        yield
    except Exception as error:
        problem = as_convert_error(error)
        if source.path is None or source.written_here or not is_defect(problem):
            raise
        if changed := _changed_file(source):
            raise BadInput(
                f"{changed} was changed while it was read", hint="convert it again when nobody writes to it"
            ) from error
        if reason := find() if find is not None else "":
            message = f"{source.label} contradicts itself: {reason}"
            raise BadInput(message, hint="export it again, or correct that in the model") from error
        known = isinstance(error, ConvertError)
        message = problem.sentence if known else f"what {source.label} holds was not foreseen: {problem.sentence}"
        raise ConvertError(message, hint=_DOUBT) from error
