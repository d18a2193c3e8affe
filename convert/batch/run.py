"""Runs a plan: skips what the journal records as done, passes the rest to an engine, and records every result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert.batch import local_engine, ray_engine
from convert.batch.journal import History, Journal, history
from convert.batch.made import discard_damaged, is_there
from convert.batch.plan import Task
from convert.batch.processes import kill_orphans
from convert.batch.ray_engine import Cluster
from convert.batch.show import LineView
from convert.batch.storage import Url
from convert.batch.task_key import compute_key, look_at, versions
from convert.batch.worker import OUTCOMES, SUCCESSES, TaskResult
from convert.errors import BrokenPackage, ConvertError
from convert.files.scratch import sweep_scratch
from convert.processes import machine

KEPT = ("kind", "inputs", "outputs", "operators", "parameters", "weight_bytes", "output_bytes", "seconds", "verdict",
        "unverified", "notes", "error")  # fmt: skip
"""The parts of a task's report that are stored in the journal."""


def run(
    tasks: Sequence[Task],
    folder: Path,
    view: LineView,
    *,
    jobs: int | None,
    force: bool,
    redo_failed: bool = False,
    retries: int = local_engine.RETRIES,
    warm: bool = False,
    on: Cluster | None = None,
) -> list[dict[str, Any]]:
    """Run the tasks that are not done; return the records of all tasks, in the order of the plan.

    `_reusable_record` decides what is done. `force` runs everything again, `redo_failed` repeats tasks that failed.
    `on` is the Ray cluster that runs the tasks; without one, this machine runs `jobs` (`local_engine.default_jobs`) at
    a time. An existing output that no run of this journal began to write is left unchanged.
    """
    records: dict[Path | Url, dict[str, Any]] = {}
    keys: dict[Path | Url, str] = {}
    open_tasks: list[Task] = []
    with Journal(folder) as journal:
        kill_orphans()
        sweep_scratch()

        def finish(task: Task, ending: TaskResult, *, note: bool = True) -> None:
            record = _record(task, keys[task.output], ending)
            if note and ending.outcome != "interrupted":
                journal.end(record, task.output)
            records[task.output] = record
            view.ended(record)

        def begin(task: Task) -> None:
            journal.started(keys[task.output], task.output)
            view.started(task)

        by = versions()
        for task in tasks:
            task, failure = _look_at_source(task, by)
            keys[task.output] = "" if task.seen is None else task.seen.key
            if failure is not None:
                finish(task, failure, note=False)
                continue
            before = None if force else _reusable_record(journal, keys[task.output], task, redo_failed)
            if before is not None:
                records[task.output] = before
                view.ended(before)
            elif refusal := _refused_output(task, journal, force):
                finish(task, TaskResult("usage", refusal), note=False)
            else:
                if isinstance(task.output, Path):
                    discard_damaged(task.output, journal.made(task.output))
                open_tasks.append(task)
        _run_engine(open_tasks, jobs, begin, finish, retries, warm, on)
    return [records[task.output] for task in tasks]


def _refused_output(task: Task, journal: Journal, force: bool) -> str:
    """Return why a task may not write its output: no disk takes it, or others wrote it; "" if it may."""
    try:
        there = task.output.exists()
    except OSError as error:
        return f"{str(task.output)[:200]} cannot be written: {error.strerror}"
    if there and not force and not journal.is_ours(task.output):
        return f"{task.output} exists already, and this batch did not write it; --force replaces it"
    return ""


def _look_at_source(task: Task, by: Mapping[str, str]) -> tuple[Task, TaskResult | None]:
    """Return the task with what its source is now, and the result of a task that cannot begin."""
    if task.problem is not None:
        return task, _result_of_problem(task.problem)
    try:
        return replace(task, seen=look_at(task, by)), None
    except OSError as error:
        return task, TaskResult("bad input", f"{task.source} cannot be read: {error.strerror}")


def _reusable_record(known: History, key: str, task: Task, redo_failed: bool) -> dict[str, Any] | None:
    """Return the record of an earlier run that is still valid: same key, and its output in place or a lasting error.

    A record of an earlier version without a description of its output is not valid. These outcomes are not lasting:

    - `lost` and `limit`, because machines and disks may be better now
    - timeouts and lack of memory, if the limits are wider now
    - errors about something that is not in the key (`_may_be_mended`)
    """
    found = known.ended(key, task.output)
    if found is None:
        return None
    if found["outcome"] in SUCCESSES:
        holds = is_there(task.output, found.get("made"))
    else:
        passing = found["outcome"] in ("lost", "limit") or _has_wider_limits(task, found) or _may_be_mended(found)
        holds = not redo_failed and not passing
    content = {k: v for k, v in found.items() if k not in ("event", "time")}
    return {**content, **_task_identity(task), "before": True} if holds else None


def _may_be_mended(record: Mapping[str, Any]) -> bool:
    """Return whether the error of a record is about something that can be mended without changing the key.

    Examples are a missing or broken package, and a foreign file in the place of the output.
    """
    error = record.get("report", {}).get("error") or {}
    return record["outcome"] == "usage" or error.get("code") == BrokenPackage.code


def _has_wider_limits(task: Task, record: dict[str, Any]) -> bool:
    """Return whether the task has more of the resource that it lacked when `record` was written."""
    limits = record.get("limits", {})
    if record["outcome"] == "timeout":
        return bool(task.seconds > limits.get("seconds", 0.0))
    had = limits.get("memory")
    return record["outcome"] == "memory" and had is not None and (task.memory is None or task.memory > had)


def _run_engine(
    tasks: Sequence[Task],
    jobs: int | None,
    begin: Callable[[Task], None],
    finish: Callable[[Task, TaskResult], None],
    retries: int,
    warm: bool,
    on: Cluster | None,
) -> None:
    if on is None:
        jobs = jobs or local_engine.default_jobs(tasks)
        machine.set_threads(machine.cpus() // jobs)
        local_engine.run_all(tasks, jobs, begin, finish, retries=retries, warm=warm)
    elif tasks:
        ray_engine.run_all(tasks, jobs, begin, finish, retries=retries, warm=warm, cluster=on)


def dry_run(
    tasks: Sequence[Task],
    folder: Path,
    view: LineView,
    *,
    jobs: int | None,
    force: bool,
    redo_failed: bool = False,
    warm: bool = False,
    on: Cluster | None = None,
) -> list[dict[str, Any]]:
    """Read every model that a run would convert and check its operators; write nothing, not even the journal."""
    records: dict[Path | Url, dict[str, Any]] = {}
    asked: list[Task] = []

    def finish(task: Task, ending: TaskResult) -> None:
        if ending.outcome == "converted":
            ending.outcome = "convertible"
        records[task.output] = _record(task, "", ending)
        view.ended(records[task.output])

    known, by = history(folder), versions()
    for task in tasks:
        if task.problem is not None:
            finish(task, _result_of_problem(task.problem))
            continue
        try:
            before = None if force else _reusable_record(known, compute_key(task, by), task, redo_failed)
        except OSError as error:
            finish(task, TaskResult("bad input", f"{task.source} cannot be read: {error.strerror}"))
            continue
        if before is None:
            asked.append(replace(task, options={**task.options, "dry-run": True}))
        else:
            records[task.output] = before
            view.ended(before)
    _run_engine(asked, jobs, view.started, finish, local_engine.RETRIES, warm, on)
    return [records[task.output] for task in tasks]


def _result_of_problem(problem: ConvertError) -> TaskResult:
    """Return the result of a task that could not begin, in the form of a worker's errors."""
    report = {"error": {"type": type(problem).__name__, "code": problem.code, "message": problem.message,
                        "hint": problem.hint}}  # fmt: skip
    return TaskResult(OUTCOMES[problem.exit_code], problem.message, report=report)


def _record(task: Task, key: str, ending: TaskResult) -> dict[str, Any]:
    fields = ending.to_dict()
    fields["report"] = {k: v for k, v in fields["report"].items() if k in KEPT}
    read = fields.pop("key")
    facts = {"key": key if read is None else read, **_task_identity(task)}
    return {**facts, "limits": {"seconds": task.seconds, "memory": task.memory}, **fields}


def _task_identity(task: Task) -> dict[str, str]:
    return {"name": task.name, "source": str(task.source), "format": task.format, "output": str(task.output)}
