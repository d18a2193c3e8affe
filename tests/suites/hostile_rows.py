"""The results of `hostile.py`: a file with one row for each command, and the table of all rows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

SCORES = ("executed", "wrote", "connected", "tracebacks", "hangs", "memory", "left", "escapes", "lines", "unmade")
HARM = ("executed", "wrote", "connected", "left", "unmade")
"""Kinds of harm that count even if a check was switched off."""


@dataclass
class Run:
    """One command and its effects; `code` is None if it was killed."""

    kind: str
    case: str
    verb: str
    began: float
    ended: float = 0.0
    code: int | None = None
    seconds: float = 0.0
    bytes: int = 0
    scores: dict[str, str] = field(default_factory=dict)
    told: str = ""


def rows_of(out: Path | None) -> list[Run]:
    """Return the runs that a file already contains. A truncated row does not count, and failed makers are tried
    again.
    """
    if out is None or not out.exists():
        return []
    text = out.read_text()
    kept = text[: text.rfind("\n") + 1]
    out.write_text(kept)
    return [run for line in kept.splitlines() if "unmade" not in (run := Run(**json.loads(line))).scores]


def print_rows(runs: list[Run]) -> None:
    """Print a row for each class, and each bad command."""
    rows: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        rows[run.kind].append(run)
    print(f"{'':12}{'commands':>9}  " + "  ".join(SCORES) + "  exit codes")
    for kind, found in rows.items():
        scores = "  ".join(f"{sum(s in r.scores for r in found):>{len(s)}}" for s in SCORES)
        codes = Counter(str(r.code) for r in found)
        print(f"{kind:12}{sum(r.verb != '' for r in found):>9}  {scores}  {dict(sorted(codes.items()))}")
    for run in runs:
        if run.scores:
            print(f"{run.kind}, {run.case!a}, {run.verb}: {run.scores!a}")
