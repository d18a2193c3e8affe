"""TensorFlow's converter runs in a fork if there is a process to fork, and every way in which it ends is reported."""

from __future__ import annotations

import importlib
import signal
import types
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="the writer imports TensorFlow")

from convert.backends.tensorflow.lite import writer

from convert.errors import ConvertError
from convert.processes.fork_client import ADDRESS


@pytest.mark.parametrize("status", ["", "{}"])
def test_it_is_a_fork_of_a_warm_process(status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "/a/socket.0")
    asked = []

    def fork(entry: str, arguments: list[str], environment: object, out: int, err: int, address: str) -> object:
        asked.append((entry, arguments, address))
        (tmp_path / "log").write_text("a\nb\nc\nd\n")
        if status:
            (tmp_path / "status.json").write_text(status)
        return types.SimpleNamespace(pid=0, wait=lambda: -signal.SIGABRT, poll=lambda: -signal.SIGABRT)

    monkeypatch.setattr(writer, "fork", fork)
    if status:
        writer._run_converter(tmp_path)
    else:
        with pytest.raises(ConvertError, match=r"died with exit code -6: b \| c \| d$"):
            writer._run_converter(tmp_path)
    ((entry, arguments, address),) = asked
    assert (arguments, address) == ([str(tmp_path)], "/a/socket.0")
    module, _, function = entry.partition(":")
    assert callable(getattr(importlib.import_module(module), function))
