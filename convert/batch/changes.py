"""Compares the records of a batch with those of an earlier one (`convert batch --compare-with JOURNAL`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convert.batch.journal import NAME, History
from convert.batch.worker import SUCCESSES
from convert.errors import BadInput
from convert.files.holes import check_holes
from convert.outcome.text import bytes_text

Record = Mapping[str, Any]

_SIZE, _ERROR = 0.02, 4.0
"""The relative change of a size, and the factor of an error, that are not reported.

Errors depend on the order of sums, which varies with processors and releases; the verdict also allows a factor of four.
"""


def earlier_records(path: Path) -> dict[tuple[str, str], Record]:
    """Return the last record of each task in a journal, or in the journal of a folder, by name and format.

    Raises `BadInput` if there is no journal, or no record in it.
    """
    file = path / NAME if path.is_dir() else path
    if not file.is_file():
        raise BadInput(f"there is no journal {file}", hint="name the journal.jsonl of an earlier batch, or its folder")
    check_holes(file)
    records = History(file.parent, file.read_bytes()).records
    found: dict[tuple[str, str], Record] = {(str(r.get("name")), str(r.get("format"))): r for r in records}
    if not found:
        raise BadInput(f"{file} has no record of a conversion", hint="name the journal.jsonl of an earlier batch")
    return found


def changes(records: Sequence[Record], earlier: Mapping[tuple[str, str], Record]) -> dict[str, list[str]]:
    """Return the changes since an earlier run: lines by kind of change, for the kinds that occur.

    Tasks are matched by name and format, because outputs may be in another folder.
    """
    found: dict[str, list[str]] = {
        "new failures": [], "repaired": [], "other outcomes": [], "sizes": [], "errors": [], "new": [], "gone": [],
    }  # fmt: skip
    now = {(str(r["name"]), str(r["format"])): r for r in records}
    for key, record in now.items():
        label, before = " → ".join(key), earlier.get(key)
        if before is None:
            found["new"].append(label)
            continue
        was, is_now = before["outcome"], record["outcome"]
        if was != is_now:
            kind = (
                "new failures"
                if was in SUCCESSES and is_now not in SUCCESSES
                else "repaired"
                if is_now in SUCCESSES
                else ""
            )
            found[kind or "other outcomes"].append(f"{label}: {is_now}, was {was}")
            continue
        if text := _size_change(before, record):
            found["sizes"].append(f"{label}: {text}")
        if text := _error_change(before, record):
            found["errors"].append(f"{label}: {text}")
    found["gone"] = [" → ".join(key) for key in earlier if key not in now]
    return {kind: lines for kind, lines in found.items() if lines}


def _size_change(before: Record, record: Record) -> str:
    was, is_now = (r.get("report", {}).get("output_bytes") for r in (before, record))
    if not was or not is_now or abs(is_now - was) <= _SIZE * was:
        return ""
    return f"{bytes_text(is_now)}, was {bytes_text(was)}"


def _error_change(before: Record, record: Record) -> str:
    """Return the outputs whose error exceeds `_ERROR` times both the earlier error and the noise floor."""
    was, is_now = _errors(before), _errors(record)
    grown = [
        f"{name} {error:.1e}, was {was[name][0]:.1e}"
        for name, (error, _) in is_now.items()
        if name in was and error > _ERROR * max(was[name])
    ]
    return "; ".join(grown)


def _errors(record: Record) -> dict[str, tuple[float, float]]:
    """Return error and noise floor of each output that has both; a journal has null for infinity."""
    outputs = ((record.get("report") or {}).get("verdict") or {}).get("outputs") or []
    return {
        o["name"]: (o["error"], o["floor"])
        for o in outputs
        if all(isinstance(o.get(key), (int, float)) for key in ("error", "floor"))
    }
