"""Runs a plan: leaves out what the journal says is done, hands the rest to an engine, and writes down every end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert.batch import local
from convert.batch.identity import key
from convert.batch.journal import Journal
from convert.batch.plan import Task
from convert.batch.show import Lines
from convert.batch.worker import GOOD, Ending, sweep_orphans

KEPT = ("kind", "inputs", "outputs", "operators", "parameters", "weight_bytes", "output_bytes", "seconds", "verdict",
        "unverified", "notes", "error")  # fmt: skip
"""The parts of a task's report that go into the journal."""


def run(
    tasks: Sequence[Task], folder: Path, view: Lines, *, jobs: int, force: bool, retries: int = local.RETRIES
) -> list[dict[str, Any]]:
    """Do what is not done; the records of all tasks, in the order of the plan.

    Done is what the journal in `folder` says has ended with the same key, and whose output is still there if it has
    one; `force` does it again. An output that exists and that no run of this journal began to write is left alone.
    """
    records: dict[Path, dict[str, Any]] = {}
    keys: dict[Path, str] = {}
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
        local.run_all(open_tasks, jobs, begin, finish, retries=retries)
    return [records[task.output] for task in tasks]


def dry_run(tasks: Sequence[Task], view: Lines, *, jobs: int) -> list[dict[str, Any]]:
    """Read every model and check its operators; nothing is written, the journal neither."""
    records: dict[Path, dict[str, Any]] = {}

    def finish(task: Task, ending: Ending) -> None:
        if ending.outcome == "converted":
            ending.outcome = "convertible"
        records[task.output] = _record(task, "", ending)
        view.ended(records[task.output])

    asked = [replace(task, options={**task.options, "dry-run": True}) for task in tasks]
    local.run_all(asked, jobs, view.started, finish)
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
