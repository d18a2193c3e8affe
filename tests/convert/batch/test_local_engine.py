"""The local engine leaves no thread behind, whenever an interruption comes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from convert.batch import local_engine
from convert.batch.fork_server_pool import WarmPool
from convert.batch.plan import Task
from tests.support.batch_tools import tasks_of, tiny


@contextmanager
def _slow_pool(tasks: Sequence[Task]) -> Iterator[tuple[WarmPool, subprocess.Popen[bytes]]]:
    """Return a warm process that starts slowly."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield WarmPool("place", tasks), process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [1, 2])
def test_an_interruption_while_threads_begin_leaves_none(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, begun, raised = threading.Thread.start, list[threading.Thread](), list[Any]()

    def start(thread: threading.Thread) -> None:
        usual(thread)
        begun.append(thread)
        if len(begun) == number:
            raise KeyboardInterrupt

    monkeypatch.setattr(local_engine, "warm_pool", _slow_pool)
    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(threading, "excepthook", raised.append)
    for name in ("a", "b"):
        tiny(tmp_path / f"{name}.onnx")
    tasks = tasks_of(tmp_path / "a.onnx", tmp_path / "b.onnx", output=tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        local_engine.run_all(tasks, 2, lambda task: None, lambda task, result: None, warm=True)
    assert len(begun) == number
    assert not any(thread.is_alive() for thread in begun)
    assert not raised
