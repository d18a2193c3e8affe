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

from convert.processes.fork_client import ADDRESS
from convert.processes.marks import MARK, new_mark

KINDS_TO_PRELOAD = [("onnx", "torchscript", "savedmodel"), ("onnx", "tf")]
"""Kinds to read and formats to write; their packages are imported in the warm process."""


def pytest_configure(config: pytest.Config) -> None:
    """Start one warm process, shared by the workers, while they collect tests."""
    several = len(getattr(config.option, "tx", None) or []) > 1
    if not several or hasattr(config, "workerinput") or config.getoption("markexpr") == "core":
        return
    folder = tempfile.TemporaryDirectory(prefix="convert-tests-")
    place = str(Path(folder.name) / "warm")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "convert.processes.fork_server",
            place,
            str(os.getpid()),
            json.dumps([KINDS_TO_PRELOAD]),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # One thread, because OpenBLAS starts threads when it is loaded. Forks inherit these settings.
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
    """Start child processes as new interpreters, for tests of them, or of variables that they read at the start."""
    monkeypatch.delenv(ADDRESS, raising=False)
    monkeypatch.setattr("convert.processes.program_server.server_address", lambda runner: "")
    monkeypatch.setattr("convert.processes.program_server.start_server", lambda *given: None)
