"""Runs a plan: leaves out what the journal says is done, hands the rest to an engine, and writes down every end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert.batch import cluster, local
from convert.batch.cluster import Cluster
from convert.batch.identity import key
from convert.batch.journal import Journal
from convert.batch.plan import Task
from convert.batch.processes import sweep_orphans
from convert.batch.show import Lines
from convert.batch.storage import Url
from convert.batch.worker import GOOD, Ending

KEPT = ("kind", "inputs", "outputs", "operators", "parameters", "weight_bytes", "output_bytes", "seconds", "verdict",
        "unverified", "notes", "error")  # fmt: skip
"""The parts of a task's report that go into the journal."""


def run(
    tasks: Sequence[Task],
    folder: Path,
    view: Lines,
    *,
    jobs: int | None,
    force: bool,
    retries: int = local.RETRIES,
    warm: bool = False,
    on: Cluster | None = None,
) -> list[dict[str, Any]]:
    """Do what is not done; the records of all tasks, in the order of the plan.

    Done is what the journal in `folder` says has ended with the same key, and whose output is still there if it has
    one; `force` does it again. on: the Ray cluster that runs the tasks; without one it is this machine, `jobs` (1) at
    a time. An output that exists and that no run of this journal began to write is left alone.
    """
    records: dict[Path | Url, dict[str, Any]] = {}
    keys: dict[Path | Url, str] = {}
    open_tasks: list[Task] = []
    with Journal(folder) as journal:
        sweep_orphans()

        def finish(task: Task, ending: Ending, *, note: bool = True) -> None:
            record = _record(task, keys[task.output], ending)
            if note and ending.outcome != "interrupted":
                journal.end(record)
            records[task.output] = record
            view.ended(record)

        def begin(task: Task) -> None:
            journal.started(keys[task.output], task.output)
            view.started(task)

        for task in tasks:
            try:
                keys[task.output] = key(task)
            except OSError as error:
                keys[task.output] = ""
                finish(task, Ending("bad input", f"{task.source} cannot be read: {error.strerror}"), note=False)
                continue
            before = None if force else journal.ended(keys[task.output], task.output)
            if before is not None and (task.output.exists() or before["outcome"] not in GOOD):
                records[task.output] = {**before, "before": True}
                view.ended(records[task.output])
            elif task.output.exists() and not force and not journal.is_ours(task.output):
                why = f"{task.output} exists already, and this batch did not write it; --force replaces it"
                finish(task, Ending("usage", why), note=False)
            else:
                open_tasks.append(task)
        _engine(open_tasks, jobs, begin, finish, retries, warm, on)
    return [records[task.output] for task in tasks]


def _engine(
    tasks: Sequence[Task],
    jobs: int | None,
    begin: Callable[[Task], None],
    finish: Callable[[Task, Ending], None],
    retries: int,
    warm: bool,
    on: Cluster | None,
) -> None:
    if on is None:
        local.run_all(tasks, jobs or 1, begin, finish, retries=retries, warm=warm)
    elif tasks:
        cluster.run_all(tasks, jobs, begin, finish, retries=retries, warm=warm, cluster=on)


def dry_run(
    tasks: Sequence[Task], view: Lines, *, jobs: int | None, warm: bool = False, on: Cluster | None = None
) -> list[dict[str, Any]]:
    """Read every model and check its operators; nothing is written, the journal neither."""
    records: dict[Path | Url, dict[str, Any]] = {}

    def finish(task: Task, ending: Ending) -> None:
        if ending.outcome == "converted":
            ending.outcome = "convertible"
        records[task.output] = _record(task, "", ending)
        view.ended(records[task.output])

    asked = [replace(task, options={**task.options, "dry-run": True}) for task in tasks]
    _engine(asked, jobs, view.started, finish, local.RETRIES, warm, on)
    return [records[task.output] for task in tasks]


def _record(task: Task, key: str, ending: Ending) -> dict[str, Any]:
    told = ending.to_dict()
    told["report"] = {k: v for k, v in told["report"].items() if k in KEPT}
    return {
        "key": key,
        "name": task.name,
        "source": str(task.source),
        "format": task.format,
        "output": str(task.output),
        **told,
    }
