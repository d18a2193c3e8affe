"""Standard streams that do not fail: the work continues, and an output that could not be printed is reported at the
end.

A full disk behind stdout, a closed pipe (`| head`) or closed streams must not stop a conversion, nor change its exit
code.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, TextIO

NOT_PRINTED = 6
"""Exit code where all went well but the printing."""


class _PatientFile(io.FileIO):
    """A file that records its first failure, and ignores what is written after it."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write as `FileIO` does, or drop the data if it cannot be written."""
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def hold() -> None:
    """Install these streams in this process; closed ones are opened on the null device, so that no other file gets
    their number.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    for name, number in (("stdout", 1), ("stderr", 2)):
        usual = getattr(sys, f"__{name}__")
        if getattr(sys, name) is usual:  # a program has replaced the stream on purpose
            setattr(sys, name, _patient(number, usual))


def _patient(number: int, usual: TextIO | None) -> TextIO:
    encoding = usual.encoding if usual is not None else "utf-8"
    raw = _PatientFile(number, "w", closefd=False)
    lines = number == 2 or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors="replace", line_buffering=lines)


def exit_code(code: str | int | None) -> str | int | None:
    """Return the exit code for work that ended with `code`: an error code if the work succeeded but could not be
    printed.

    A reader that has closed the pipe is no failure.
    """
    failure = _failure(sys.stdout)
    if code not in (0, None) or failure is None or failure.errno == errno.EPIPE:
        return code
    sys.stderr.write(f"error: the result could not be printed: {failure.strerror}\n")
    return NOT_PRINTED


def _failure(stream: TextIO) -> OSError | None:
    try:
        stream.flush()
    except OSError as error:
        return error
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, _PatientFile) else None
