"""The page of a batch: a table of all tasks, causes of failures, missing operators, and a page for each model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from convert.batch.show import reason
from convert.batch.worker import SUCCESSES
from convert.errors import UsageError
from convert.outcome.text import bytes_text
from convert.pages import verification
from convert.pages.from_json import error_from_json, report_from_json
from convert.pages.template import Page, cell, link_cell, number_cell, section, table

_COLUMNS = ("model", "format", "outcome", "seconds", "peak", "weights", "output", "error / floor", "why")
_LONGEST_NAME = 120
"""Bytes of a file's name that come from a model's: file systems take 255."""


def write(path: Path, records: Sequence[dict[str, Any]], summary: dict[str, Any], command: str = "") -> None:
    """Write the page for `records` and their `summary` (`show.summary`), and the pages of the models in a folder beside
    it.

    The folder has the name of the page with the suffix `.pages`. command: the command that made the page. Raises
    `UsageError` if something else is in the way, and `ResourceLimit` on a full disk.
    """
    folder = path.with_suffix(".pages")
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"{folder} is no folder, and the pages of the models go there", hint="give --report another path"
        )
    with_pages = path.suffix == ".html"  # a device or a pipe has no folder beside it
    links = [
        f"{quote(os.fsencode(folder.name))}/{quote(page_name(r))}" if with_pages and r.get("report") else ""
        for r in records
    ]
    for record, link in zip(records, links, strict=True):
        if link:
            folder.mkdir(parents=True, exist_ok=True)
            _write_task(record, folder / page_name(record))
    _page(records, links, summary, command).write(path)


def page_name(record: Mapping[str, Any]) -> str:
    """Return the file name of a task's page; names of different tasks differ, whatever the models are called."""
    label = f"{record['name']}.{record['format']}"
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", label)[:_LONGEST_NAME].lstrip(".-") or "model"
    mark = "" if plain == label else f"-{sha256(label.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"{plain}{mark}.html"


def _write_task(record: Mapping[str, Any], path: Path) -> None:
    done, error = report_from_json(record["report"]), record["report"].get("error")
    done.source, done.target = done.source or str(record["source"]), done.target or str(record["output"])
    verification.write_page(done, path, error_from_json(error) if error else None)


def _page(records: Sequence[dict[str, Any]], links: Sequence[str], summary: dict[str, Any], command: str) -> Page:
    good = sum(record["outcome"] in SUCCESSES for record in records)
    ordered = sorted(zip(records, links, strict=True), key=lambda pair: _ORDER.index(_style(pair[0]["outcome"])))
    rows = [_row(record, link) for record, link in ordered]
    lacking = [[cell(str(count), "number"), cell(name)] for name, count in summary["unsupported"].items()]
    styles = {_style(record["outcome"]) for record in records}
    status = "PASS" if summary["ok"] else _STATUS[min(styles - {"good"}, key=_ORDER.index, default="bad")]
    return Page(
        status,
        status,
        f"{good} of {len(records)} conversions went well",
        "convert batch",
        totals={outcome: str(count) for outcome, count in summary["outcomes"].items()} | _sums(records),
        sections=[
            section("Conversions", table("tasks", _COLUMNS, rows)),
            section("Causes", _causes(summary["causes"])),
            section("Unsupported operators", table("unsupported", ("conversions", "operator"), lacking)),
        ],
        command=command,
    )


def _style(outcome: str) -> str:
    return "good" if outcome in SUCCESSES else "unsure" if outcome == "inconclusive" else "bad"


_ORDER = ("bad", "unsure", "good")
"""Styles of outcomes, as they follow one another on the page."""
_STATUS = {"bad": "FAIL", "unsure": "INCONCLUSIVE", "good": "PASS"}


def _sums(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    seconds = sum(record["seconds"] for record in records)
    written = sum(record.get("report", {}).get("output_bytes", 0) for record in records)
    return {"seconds of all": f"{seconds:.1f}", "written": bytes_text(written)}


def _causes(causes: Sequence[Mapping[str, Any]]) -> str:
    head = ("conversions", "outcome", "cause", "hint", "models")
    rows = [
        [
            cell(str(len(cause["tasks"])), "number"),
            cell(cause["outcome"], _style(cause["outcome"])),
            *map(cell, (cause["cause"], cause["hint"], ", ".join(cause["tasks"]))),
        ]
        for cause in causes
    ]
    return table("causes", head, rows)


def _row(record: dict[str, Any], link: str) -> list[str]:
    report = record.get("report", {})
    outputs = (report.get("verdict") or {}).get("outputs", [])
    ratios = [o["error"] / o["floor"] for o in outputs if o.get("floor") and o.get("error") is not None]
    style = _style(record["outcome"])
    sizes = (record["peak"], report.get("weight_bytes", 0), report.get("output_bytes", 0))
    return [
        link_cell(record["name"], link) if link else cell(record["name"]),
        cell(record["format"]),
        cell(record["outcome"], style),
        number_cell(f"{record['seconds']:.2f}"),
        *(number_cell(bytes_text(size), size) for size in sizes),
        number_cell(f"{max(ratios):.2f}", max(ratios)) if ratios else number_cell("", -1.0),
        cell("" if style == "good" else reason(record)),
    ]
