"""Run hundreds of tiny conversions, a tenth of which crash, hang or exhaust memory, and check the journal.

    python tests/suites/batch_storm.py [--tasks 500] [--jobs 2] [--kill 90] [--cold]

After every 90 finished tasks the run is killed with SIGKILL and started again (never with `--kill 0`). The exit code is
0 only if the journal has exactly one end for every task, each with the expected outcome, every good output is a valid
model, and no process is left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import onnx

from convert.processes.marks import mark_of
from tests.support.batch_tools import rules, tiny

WANTED = {"good": "converted", "crash": "crash", "hang": "timeout", "hog": "memory"}


def kind(i: int) -> str:
    """Return the behavior of a task: every tenth one misbehaves, in turn in each way."""
    return ("crash", "hang", "hog")[i // 10 % 3] if i % 10 == 9 else "good"


def write(folder: Path, count: int) -> Path:
    """Write the models and their manifest."""
    bad = rules(folder / "rules")
    rows = ['[defaults]\nto = "onnx"\nverify = false\ntimeout = 600\n']
    for i in range(count):
        tiny(folder / f"{i}.onnx", seed=i)
        row = [f'[[models]]\nsource = "{i}.onnx"']
        if kind(i) != "good":
            row.append(f'rules = ["{bad[kind(i)]}"]')
        row += {"hang": ["timeout = 5"], "hog": ['memory = "400MiB"']}.get(kind(i), [])
        rows.append("\n".join(row) + "\n")
    manifest = folder / "zoo.toml"
    manifest.write_text("\n".join(rows))
    return manifest


def main() -> None:
    """Run until all tasks are done, with a kill after every `--kill` tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kill", type=int, default=90, metavar="TASKS", help="0: never")
    parser.add_argument("--cold", action="store_true", help="a new interpreter for each task")
    args = parser.parse_args()
    start, kills = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        manifest, out = write(Path(folder), args.tasks), Path(folder) / "out"
        # This machine does not have twice a task's memory limit, so retries would only take time.
        command = [sys.executable, "-m", "convert", "batch", str(manifest), "-o", str(out), "-j", str(args.jobs),
                   "--retries", "0", "--json", *(["--cold"] if args.cold else [])]  # fmt: skip
        while (text := until(command, args.kill)) is None:
            kills += 1
            print(f"kill {kills} after {time.monotonic() - start:.0f} s", flush=True)
        summary = json.loads(text)["summary"]
        wrong = check(out, args.tasks)
    print(f"{args.tasks} tasks, {kills} kills, {time.monotonic() - start:.0f} s: {summary['outcomes']}")
    print("\n".join(wrong) or "the journal is as it had to be")
    sys.exit(bool(wrong))


def until(command: list[str], count: int) -> str | None:
    """Return the last line of a run that ends by itself, or None if it was killed after `count` tasks."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        line, fresh = "", 0
        for line in run.stdout:
            fresh += not json.loads(line).get("before")
            if fresh == count > 0:
                run.kill()
                return None
    if run.returncode != 1:
        sys.exit(f"the run ended with {run.returncode}")
    return line


def check(out: Path, count: int) -> list[str]:
    """Return the differences from the expected journal and outputs."""
    records = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines() if line.strip()]
    ended = [r for r in records if r["event"] == "ended"]
    times = Counter(r["name"] for r in ended)
    wrong = [f"task {i} ended {times[str(i)]} times" for i in range(count) if times[str(i)] != 1]
    for record in ended:
        wanted = WANTED[kind(int(record["name"]))]
        if record["outcome"] != wanted:
            wrong.append(f"task {record['name']} ended as {record['outcome']}, not {wanted}: {record['reason']}")
        elif wanted == "converted":
            onnx.checker.check_model(out / record["output"])
    left = [p for p in os.listdir("/proc") if p.isdigit() and _orphaned(int(p))]
    return wrong + [f"process {p} is left" for p in left]


def _orphaned(pid: int) -> bool:
    """Return whether a process belongs to a batch that has ended; other batches may run at the same time."""
    mark = mark_of(pid)
    return bool(mark) and not Path(f"/proc/{int(mark.partition('-')[0])}").exists()


if __name__ == "__main__":
    main()
