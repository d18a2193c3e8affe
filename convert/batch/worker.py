"""One task in a process group of its own, under limits of time and memory that hold for all it starts."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from convert.batch.plan import Task, arguments

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
"""What an exit code of the command line means; besides there are verified, timeout, memory, crash and interrupted,
and convertible where nothing was to be written."""

GOOD = frozenset({"verified", "converted", "convertible"})
PASSING = frozenset({"crash", "memory", "lost"})
"""Ends that another attempt may change; all others would come again."""

_ROOM = 16 << 30
"""Bytes of address space beyond the memory limit: what frameworks map and never touch."""

_MARK = "CONVERT_BATCH_TASK"
_INTERVAL = 0.1


@dataclass
class Ending:
    """How a task ended: `seconds` of wall time, `peak` bytes of private memory of all its processes."""

    outcome: str
    reason: str = ""
    seconds: float = 0.0
    peak: int = 0
    attempts: int = 1
    report: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def run(task: Task, stop: threading.Event | None = None) -> Ending:
    """Convert in a child process and wait for its end; whatever it started is gone afterwards.

    Beyond `task.seconds`, or when its processes together hold more than `task.memory` private bytes, all are killed;
    so they are when `stop` is set.
    """
    mark = f"{os.getpid()}-{uuid.uuid4().hex}"
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, "-m", "convert.batch.child", *arguments(task)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, _MARK: mark},
            start_new_session=True,
        )
        try:
            if task.memory is not None:
                _limit(child.pid, task.memory + _ROOM)
            broken, peak = _watch(child, task, start, stop)
        finally:
            _sweep(lambda found: found == mark)
            child.wait()
        ending = broken or _told(child.returncode, out, err)
    ending.seconds, ending.peak = round(time.monotonic() - start, 3), peak
    return ending


def _limit(pid: int, size: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have ended already
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))


def _watch(
    child: subprocess.Popen[bytes], task: Task, start: float, stop: threading.Event | None
) -> tuple[Ending | None, int]:
    """Wait for the child, or for a reason to end it; also the most memory that was seen."""
    peak = 0
    while True:
        try:
            child.wait(timeout=_INTERVAL)
            return None, peak
        except subprocess.TimeoutExpired:
            pass
        held = sum(map(_private, family(child.pid)))
        peak = max(peak, held)
        if stop is not None and stop.is_set():
            return Ending("interrupted"), peak
        if time.monotonic() - start > task.seconds:
            return Ending("timeout", f"took longer than {task.seconds:g} s"), peak
        if task.memory is not None and held > task.memory:
            return Ending("memory", f"took more than {task.memory / 2**20:.0f} MiB"), peak


def _told(code: int, out: BinaryIO, err: BinaryIO) -> Ending:
    """The ending that the child told, or the signal that it died of."""
    out.seek(0)
    err.seek(0)
    tail = err.read()[-2000:].decode("utf-8", "replace").strip()
    if code < 0:
        last = tail.splitlines()[-1][:300] if tail else ""
        return Ending("crash", f"died with {signal.Signals(-code).name}" + (f": {last}" if last else ""))
    try:
        report = json.loads(out.read().decode("utf-8", "replace").splitlines()[-1])
    except (IndexError, ValueError):
        return Ending("crash", f"ended with exit code {code} and no report: {tail[-300:]}")
    outcome, reason = OUTCOMES.get(code, "failed"), ""
    if code == 0 and report.get("verdict"):
        outcome = "verified"
    if "error" in report:
        reason = report["error"]["message"]
        if code == 6 and "out of memory" in reason:
            outcome = "memory"
    elif code:
        reason = str((report.get("verdict") or {}).get("reason", "")) or outcome
    elif outcome == "converted":
        reason = str(report.get("unverified", ""))
    return Ending(outcome, reason, report=report)


# -- processes (Linux) ------------------------------------------------------------------------------------------------


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = defaultdict(list)
    for other in _processes():
        try:
            # The name in parentheses may hold anything; the parent is the second field after it.
            parent = Path(f"/proc/{other}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        children[int(parent)].append(other)
    found = [pid]
    for member in found:
        found += children[member]
    return found


def _private(pid: int) -> int:
    """Bytes of resident memory that are not of a file, which others may share."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * resource.getpagesize()


def sweep_orphans() -> None:
    """Kill what a batch that was killed itself has left running."""
    _sweep(lambda mark: not Path(f"/proc/{mark.partition('-')[0]}").exists())


def driver_of(environment: Mapping[str, str]) -> int:
    """The process that runs the batch which a process with this environment belongs to."""
    return int(environment[_MARK].partition("-")[0])


def _sweep(wanted: Callable[[str], bool]) -> None:
    """Kill every process that was started for a task with a mark that is wanted, also one whose parent has died."""
    while left := [pid for pid in _processes() if (mark := _mark_of(pid)) and wanted(mark)]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _mark_of(pid: int) -> str:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    start = f"{_MARK}=".encode()
    return next((e.removeprefix(start).decode() for e in entries if e.startswith(start)), "")


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())
