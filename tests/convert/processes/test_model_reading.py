"""An untrusted file is read in a thread that can write nowhere else and connect to nothing; the program itself stays
unconfined.
"""

from __future__ import annotations

import _thread
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx_ir as ir
import pytest

from convert import activity, plugin
from convert.errors import ResourceLimit
from convert.files.scratch import scratch_folder
from convert.graph import Graph, attribute_ranges, dim_counts, mismatches, weight_counts
from convert.outcome.report import Report
from convert.processes import sandbox
from convert.processes.model_reading import list_weights, read_model
from convert.processes.sandbox import CALLS, FILES, available_measures
from convert.request.options import Options
from convert.request.source import Source

CONFINED = pytest.mark.skipif(not {FILES, CALLS} <= set(available_measures()), reason="no Landlock or no seccomp here")

Read = Callable[[], Any]


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Read with a frontend whose `read` is the given function."""

    monkeypatch.setattr(dim_counts, "check_dims", lambda model: None)  # the result here is no model
    monkeypatch.setattr(attribute_ranges, "check_attributes", lambda model: None)
    monkeypatch.setattr(weight_counts, "check_weights", lambda model, read: None)
    monkeypatch.setattr(mismatches, "first_mismatch", lambda model: "")

    def read(work: Read, source: Source | None = None, **options: Any) -> Any:
        frontend = SimpleNamespace(KINDS={"onnx": ""}, read=lambda *given: work(), list_weights=lambda *given: work())
        monkeypatch.setattr(plugin, "frontend_for", lambda source: frontend)
        given = (source or Source("onnx", tmp_path / "m.onnx"), Options(**options), Report("test"))
        assert list_weights(*given) == read_model(*given)
        return read_model(*given)

    return read


def test_a_graph_is_looked_at_whoever_has_read_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The lists belong to nodes that a frontend has added itself, so no rule has checked them."""
    g = Graph()
    g.output(g.Tile(g.input("x", ir.DataType.FLOAT, (2, 3)), [1] * 600), "y")
    frontend = SimpleNamespace(KINDS={"onnx": ""}, read=lambda *given: g.model())
    monkeypatch.setattr(plugin, "frontend_for", lambda source: frontend)
    with pytest.raises(ResourceLimit, match="600 numbers in its input 2"):
        read_model(Source("onnx", tmp_path / "m.onnx"), Options(), Report("test"))


def _connect() -> None:
    socket.create_connection(("127.0.0.1", 9))


@CONFINED
@pytest.mark.parametrize("act", ["write", "append", "remove", "folder", "connect", "packets"])
def test_what_a_file_does_while_it_is_read_fails(reading: Callable[..., Any], tmp_path: Path, act: str) -> None:
    (tmp_path / "kept").write_text("kept")
    acts: dict[str, Callable[[], object]] = {
        "write": lambda: (tmp_path / "new").write_text("x"),
        "append": lambda: (tmp_path / "kept").open("a"),
        "remove": lambda: (tmp_path / "kept").unlink(),
        "folder": lambda: (tmp_path / "new").mkdir(),
        "connect": _connect,
        "packets": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET),
    }
    with pytest.raises(PermissionError):
        reading(acts[act])
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "after").write_text("the program itself is not confined")


def test_reading_may_write_what_it_has_to(reading: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "passes").mkdir()

    def work() -> list[str]:
        (tmp_path / "passes" / "00-read.onnx").write_text("x")
        with scratch_folder() as folder:
            (folder / "x").write_text("x")
            return [p.name for p in folder.iterdir()]

    assert "x" in reading(work, dump_passes=tmp_path / "passes")


@pytest.mark.parametrize("own", [{"trust": True}, {"rules": ("r.py",)}, {"model": "m:f"}, {"source": Source("onnx")}])
def test_the_users_own_code_is_where_it_was(reading: Callable[..., Any], own: dict[str, Any]) -> None:
    assert reading(threading.current_thread, **own) is threading.current_thread()


def test_a_process_that_is_confined_needs_no_thread(
    reading: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reading(lambda: threading.current_thread().name) == "confined"
    monkeypatch.setattr(sandbox, "_is_confined", [True])
    assert reading(threading.current_thread) is threading.current_thread()


def test_the_clock_of_the_caller_holds(reading: Callable[..., Any]) -> None:
    with pytest.raises(ResourceLimit, match="longer than 0 s"), activity.limited_time(0):
        reading(activity.check_time)


def test_who_interrupts_ends_the_reading(reading: Callable[..., Any]) -> None:
    """Ctrl-C goes to the main thread, which must not leave the other thread working in the background."""
    threads = []

    def work() -> None:
        threads.append(threading.current_thread())
        _thread.interrupt_main()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            time.sleep(0.01)

    # A shell that starts tests in the background may make them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            reading(work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not threads[0].is_alive()
