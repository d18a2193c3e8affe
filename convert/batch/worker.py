"""Runs one task in its own process group, under limits of time and memory for all its processes."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from convert.batch.made import Made, describe, describe_stored, remove
from convert.batch.plan import Task
from convert.batch.processes import kill_marked, task_memory
from convert.batch.storage import Url
from convert.batch.task_key import key_read, stamps_before
from convert.batch.task_request import TaskRequest
from convert.errors import ConvertError
from convert.files.output import discard_unfinished
from convert.files.scratch import scratch_folder
from convert.processes.fork_client import ADDRESS, Child, fork
from convert.processes.interpreter import module_command
from convert.processes.marks import MARK, new_mark

OUTCOMES = {
    0: "converted",
    1: "failed",
    2: "usage",
    3: "mismatch",
    4: "unsupported",
    5: "bad input",
    6: "limit",
    7: "inconclusive",
}
"""Outcomes by exit code of the command line.

Further outcomes are verified, unsafe, timeout, memory, crash, lost, changed (the source changed while it was read),
interrupted, and convertible (in a dry run).
"""

SUCCESSES = frozenset({"verified", "converted", "convertible"})
PASSING = frozenset({"crash", "memory", "lost", "changed"})
"""Outcomes that another attempt may change; all others would occur again."""

_ROOM = 16 << 30
"""Bytes of address space beyond the memory limit, which frameworks map but never touch."""

_INTERVAL = 0.1


@dataclass
class TaskResult:
    """How a task ended: `seconds` of wall time, `peak` bytes of private memory of all its processes.

    `key` is the key of what the task read, or None if it read nothing. `made` describes the output
    (`convert.batch.made`), and is empty without one.
    """

    outcome: str
    reason: str = ""
    seconds: float = 0.0
    peak: int = 0
    attempts: int = 1
    report: dict[str, Any] = field(default_factory=dict)
    key: str | None = None
    made: Made = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def run(task: Task, stop: threading.Event | None = None, fork_address: str = "") -> TaskResult:
    """Convert in a child process and wait for its end; nothing that it started survives.

    All its processes are killed after `task.seconds`, when they together hold more than `task.memory` private bytes, or
    when `stop` is set. `fork_address` is the socket of the process to fork from; "" starts a new interpreter.
    """
    if isinstance(task.output, Url):
        return _run_and_put(task, task.output, stop, fork_address)
    before = stamps_before(task)
    ending = _run_here(task, task.output, stop, fork_address)
    if ending.outcome == "interrupted" or task.options.get("dry-run"):
        return ending
    ending.key = key_read(task, before)
    if ending.outcome not in SUCCESSES:
        return ending
    if not ending.key:
        remove(task.output)
        return replace(ending, outcome="changed", reason=f"{task.source}, or what it needs, changed while it was read")
    try:
        ending.made = describe(task.output)
    except OSError as error:
        return replace(ending, outcome="lost", reason=f"{task.output} cannot be read again: {error.strerror}")
    return ending


def _run_here(task: Task, output: Path, stop: threading.Event | None, fork_address: str) -> TaskResult:
    mark = new_mark()
    discard_unfinished(output)
    with scratch_folder() as folder, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        environment = {**os.environ, MARK: mark, "TMPDIR": str(folder)}
        child = _start_worker(TaskRequest.of(task), environment, out, err, fork_address)
        try:
            if task.memory is not None:
                _limit_memory(child.pid, task.memory + _ROOM)
            broken, peak = _watch_child(child, mark, task, start, stop)
        finally:
            kill_marked(lambda found: found == mark)
            child.wait()
            discard_unfinished(output, just_killed=True)
        ending = broken or _reported_result(child.returncode, out, err)
    ending.seconds, ending.peak = round(time.monotonic() - start, 3), peak
    return ending


def _run_and_put(task: Task, url: Url, stop: threading.Event | None, fork_address: str) -> TaskResult:
    """Convert to a local folder, and copy the result to the storage."""
    with scratch_folder() as folder:
        (folder / "written").mkdir()
        local = folder / "written" / url.name
        ending = run(replace(task, output=local), stop, fork_address)
        try:
            # The model comes last, because the weights that it names may lie beside it.
            for written in sorted(local.parent.iterdir(), key=lambda p: p == local):
                if local.exists():
                    (url.parent / written.name).put(written)
            if ending.made:
                ending.made = describe_stored(url, ending.made)
        except ConvertError as error:
            return replace(ending, outcome="lost", reason=error.message)
    return ending


def _start_worker(
    request: TaskRequest, environment: Mapping[str, str], out: BinaryIO, err: BinaryIO, fork_address: str
) -> Child:
    if fork_address:
        environment = {**environment, ADDRESS: fork_address}
        forked = fork("task", [request.to_json()], environment, out.fileno(), err.fileno(), fork_address)
        if forked is not None:
            return forked
    return subprocess.Popen(
        module_command("convert.batch.child", request.to_json()),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        env=environment,
        start_new_session=True,
    )


def _limit_memory(pid: int, size: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # the process may have ended already
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))


def _watch_child(
    child: Child, mark: str, task: Task, start: float, stop: threading.Event | None
) -> tuple[TaskResult | None, int]:
    """Wait for the child, or for a reason to end it; return that reason and the peak memory."""
    peak = 0
    while True:
        try:
            child.wait(timeout=_INTERVAL)
            return None, peak
        except subprocess.TimeoutExpired:
            pass
        now = task_memory(child.pid, mark)
        peak = max(peak, now)
        if stop is not None and stop.is_set():
            return TaskResult("interrupted"), peak
        if time.monotonic() - start > task.seconds:
            return TaskResult("timeout", f"took longer than {task.seconds:g} s"), peak
        if task.memory is not None and now > task.memory:
            return TaskResult("memory", f"took more than {task.memory / 2**20:.0f} MiB"), peak


def _reported_result(code: int, out: BinaryIO, err: BinaryIO) -> TaskResult:
    """Return the result that the child reported, or the signal that killed it."""
    out.seek(0)
    err.seek(0)
    tail = err.read()[-2000:].decode("utf-8", "replace").strip()
    last = tail.splitlines()[-1][:300] if tail else ""
    if code < 0:
        return TaskResult("crash", f"died with {signal.Signals(-code).name}" + (f": {last}" if last else ""))
    try:
        report = json.loads(out.read().decode("utf-8", "replace").splitlines()[-1])
    except (IndexError, ValueError):
        return TaskResult("crash", f"ended with exit code {code} and no report: {last}")
    outcome, reason = OUTCOMES.get(code, "failed"), ""
    if code == 0 and report.get("verdict"):
        outcome = "verified"
    if "error" in report:
        reason = report["error"]["message"]
        if report["error"]["type"] == "UnsafeInput":
            outcome = "unsafe"
        if code == 6 and "out of memory" in reason:
            outcome = "memory"
    elif code:
        reason = str((report.get("verdict") or {}).get("reason", "")) or outcome
    elif outcome == "converted":
        reason = str(report.get("unverified", ""))
    return TaskResult(outcome, reason, report=report)
