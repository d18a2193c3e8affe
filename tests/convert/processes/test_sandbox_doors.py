"""The sandbox confines a process in any state, and leaves no way out."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from convert.processes import sandbox
from convert.processes.sandbox import CALLS, FILES, available_measures, in_confined_thread, in_reading_thread

pytestmark = [
    pytest.mark.skipif(not {FILES, CALLS} <= set(available_measures()), reason="no Landlock or no seccomp here"),
    pytest.mark.not_core,
]


def test_an_error_of_long_ago_opens_nothing(tmp_path: Path) -> None:
    """Landlock's library reads the error of the thread's last call, whether or not its own call failed."""
    own = tmp_path / "own"
    own.mkdir()

    def close() -> None:
        ctypes.set_errno(1)
        sandbox._close_each((partial(sandbox._close_files, own),))

    with pytest.raises(PermissionError):
        sandbox._in_thread(lambda: (tmp_path / "new").write_text("x"), close)


@pytest.mark.parametrize("confined", [in_confined_thread, in_reading_thread])
def test_no_descriptor_is_left(confined: object, tmp_path: Path) -> None:
    """A program that had read a thousand files had no descriptors left."""
    work = lambda: None  # noqa: E731
    call = (
        partial(in_reading_thread, work, tmp_path)
        if confined is in_reading_thread
        else partial(in_confined_thread, work)
    )
    call()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        call()
    assert len(os.listdir("/proc/self/fd")) == before


_NO_FILES = """
import os, resource, sys, tempfile
from pathlib import Path
import landlock, pyseccomp
from convert.processes import sandbox
tempfile.gettempdir()
most = len(os.listdir("/proc/self/fd")) - 1
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
other = Path(sys.argv[1]) / "new"
try:
    if sys.argv[2] == "thread":
        sandbox.in_reading_thread(lambda: os.mkdir(other))
    elif sys.argv[2] == "command":
        sandbox.confine_command(Path(sys.argv[1]) / "own", [])
        os.mkdir(other)
    else:
        sandbox.confine(Path(sys.argv[1]) / "own", 60, None)
        os.mkdir(other)
except OSError as error:
    print(error.errno)
"""


@pytest.mark.parametrize("how", ["thread", "command", "run"])
def test_where_no_file_can_be_opened_nothing_is_done(how: str, tmp_path: Path) -> None:
    """Otherwise a process that has used up all descriptors would run unconfined."""
    (tmp_path / "own").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _NO_FILES, str(tmp_path), how], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["24"], done.stderr
    assert not (tmp_path / "new").exists()
