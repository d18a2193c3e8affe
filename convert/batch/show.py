"""The output of a batch: a live table on a terminal, lines in a pipe, and a summary by cause."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from convert.batch.plan import Task
from convert.batch.worker import SUCCESSES
from convert.outcome.terminal import echo, echo_json
from convert.outcome.text import printed, visible

Record = dict[str, Any]

_LONG = 200  # characters of a cause
_SHOWN = 20  # changes of one kind


class LineView:
    """Prints results on stdout: one line for each task that ends, as text or JSON."""

    def __init__(self, total: int, as_json: bool, quiet: bool, verbose: bool = False) -> None:
        self.total, self.as_json, self.quiet, self.verbose = total, as_json, quiet, verbose
        self.done = 0

    def started(self, task: Task) -> None:
        """Print nothing before there is a result."""

    def ended(self, record: Record) -> None:
        self.done += 1
        if self.as_json:
            echo_json(json.dumps(record, ensure_ascii=False))
        elif not self.quiet or record["outcome"] not in SUCCESSES:
            echo(f"[{self.done}/{self.total}] {record_line(record)}")
            for line in detail_lines(record) if self.verbose else ():
                echo(f"      {line}")
        if os.environ.get("GITHUB_ACTIONS") == "true" and record["outcome"] not in SUCCESSES:
            echo(annotation(record), err=True)


class TableView(LineView):
    """A live table on a terminal: running tasks, the latest results, progress, and the remaining time."""

    def __init__(self, total: int, console: Any, verbose: bool = False) -> None:
        super().__init__(total, False, False, verbose)
        self.console = console
        self.running: dict[str, tuple[str, float]] = {}
        self.counts: Counter[str] = Counter()
        self.began = time.monotonic()
        self.first: float | None = None
        self.before = 0

    def started(self, task: Task) -> None:
        self.first = self.first or time.monotonic()
        self.running[str(task.output)] = task.label, time.monotonic()

    def ended(self, record: Record) -> None:
        from rich.text import Text

        self.running.pop(record["output"], None)
        self.counts[record["outcome"]] += 1
        self.before += bool(record.get("before"))
        line = Text(printed(record_line(record)))
        line.stylize(_outcome_color(record["outcome"]), 0, len(record["outcome"]))
        self.console.print(line, soft_wrap=True)
        for detail in detail_lines(record) if self.verbose else ():
            self.console.print(Text(printed(f"      {detail}")), soft_wrap=True)
        self.done += 1

    def seconds_left(self) -> float | None:
        """Return the seconds for the remaining tasks at the pace so far; None until one is done."""
        fresh = self.done - self.before
        if not fresh or self.first is None:
            return None
        return (time.monotonic() - self.first) / fresh * (self.total - self.done)

    def render(self) -> Any:
        """Return what is shown now; rich calls this a few times a second."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table as Grid
        from rich.text import Text

        now, left = time.monotonic(), self.seconds_left()
        counts = [(f"{n} {name}  ", _outcome_color(name)) for name, n in self.counts.most_common()]
        grid = Grid.grid(padding=(0, 2))
        grid.add_row(
            ProgressBar(self.total, self.done, width=30),
            f"{self.done} of {self.total}",
            _duration_text(now - self.began),
            "" if left is None else f"about {_duration_text(left)} left",
        )
        rows = Grid.grid(padding=(0, 2))
        for label, since in self.running.values():
            rows.add_row("running", Text(f"{_duration_text(now - since):>6}"), Text(printed(label)))
        if not self.running and self.done < self.total:
            rows.add_row("preparing …")
        return Group(grid, Text.assemble(*counts), rows)


def _outcome_color(outcome: str) -> str:
    return "green" if outcome in SUCCESSES else "yellow" if outcome in ("inconclusive", "interrupted") else "red"


@contextmanager
def output_view(total: int, as_json: bool, quiet: bool, verbose: bool = False) -> Iterator[LineView]:
    """Context manager: yield the view that fits stdout; `verbose` adds the verdict's numbers and notes of each task."""
    if as_json or quiet or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield LineView(total, as_json, quiet, verbose)
        return
    from rich.console import Console
    from rich.live import Live

    view = TableView(total, Console(), verbose)
    with Live(console=view.console, get_renderable=view.render, refresh_per_second=4, transient=True):
        yield view


def _duration_text(seconds: float) -> str:
    minutes = int(seconds) // 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def record_line(record: Record) -> str:
    """Return one task as one line."""
    again = f", {record['attempts']} attempts" if record.get("attempts", 1) > 1 else ""
    before = ", done before" if record.get("before") else ""
    why = f": {reason(record)}" if record["outcome"] not in SUCCESSES else ""
    if record["outcome"] == "convertible":
        counts = record["report"].get("operators", {})
        why = f": {sum(counts.values())} nodes of {len(counts)} operators, all supported → {record['output']}"
    return (
        f"{record['outcome']:<12} {record['name']} → {record['format']} ({record['seconds']:.1f} s{again}{before}){why}"
    )


def detail_lines(record: Record) -> list[str]:
    """Return the details below a line: the verdict's numbers for each output, and the notes."""
    report = record.get("report", {})
    outputs = (report.get("verdict") or {}).get("outputs", [])
    numbers = [
        f"{o['name']}: error {o['error']:.1e}, noise floor {o['floor']:.1e}"
        for o in outputs
        if isinstance(o.get("error"), (int, float)) and isinstance(o.get("floor"), (int, float))
    ]
    notes = [note if isinstance(note, str) else f"{note['text']}  [{note['code']}]" for note in report.get("notes", [])]
    return [*numbers, *(f"note: {text}" for text in notes)]


def annotation(record: Record) -> str:
    """Return an annotation that GitHub's workflows show at the file, with its escapes."""

    def escaped(text: str, more: str = "") -> str:
        for sign in "%\r\n" + more:
            text = text.replace(sign, f"%{ord(sign):02X}")
        return text

    place, title = escaped(str(record["source"]), ":,"), escaped(_label(record), ":,")
    return f"::error file={place},title={title}::{record['outcome']}: {escaped(reason(record))}"


def reason(record: Record) -> str:
    """Return why a task failed, in one line; for operators without a rule, which ones and in how many nodes."""
    found = _problems(record)
    if len(found) < 2:
        return _first_line(record)
    counts: Counter[str] = Counter()
    for problem in found:
        counts[problem["operator"]] += problem["count"]
    nodes = sum(record["report"].get("operators", {}).values())
    share = f"{counts.total()} of {nodes} nodes" if nodes else f"{counts.total()} nodes"
    return f"{share} have no rule: " + ", ".join(f"{n} {name}" for name, n in counts.most_common())


def _first_line(record: Record) -> str:
    """Return the reason without the list below an error message; other line breaks come from names."""
    text = str(record.get("reason") or record["outcome"])
    return text.partition("\n  ")[0] if "error" in record.get("report", {}) else text


def _problems(record: Record) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record.get("report", {}).get("error", {}).get("problems", [])
    return found


def _problem_text(problem: dict[str, Any]) -> str:
    return f"{problem['operator']}: {problem['why']}" if problem["operator"] else problem["why"]


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Return counts of outcomes, failures by cause with their models, and missing operators, most frequent first."""
    counts = Counter(r["outcome"] for r in records)
    causes: dict[tuple[str, str], list[Record]] = defaultdict(list)
    lacking: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if record["outcome"] in SUCCESSES:
            continue
        causes[record["outcome"], cause(record)].append(record)
        for problem in _problems(record):
            lacking[_problem_text(problem)].add(_label(record))
    return {
        "outcomes": dict(counts.most_common()),
        "causes": [
            {
                "outcome": outcome,
                "cause": why if len(group) > 1 else reason(group[0]),
                "hint": _hint(group),
                "tasks": list(map(_label, group)),
            }
            for (outcome, why), group in sorted(causes.items(), key=lambda item: -len(item[1]))
        ],
        "unsupported": {k: len(v) for k, v in sorted(lacking.items(), key=lambda item: (-len(item[1]), item[0]))},
        "ok": all(r["outcome"] in SUCCESSES for r in records),
    }


def coverage(records: Sequence[Record]) -> dict[str, int]:
    """Return, for a dry run, the numbers of nodes and operators in the graphs, and how many of them have no rule."""
    nodes: Counter[str] = Counter()
    lacking: Counter[str] = Counter()
    for record in records:
        nodes.update(record.get("report", {}).get("operators", {}))
        for problem in _problems(record):
            if problem["operator"]:
                lacking[problem["operator"]] += problem["count"]
    return {
        "nodes": nodes.total(),
        "operators": len(nodes.keys() | lacking.keys()),
        "lacking_nodes": lacking.total(),
        "lacking_operators": len(lacking),
    }


def cause(record: Record) -> str:
    """Return the reason without what differs between models: paths, quoted names and numbers."""
    if found := _problems(record):
        return "; ".join(sorted({_problem_text(p) for p in found}))[:_LONG]
    first = visible(_first_line(record))
    return re.sub(r"\d[\d.,e+-]*", "N", re.sub(r"'[^']*'", "'…'", _generalized_text(first, record)))[:_LONG]


def _hint(group: Sequence[Record]) -> str:
    """Return the hint, if it is the same for all records, else ""."""
    hints = [r.get("report", {}).get("error", {}).get("hint", "") for r in group]
    general = {_generalized_text(hint, r) for hint, r in zip(hints, group, strict=True)}
    return hints[0] if len(set(hints)) == 1 else general.pop() if len(general) == 1 else ""


def _generalized_text(text: str, record: Record) -> str:
    names = ((visible(record.get(key) or "\0"), key) for key in ("source", "output"))
    for name, key in names:
        text = text.replace(name, {"source": "MODEL", "output": "OUTPUT"}[key])
    return text


def _label(record: Record) -> str:
    return f"{record['name']} → {record['format']}"


def show_summary(totals: dict[str, Any]) -> None:
    """Print a summary for people."""
    echo(", ".join(f"{n} {name}" for name, n in totals["outcomes"].items()) or "nothing to do")
    for group in totals["causes"]:
        shown = ", ".join(group["tasks"][:4]) + (f" and {len(group['tasks']) - 4} more" if group["tasks"][4:] else "")
        echo(f"  {len(group['tasks'])} × {group['outcome']}: {group['cause']}")
        echo(f"      {shown}")
        if group["hint"]:
            echo(f"      hint: {group['hint']}")
    if totals["unsupported"]:
        echo("unsupported, by the number of conversions that need it:")
        for operator, count in list(totals["unsupported"].items())[:20]:
            echo(f"  {count:>4}  {operator}")
    for kind, lines in totals.get("changes", {}).items():
        echo(f"{kind}: {len(lines)}")
        for line in lines[:_SHOWN]:
            echo(f"  {line}")
        if lines[_SHOWN:]:
            echo(f"  and {len(lines) - _SHOWN} more")
    if found := totals.get("coverage"):
        echo(
            f"operators: {found['operators']} kinds in {found['nodes']} nodes"
            + (f"; {found['lacking_operators']} kinds lack a rule" if found["lacking_operators"] else ", all supported")
        )
