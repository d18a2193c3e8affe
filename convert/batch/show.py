"""What people see of a batch: a live table on a terminal, lines in a pipe, and a summary by cause."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from convert.batch.plan import Task
from convert.batch.worker import GOOD

Record = dict[str, Any]


class Lines:
    """Results on stdout: a line for each task that ends, plain or JSON."""

    def __init__(self, total: int, as_json: bool, quiet: bool) -> None:
        self.total, self.as_json, self.quiet = total, as_json, quiet
        self.done = 0

    def started(self, task: Task) -> None:
        """Nothing is said before there is a result."""

    def ended(self, record: Record) -> None:
        self.done += 1
        if self.as_json:
            click.echo(json.dumps(record, ensure_ascii=False))
        elif not self.quiet or record["outcome"] not in GOOD:
            click.echo(f"[{self.done}/{self.total}] {line(record)}")


class Table(Lines):
    """The tasks that are running, the last that ended, how far it is and how long it will take, on a terminal."""

    def __init__(self, total: int, console: Any) -> None:
        super().__init__(total, False, False)
        self.console = console
        self.running: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.began = time.monotonic()
        self.before = 0

    def started(self, task: Task) -> None:
        self.running[str(task.output)] = time.monotonic()

    def ended(self, record: Record) -> None:
        self.running.pop(record["output"], None)
        self.counts[record["outcome"]] += 1
        self.before += bool(record.get("before"))
        self.console.print(line(record), markup=False, highlight=False)
        self.done += 1

    def left(self) -> float | None:
        """Seconds that the rest takes at the pace so far, not counting what was done before; None until one is done."""
        fresh = self.done - self.before
        return (time.monotonic() - self.began) / fresh * (self.total - self.done) if fresh else None

    def render(self) -> Any:
        """What is shown now; rich asks for it a few times a second."""
        from rich.table import Table as Grid

        now, left = time.monotonic(), self.left()
        grid = Grid.grid(padding=(0, 2))
        counts = ", ".join(f"{n} {name}" for name, n in sorted(self.counts.items()))
        share = f"{self.done} of {self.total} ({self.done / self.total:.0%})"
        grid.add_row(share, "" if left is None else f"about {_clock(left)} left", counts)
        for output, since in self.running.items():
            grid.add_row("running", f"{now - since:.0f} s", output)
        return grid


@contextmanager
def showing(total: int, as_json: bool, quiet: bool) -> Iterator[Lines]:
    """The view that fits where stdout goes."""
    if as_json or quiet or not sys.stdout.isatty():
        yield Lines(total, as_json, quiet)
        return
    from rich.console import Console
    from rich.live import Live

    view = Table(total, Console())
    with Live(console=view.console, get_renderable=view.render, refresh_per_second=4):
        yield view


def _clock(seconds: float) -> str:
    minutes = int(seconds) // 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def line(record: Record) -> str:
    """One task in one line."""
    again = f", {record['attempts']} attempts" if record.get("attempts", 1) > 1 else ""
    before = ", done before" if record.get("before") else ""
    why = f": {record['reason'].splitlines()[0]}" if record.get("reason") and record["outcome"] not in GOOD else ""
    if record["outcome"] == "convertible":
        counts = record["report"].get("operators", {})
        why = f": {sum(counts.values())} nodes of {len(counts)} operators, all supported"
    return (
        f"{record['outcome']:<12} {record['name']} → {record['format']} ({record['seconds']:.1f} s{again}{before}){why}"
    )


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Counts of outcomes, failures by cause with the models that have it, and the operators that lack, most first."""
    counts = Counter(r["outcome"] for r in records)
    causes: dict[tuple[str, str], list[str]] = defaultdict(list)
    lacking: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if record["outcome"] in GOOD:
            continue
        label = f"{record['name']} → {record['format']}"
        causes[record["outcome"], cause(record)].append(label)
        for problem in record.get("report", {}).get("error", {}).get("problems", []):
            lacking[f"{problem['operator']}: {problem['why']}"].add(label)
    return {
        "outcomes": dict(counts.most_common()),
        "causes": [
            {"outcome": outcome, "cause": why, "tasks": labels}
            for (outcome, why), labels in sorted(causes.items(), key=lambda item: -len(item[1]))
        ],
        "unsupported": {k: len(v) for k, v in sorted(lacking.items(), key=lambda item: (-len(item[1]), item[0]))},
        "ok": all(r["outcome"] in GOOD for r in records),
    }


def cause(record: Record) -> str:
    """The reason without what differs from model to model: paths, names in quotes and numbers."""
    first = (record.get("reason") or record["outcome"]).splitlines()[0]
    first = first.replace(record.get("source", "\0"), "MODEL").replace(record.get("output", "\0"), "OUTPUT")
    return re.sub(r"\d[\d.,e+-]*", "N", re.sub(r"'[^']*'", "'…'", first))[:200]


def show_summary(told: dict[str, Any]) -> None:
    """Print a summary for people."""
    click.echo(", ".join(f"{n} {name}" for name, n in told["outcomes"].items()) or "nothing to do")
    for group in told["causes"]:
        shown = ", ".join(group["tasks"][:4]) + (" …" if len(group["tasks"]) > 4 else "")
        click.echo(f"  {len(group['tasks'])} × {group['outcome']}: {group['cause']}\n      {shown}")
    if told["unsupported"]:
        click.echo("unsupported, by the number of conversions that need it:")
        for operator, count in list(told["unsupported"].items())[:20]:
            click.echo(f"  {count:>4}  {operator}")
