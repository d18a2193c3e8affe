"""A second run of a batch, and a second attempt within a run, without real conversions."""

from __future__ import annotations

import io
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from convert.batch import local_engine, ray_engine, worker
from convert.batch.made import describe
from convert.batch.plan import Task
from convert.batch.record_form import is_record
from convert.batch.run import dry_run, run
from convert.batch.show import LineView
from convert.batch.worker import TaskResult
from convert.errors import BadInput
from convert.outcome.notes import Note
from convert.outcome.verdict import OutputVerdict, SetErrors, Verdict
from convert.processes import machine
from tests.support.batch_tools import tiny


class Workers:
    """A stand-in for the worker, which returns the next given outcome of a task, and records the requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **endings: list[str]) -> None:
        self.endings, self.asked = endings, []
        monkeypatch.setattr(local_engine, "run", self._run)

    def _run(self, task: Task, stop: threading.Event | None, fork_address: str) -> TaskResult:
        self.asked.append((task.name, task.memory))
        outcome = self.endings.get(task.name, ["converted"]).pop(0)
        if outcome != "converted":
            return TaskResult(outcome)
        task.output.write_text("a model")
        return TaskResult(outcome, made=describe(task.output))


def outcomes(tasks: list[Task], folder: Path, **more: Any) -> dict[str, str]:
    records = run(tasks, folder, LineView(len(tasks), True, True), jobs=1, **{"force": False, **more})
    return {r["name"]: r["outcome"] + (" before" if r.get("before") else "") for r in records}


def tasks_in(folder: Path, *names: str) -> list[Task]:
    return [Task(n, tiny(folder / f"{n}.onnx"), "onnx", folder / f"out/{n}.onnx", {}, 10.0, 1000) for n in names]


@pytest.mark.parametrize("value", [5, None, "\x1b[31m", [1], {"a": [1]}])
@pytest.mark.parametrize("name", ["key", "outcome", "reason", "seconds", "peak", "attempts", "limits", "report"])
def test_a_record_of_another_form_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    tasks, out = tasks_in(tmp_path, "a"), tmp_path / "out"
    Workers(monkeypatch)
    assert outcomes(tasks, out) == {"a": "converted"}
    assert outcomes(tasks, out) == {"a": "converted before"}
    journal = out / "journal.jsonl"
    record = json.loads(journal.read_text().splitlines()[-1])
    with journal.open("a") as file:
        file.write(json.dumps(record | {name: value}) + "\n")
    Workers(monkeypatch)
    as_well = (name, value) in [("reason", "\x1b[31m"), ("report", {"a": [1]}), ("limits", {"a": [1]})] or (
        name in ("seconds", "peak", "attempts") and value == 5
    )
    assert outcomes(tasks, out) == {"a": "converted before" if as_well else "converted"}


@pytest.mark.parametrize(
    "report",
    [{"notes": 5}, {"notes": [{"code": "c", "level": "info", "text": 5}]},
     {"inputs": [{"name": 1}]}, {"operators": {"Relu": []}}, {"error": {"problems": [{"why": 5}]}},
     {"verdict": {"outputs": [5], "status": "PASS"}}, {"verdict": {"reason": "no status"}}],
)  # fmt: skip
def test_a_report_of_another_form_makes_no_record(report: dict[str, Any]) -> None:
    whole = {"key": "k", "output": "o", "outcome": "verified", "reason": "", "seconds": 1.0, "peak": 1, "attempts": 1,
             "limits": {"seconds": 1.0, "memory": None}}  # fmt: skip
    verdict = Verdict("PASS", outputs=[OutputVerdict("y", sets=[SetErrors(1.0, 2.0, 3.0)])]).to_dict()
    assert is_record({**whole, "report": {"notes": [Note("text", "renamed").to_dict(), "of an older version"]}})
    assert is_record({**whole, "report": {"verdict": json.loads(json.dumps(verdict))}})
    assert not is_record({**whole, "report": report})


def test_a_line_too_deep_for_json_and_a_journal_of_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, out = tasks_in(tmp_path, "a"), tmp_path / "out"
    Workers(monkeypatch)
    outcomes(tasks, out)
    with (out / "journal.jsonl").open("a") as file:
        file.write("[" * 100_000 + "\n")
    assert outcomes(tasks, out) == {"a": "converted before"}
    os.truncate(out / "journal.jsonl", 1 << 40)
    with pytest.raises(BadInput, match="bytes of it were ever written"):
        outcomes(tasks, out)


def test_wider_limits_and_other_machines_are_another_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = {"slow": "timeout", "large": "memory", "lost": "lost", "full": "limit", "wrong": "unsupported"}
    tasks, out = tasks_in(tmp_path, *first), tmp_path / "out"
    Workers(monkeypatch, **{name: [outcome] for name, outcome in first.items()})
    assert outcomes(tasks, out, retries=0) == first
    Workers(monkeypatch)
    kept = {**{name: f"{outcome} before" for name, outcome in first.items()}, "lost": "converted", "full": "converted"}
    assert outcomes(tasks, out) == kept
    wider = [replace(task, seconds=20.0, memory=None) for task in tasks]
    Workers(monkeypatch)
    assert outcomes(wider, out) == {**dict.fromkeys(first, "converted before"), "slow": "converted",
                                    "large": "converted", "wrong": "unsupported before"}  # fmt: skip
    Workers(monkeypatch)
    assert outcomes(wider, out, redo_failed=True) == {**dict.fromkeys(first, "converted before"), "wrong": "converted"}
    Workers(monkeypatch)
    assert outcomes(wider, out, force=True) == dict.fromkeys(first, "converted")


def test_what_can_be_mended_outside_of_the_key_is_another_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, out = tasks_in(tmp_path, "place", "package", "wrong"), tmp_path / "out"
    endings = {
        "place": TaskResult("usage", "out/place.onnx exists"),
        "package": TaskResult("failed", report={"error": {"type": "BrokenPackage", "code": "broken-package"}}),
        "wrong": TaskResult("failed", report={"error": {"type": "ConvertError", "code": "convert-error"}}),
    }
    monkeypatch.setattr(local_engine, "run", lambda task, stop, address: endings[task.name])
    first = {"place": "usage", "package": "failed", "wrong": "failed"}
    assert outcomes(tasks, out, retries=0) == first
    Workers(monkeypatch)
    assert outcomes(tasks, out) == {"place": "converted", "package": "converted", "wrong": "failed before"}


def test_the_folder_may_be_named_from_elsewhere_and_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Workers(monkeypatch)
    (tmp_path / "here").mkdir()
    source = tiny(tmp_path / "a.onnx")
    for place, out, wanted in (("here", "../out", "converted"), (".", "out", "converted before")):
        monkeypatch.chdir(tmp_path / place)
        task = Task("a", source, "onnx", Path(out) / "a.onnx")
        assert outcomes([task], Path(out)) == {"a": wanted}
    (tmp_path / "out").rename(tmp_path / "moved")
    (record,) = dry_run([replace(task, output=Path("moved/a.onnx"))], Path("moved"), LineView(1, True, True), jobs=1,
                        force=False)  # fmt: skip
    assert (record["outcome"], record["output"], record["before"]) == ("converted", "moved/a.onnx", True)


def test_names_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Workers(monkeypatch)
    tasks = tasks_in(tmp_path, os.fsdecode(b"\xff"))
    assert list(outcomes(tasks, tmp_path / "out").values()) == ["converted"]
    assert list(outcomes(tasks, tmp_path / "out").values()) == ["converted before"]


def test_lack_of_memory_is_tried_again_with_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: 3000)
    found = Workers(monkeypatch, a=["memory", "memory", "converted"], b=["crash", "converted"], c=["timeout"])
    assert outcomes(tasks_in(tmp_path, "a", "b", "c"), tmp_path / "out", retries=5) == {
        "a": "memory", "b": "converted", "c": "timeout",
    }  # fmt: skip
    assert found.asked == [("a", 1000), ("a", 2000), ("b", 1000), ("b", 1000), ("c", 1000)]
    records = [json.loads(line) for line in (tmp_path / "out/journal.jsonl").read_text().splitlines()]
    assert [(r["name"], r["attempts"]) for r in records if r["event"] == "ended"] == [("a", 2), ("b", 2), ("c", 1)]


def test_a_cluster_gives_more_memory_as_long_as_a_machine_has_it(tmp_path: Path) -> None:
    machines = [(True, 3000.0), (True, 500.0), (False, 9000.0)]
    nodes = [{"Alive": alive, "Resources": {"memory": size}} for alive, size in machines]
    ray = SimpleNamespace(nodes=lambda: nodes)
    sent = ray_engine._SentTask(*tasks_in(tmp_path, "a"), attempts=1)
    again = ray_engine._task_to_retry(ray, sent, TaskResult("memory"), 5)
    assert again is not None
    assert (again.task.memory, ray_engine._resources(ray, again.task, ray_engine.Cluster())["memory"]) == (2000, 2000)
    assert ray_engine._task_to_retry(ray, again, TaskResult("memory"), 5) is None
    assert ray_engine._task_to_retry(ray, sent, TaskResult("crash"), 5) is sent
    assert ray_engine._task_to_retry(ray, sent, TaskResult("crash"), 0) is None
    assert ray_engine._task_to_retry(ray, sent, TaskResult("unsupported"), 5) is None


def test_as_many_jobs_as_cpus_and_memory_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = tasks_in(tmp_path, "a")
    monkeypatch.setattr(machine, "cpus", lambda: 8)
    monkeypatch.setattr(machine, "memory", lambda: 20 << 30)
    assert local_engine.default_jobs([task]) == 8
    assert local_engine.default_jobs([task, replace(task, memory=None)]) == 5
    assert local_engine.default_jobs([task, replace(task, memory=64 << 30)]) == 1


def test_the_limits_of_a_container_are_those_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    unlimited = machine.cpus(), machine.memory()
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert (machine.cpus(), machine.memory()) == unlimited
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text("1000000\n")
    assert (machine.cpus(), machine.memory()) == (1, 1000000)


@pytest.mark.parametrize(
    ("code", "report", "wanted"),
    [
        (0, {"verdict": {"status": "PASS"}}, ("verified", "")),
        (0, {"unverified": "no runner"}, ("converted", "no runner")),
        (3, {"error": {"type": "ParityError", "message": "off"}}, ("mismatch", "off")),
        (5, {"error": {"type": "BadInput", "message": "cut"}}, ("bad input", "cut")),
        (5, {"error": {"type": "UnsafeInput", "message": "os.system"}}, ("unsafe", "os.system")),
        (6, {"error": {"type": "ResourceLimit", "message": "out of memory"}}, ("memory", "out of memory")),
        (6, {"error": {"type": "ResourceLimit", "message": "the disk is full"}}, ("limit", "the disk is full")),
        (7, {"verdict": {"status": "INCONCLUSIVE", "reason": "constant"}}, ("inconclusive", "constant")),
        (1, None, ("crash", "ended with exit code 1 and no report: Traceback")),
        (-11, None, ("crash", "died with SIGSEGV: Traceback")),
    ],
)
def test_what_a_worker_told(code: int, report: dict[str, Any] | None, wanted: tuple[str, str]) -> None:
    said = b"" if report is None else json.dumps(report).encode()
    ending = worker._reported_result(code, io.BytesIO(said), io.BytesIO(b"Traceback"))
    assert (ending.outcome, ending.reason) == wanted
