"""Helpers of the benchmarks: CPU seconds, peak memory, and child processes that print a measurement."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RECORDS = "BENCHMARK_RECORDS"
"""The variable that names the file of `record`."""


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Context manager: fill in `seconds` (CPU, all threads, and of child processes that ended), `kernel` and `memory`.

    kernel: the part of the seconds spent in the kernel, on files and on new memory. memory: MiB of the peak beyond the
    resident memory before, in this process alone (Linux).
    """
    found: dict[str, float] = {}
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, start, kernel = _status("VmRSS"), _seconds(), _kernel_seconds()
    yield found
    found["seconds"], found["kernel"] = _seconds() - start, _kernel_seconds() - kernel
    found["memory"] = _status("VmHWM") - before


def _seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _kernel_seconds() -> float:
    return sum(resource.getrusage(who).ru_stime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def child(*command: str, python: str = sys.executable) -> dict[str, float]:
    """Run a script and return the JSON in the last line of its output; end the benchmark if it fails.

    Bytecode is kept, as in an installed package, so that no import compiles while the script measures.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([python, *command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def record(case: str, measure: str, unit: str, ours: float, other: float | None = None, against: str = "") -> None:
    """Add one figure to the table that `all.py` makes. A benchmark that runs alone only prints.

    case: what was measured, "resnet50, batch 1". measure: "CPU time of a conversion". other: the figure of `against` in
    the same run, in the same unit. A value that is not a number means a failure, and is written as null.
    """
    if place := os.environ.get(RECORDS):
        row = {
            "case": case,
            "measure": measure,
            "unit": unit,
            "ours": _number(ours),
            "other": _number(other),
            "against": against,
        }
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _status(field: str) -> float:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) / 1024
