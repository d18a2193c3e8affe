"""One process that has imported the frameworks, from which the children of all tests are forked.

Verification runs source and artefact in children; a new interpreter for each spends seconds on imports before it
computes for milliseconds. `convert batch` forks them from a warm process, and so does a run of the suite with several
workers, through the same variable. Until the process is there, and in tests that ask for the fixture
`new_interpreters`, each child is an interpreter of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from convert.runners.fork_client import ADDRESS
from convert.runners.marks import MARK, new_mark

ROOMS = [("onnx", "torchscript", "savedmodel"), ("onnx", "tf")]
"""Kinds to read and formats to write whose rooms are imported."""


def pytest_configure(config: pytest.Config) -> None:
    """Several workers share one warm process, which comes up while they collect."""
    several = len(getattr(config.option, "tx", None) or []) > 1
    if not several or hasattr(config, "workerinput") or config.getoption("markexpr") == "core":
        return
    folder = tempfile.TemporaryDirectory(prefix="convert-tests-")
    place = str(Path(folder.name) / "warm")
    process = subprocess.Popen(
        [sys.executable, "-m", "convert.runners.fork_server", place, str(os.getpid()), json.dumps([ROOMS])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # One thread: OpenBLAS starts its own when it is loaded. Forks have what is set here as well.
        env={**os.environ, MARK: new_mark(), "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )
    os.environ[ADDRESS] = f"{place}.0"

    def end() -> None:
        process.kill()
        process.wait()
        folder.cleanup()

    config.add_cleanup(end)


@pytest.fixture
def new_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children of this test are interpreters of their own: it is about them, or sets what they read at their start."""
    monkeypatch.delenv(ADDRESS, raising=False)
    monkeypatch.setattr("convert.runners.program_server.server_address", lambda runner: "")
    monkeypatch.setattr("convert.runners.program_server.start_server", lambda *given: None)
