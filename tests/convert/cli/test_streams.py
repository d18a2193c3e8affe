"""Full or closed streams, streams that nobody reads, and exhausted memory: the message, and the exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from convert.cli.output_options import exit_on_error

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full, and streams that a shell closes")

FULL = "error: the result could not be printed: No space left on device\n"
PROGRAM = """
import sys, types

api = types.ModuleType("convert.api")
def work(source, *args, report, **rest):
    from convert.errors import BadInput
    if str(source) == "bad":
        raise BadInput("bad")
    return report
api.inspect = work
sys.modules["convert.api"] = api
from convert.cli import main
main()
"""


def run(words: str, redirected: str, folder: Path) -> tuple[int, str]:
    """Return the exit code and stderr of `convert WORDS`, with the streams that a shell would pass."""
    line = f'"$0" -c "$1" {words} {redirected}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", line, sys.executable, PROGRAM], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "redirected", "code", "told"),
    [
        pytest.param("inspect m", ">/dev/full", 6, FULL, marks=pytest.mark.long),
        ("inspect m --json", ">/dev/full", 6, FULL),
        pytest.param("inspect bad", ">/dev/full", 5, "error: bad\n", marks=pytest.mark.long),
        ("inspect bad --json", ">/dev/full", 5, "error: bad\n"),
        pytest.param("inspect m", "| true", 0, "", marks=pytest.mark.long),
        ("inspect bad --json", "| true", 5, "error: bad\n"),
        ("inspect m", "<&- >&- 2>&-", 0, ""),
        pytest.param("inspect bad", "2>/dev/full", 5, "", marks=pytest.mark.long),
        ("--help", ">/dev/full", 6, FULL),
        pytest.param("--help", "| true", 0, "", marks=pytest.mark.long),
        pytest.param("--bad", "2>&-", 2, "", marks=pytest.mark.long),
    ],
)
def test_streams_do_not_change_what_is_done(words: str, redirected: str, code: int, told: str, tmp_path: Path) -> None:
    assert run(words, redirected, tmp_path) == (code, told)
    assert list(tmp_path.iterdir()) == []


def test_no_other_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    program = 'from convert.cli import streams\nstreams.hold()\nprint(open("f", "w").fileno(), file=open("told", "w"))'
    subprocess.run(["bash", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, program], cwd=tmp_path, check=True)
    assert int((tmp_path / "told").read_text()) > 2


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ("libx.so.2: failed to map segment from shared object", 6),
        ("libx.so.2: cannot allocate memory in static TLS block", 6),
        ("libx.so.2: failed to map segment from shared object: Operation not permitted", 1),
        ("No module named 'x'", 1),
    ],
)
def test_a_library_that_gets_no_memory_is_a_limit(told: str, code: int) -> None:
    def load() -> None:
        raise ImportError(told, name="x.y")

    with pytest.raises(SystemExit) as caught:
        exit_on_error(load, 0)
    assert caught.value.code == code
