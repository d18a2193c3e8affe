"""Parses untrusted input in a separate process first, for libraries that may loop or crash on damaged input.

The parsing module is started as `python -m MODULE PARENT SECONDS [ARGUMENT …]`, with content that is not a file at its
standard input. It calls `begin_check` before the library sees any of it. Input is read here if that process ends well.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from convert.errors import BadInput
from convert.processes.interpreter import module_command
from convert.processes.sandbox import confine_parser, die_with_parent

_BUSY = 10
"""Factor by which the time limit is extended on a busy machine."""

GET_AGAIN_HINT = "get the file again and compare its checksum with the source's"


def check_file(path: Path, module: str, library: str, seconds: float, *arguments: str) -> None:
    """Raise `BadInput` if `module` does not parse a file to its end in this many seconds of CPU time.

    `module` gets the path, then the `arguments`. Each file is checked once.
    """
    found = path.stat()
    _check_once(path, found.st_mtime_ns, found.st_size, module, library, seconds, arguments)


@cache
def _check_once(
    path: Path, modified: int, size: int, module: str, library: str, seconds: float, arguments: Sequence[str]
) -> None:
    check_parses(str(path), module, library, seconds, str(path), *arguments)


def check_parses(
    label: str, module: str, library: str, seconds: float, *arguments: str, content: bytes | None = None
) -> None:
    """Raise `BadInput` if `module` fails, crashes or takes more than this many seconds of CPU time.

    content: what the module reads from its standard input.
    """
    command = module_command(module, str(os.getpid()), str(int(seconds) + 1), *arguments)
    message = f"{library} did not reach the end after {seconds:.0f} s of CPU time"
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, input=content or b"", timeout=_BUSY * seconds, check=False)
        if done.returncode == 0:
            return
        if done.returncode not in (-signal.SIGXCPU, -signal.SIGKILL):
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            message = (lines or [f"{library} ended with code {done.returncode}"])[-1]
    raise BadInput(f"{label} is damaged: {message}", hint=GET_AGAIN_HINT)


def begin_check() -> list[str]:
    """Confine this process, which `check_parses` started, and return the arguments of its module.

    It ends with its parent, and after the seconds of CPU time that it was given.
    """
    parent, seconds = map(int, sys.argv[1:3])
    die_with_parent(parent)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    confine_parser()  # the parser is written in C or C++, and the file is untrusted
    return sys.argv[3:]
