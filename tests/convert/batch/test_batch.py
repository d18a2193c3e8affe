"""`convert batch`: the journal, and workers that crash, hang and use up all memory."""

from __future__ import annotations

import html.parser
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from convert.batch import show
from convert.batch.journal import Journal
from convert.batch.plan import Task
from convert.batch.processes import kill_orphans, process_tree
from convert.batch.run import run
from convert.batch.show import LineView, reason
from convert.errors import UsageError
from convert.pages import zoo
from tests.support.batch_tools import rules, tasks_of, tiny
from tests.support.hostile import OLD_ONNX

# -- the journal ------------------------------------------------------------------------------------------------------


ENDED = {"outcome": "converted", "reason": "", "seconds": 1.0, "peak": 1, "attempts": 1, "limits": {}, "report": {}}
"""The fields of every final record, without its key."""


def test_a_line_that_was_cut_off_is_no_line(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.started("k1", Path("a"))
        journal.end({**ENDED, "key": "k1"}, Path("a"))
        journal.started("k2", Path("b"))
    with open(tmp_path / "journal.jsonl", "a") as stream:
        stream.write('{"event": "ended", "key": "k2", "outp')
    with Journal(tmp_path) as journal:
        assert journal.ended("k1", Path("a")) is not None
        assert journal.ended("k2", Path("b")) is None
        assert journal.is_ours(Path("b"))
        assert not journal.is_ours(Path("c"))
        journal.end({**ENDED, "key": "k2", "outcome": "failed"}, Path("b"))
    with Journal(tmp_path) as journal:
        assert (journal.ended("k2", Path("b")) or {})["outcome"] == "failed"


def test_a_newer_start_makes_the_older_end_void(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.end({**ENDED, "key": "old"}, Path("a"))
        journal.started("new", Path("a"))
        assert journal.ended("old", Path("a")) is None


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(UsageError, match="another batch"):
        Journal(tmp_path)


@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe", "folder"])
def test_a_journal_is_a_file(kind: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    place = tmp_path / "out" / "journal.jsonl"
    place.parent.mkdir()
    match kind:
        case "link":
            place.symlink_to(tmp_path / "empty")
        case "link to nothing":
            place.symlink_to(tmp_path / "gone")
        case "pipe":
            os.mkfifo(place)
        case _:
            place.mkdir()
    with pytest.raises(UsageError, match="is no journal of a batch"):
        Journal(place.parent)
    assert not (tmp_path / "gone").exists()


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.not_core
def test_each_end_is_its_own_and_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash, a hang, a task that uses all memory, and errors, next to good models; the next run repeats only
    unfinished or changed tasks.
    """
    bad, out = rules(tmp_path / "rules"), tmp_path / "out"
    sources = {name: tiny(tmp_path / f"{name}.onnx") for name in ("good", "crash", "hang", "hog", "error")}
    sources["unsupported"] = tiny(tmp_path / "unsupported.onnx", operator="Magic", domain="mine")
    sources["grab"] = sources["space"] = sources["good"]
    bad["space"] = bad["grab"]
    (tmp_path / "broken.onnx").write_bytes(sources["good"].read_bytes()[:40])
    sources["broken"] = tmp_path / "broken.onnx"
    tasks = [
        Task(
            name,
            path,
            "onnx",
            out / f"{name}.onnx",
            {"verify": False, **({"rules": [bad[name]]} if name in bad else {})},
            3.0 if name == "hang" else 120.0,
            400 << 20 if name in ("hog", "grab") else None,
        )
        for name, path in sources.items()
    ]
    monkeypatch.setattr(os, "sysconf", lambda name: 1)  # no machine has twice the memory
    records = run(tasks, out, LineView(len(tasks), True, True), jobs=2, force=False, warm=True)
    assert {r["name"]: (r["outcome"], r["attempts"]) for r in records} == {
        "good": ("converted", 1),
        "crash": ("crash", 2),
        "hang": ("timeout", 1),
        "hog": ("memory", 1),
        "error": ("bad input", 1),
        "grab": ("bad input", 1),
        "space": ("converted", 1),
        "unsupported": ("converted", 1),
        "broken": ("bad input", 1),
    }
    assert not [p for p in process_tree(os.getpid()) if "while True" in _command(p)]
    onnx.checker.check_model(out / "good.onnx")
    told = show.summary(records)
    assert not told["ok"]
    assert told["outcomes"] == {"converted": 3, "bad input": 3, "crash": 1, "timeout": 1, "memory": 1}
    assert "Cannot allocate memory" in next(r["reason"] for r in records if r["name"] == "grab")
    assert not list(out.glob(".*"))

    lines = (out / "journal.jsonl").read_text().splitlines()
    again = run(tasks, out, LineView(len(tasks), True, True), jobs=2, force=False, warm=True)
    assert [r["outcome"] for r in again] == [r["outcome"] for r in records]
    assert all(r["before"] for r in again)
    assert (out / "journal.jsonl").read_text().splitlines() == lines

    (out / "good.onnx").unlink()
    tiny(sources["unsupported"], seed=5)
    third = run(tasks, out, LineView(len(tasks), True, True), jobs=2, force=False, warm=True)
    assert {r["name"] for r in third if not r.get("before")} == {"good", "unsupported"}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.slow
@pytest.mark.not_core
def test_what_others_wrote_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.onnx").write_bytes(OLD_ONNX)
    tasks = tasks_of(tiny(tmp_path / "a.onnx"), output=out)
    (record,) = run(tasks, out, LineView(1, True, True), jobs=1, force=False)
    assert record["outcome"] == "usage"
    assert (out / "a.onnx").read_bytes() == OLD_ONNX
    (record,) = run(tasks, out, LineView(1, True, True), jobs=1, force=True)
    assert record["outcome"] == "converted"


@pytest.mark.slow
def test_a_name_that_no_disk_takes_is_one_tasks_error(tmp_path: Path) -> None:
    source = tiny(tmp_path / f"{'x' * 249}.onnx")
    out = tmp_path / "out"
    tasks = [*tasks_of(source, to=["tf"], output=out), *tasks_of(tiny(tmp_path / "a.onnx"), output=out)]
    long, plain = run(tasks, out, LineView(2, True, True), jobs=1, force=False)
    assert (long["outcome"], plain["outcome"]) == ("usage", "converted")
    assert "File name too long" in reason(long)


def batch(*arguments: str | Path, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "convert", "batch", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


@pytest.mark.slow
@pytest.mark.not_core
def test_after_kill_9_only_what_is_unfinished_runs(tmp_path: Path) -> None:
    for i in range(4):
        tiny(tmp_path / f"zoo/{i}.onnx", seed=i)
    command = (tmp_path / "zoo", "--to", "onnx", "--no-verify", "-o", tmp_path / "out", "--json")
    first = batch(*command)
    assert first.stdout is not None
    done = json.loads(first.stdout.readline())
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    journal = tmp_path / "out/journal.jsonl"
    finished = [r["name"] for r in map(json.loads, journal.read_text().splitlines()) if r["event"] == "ended"]
    assert done["name"] in finished
    second = batch(*command)
    out, err = second.communicate(timeout=300)
    assert second.returncode == 0, err
    *rows, last = map(json.loads, out.splitlines())
    assert {r["name"] for r in rows if r.get("before")} == set(finished)
    assert last["summary"] == {"outcomes": {"converted": 4}, "causes": [], "unsupported": {}, "ok": True}
    ended = Counter(r["name"] for r in map(json.loads, journal.read_text().splitlines()) if r["event"] == "ended")
    assert ended == {str(i): 1 for i in range(4)}


@pytest.mark.slow
@pytest.mark.not_core
def test_the_command_takes_lines_counts_outcomes_and_writes_a_page(tmp_path: Path) -> None:
    tiny(tmp_path / "a.onnx")
    tiny(tmp_path / "b.onnx", operator="Magic", domain="mine")
    done = batch(
        "--to", "caffe2", "--no-verify", "-o", tmp_path / "out", "--report", tmp_path / "r.html", stdin=subprocess.PIPE
    )
    out, err = done.communicate(f"{tmp_path / 'a.onnx'}\n{tmp_path / 'b.onnx'}\n", timeout=300)
    assert done.returncode == 1, err
    assert "converted    a → caffe2" in out
    assert "1 converted, 1 unsupported" in out
    assert "mine::Magic" in out

    cells: list[str] = []
    reader = html.parser.HTMLParser()
    reader.handle_data = cells.append  # type: ignore[method-assign]
    reader.feed((tmp_path / "r.html").read_text())
    assert {"a", "b", "converted", "unsupported"} <= set(cells)


@pytest.mark.slow
@pytest.mark.not_core
def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    tiny(tmp_path / "a.onnx")
    done = batch(tmp_path / "a.onnx", "--to", "onnx", "-o", tmp_path / "out", "--dry-run")
    out, err = done.communicate(timeout=300)
    assert done.returncode == 0, err
    assert "convertible  a → onnx" in out
    assert not (tmp_path / "out").exists()


def test_the_page_escapes_what_models_are_called(tmp_path: Path) -> None:
    record = {"name": "<b>", "format": "onnx", "outcome": "failed", "reason": "<script>", "seconds": 1.0, "peak": 0}
    zoo.write(tmp_path / "r.html", [record], show.summary([record]))
    text = (tmp_path / "r.html").read_text()
    assert "&lt;b&gt;" in text
    assert "<td><script>" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("blow", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_batch(blow: signal.Signals, tmp_path: Path) -> None:
    bad = rules(tmp_path / "rules")
    tiny(tmp_path / "a.onnx")
    (tmp_path / "zoo.toml").write_text(f"[[models]]\nsource = 'a.onnx'\nto = 'onnx'\nrules = ['{bad['hang']}']\n")
    running = batch(tmp_path / "zoo.toml", "-o", tmp_path / "out")
    try:
        hanging = awaited(lambda: [p for p in process_tree(running.pid) if "while True" in _command(p)])
        worker = process_tree(running.pid)[1]
        running.send_signal(blow)
        assert running.wait(timeout=60) == (-blow if blow == signal.SIGKILL else 128 + blow)
        awaited(lambda: not _command(worker))
        if blow == signal.SIGKILL:
            kill_orphans()
        assert not [p for p in hanging if "while True" in _command(p)]
    finally:
        running.kill()
        running.wait()
        kill_orphans()


def awaited(condition: Callable[[], Any]) -> Any:
    """Return the first true result of `condition`; fail after two minutes."""
    deadline = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
