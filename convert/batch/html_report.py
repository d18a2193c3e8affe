"""The results of a batch as one HTML page that needs nothing else: a table to sort, causes, and operators lacking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convert.batch.show import reason
from convert.batch.worker import GOOD
from convert.files.side_files import GENERATOR, is_page, side_file
from convert.text import escape

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } th, td { padding: .3rem .6rem; text-align: left }
th { border-bottom: 2px solid; cursor: pointer } td { border-bottom: 1px solid #8884; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums } .bad { color: #c22 } .good { color: #283 }
@media (prefers-color-scheme: dark) { .bad { color: #f77 } .good { color: #7c7 } }
"""

_SORT = """
for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const body = head.closest("table").tBodies[0], at = head.cellIndex, up = head.dataset.up !== "1";
  const value = row => { const t = row.cells[at].dataset.v ?? row.cells[at].textContent; return t };
  const order = (a, b) => { const x = value(a), y = value(b), n = x - y; return isNaN(n) ? x.localeCompare(y) : n };
  head.dataset.up = up ? "1" : "0";
  body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));
};
"""

_COLUMNS = (
    "model",
    "format",
    "outcome",
    "seconds",
    "peak MiB",
    "weights MiB",
    "output MiB",
    "error / floor",
    "first reason",
)


def write(path: Path, records: Sequence[dict[str, Any]], summary: dict[str, Any]) -> None:
    """Write the page for `records` and their `summary` (`show.summary`). Raises `ResourceLimit` on a full disk."""
    with side_file(path, is_page, "--report") as temporary:
        temporary.write_text(_page(records, summary), "utf-8", "replace")  # names of files may be no text


def _page(records: Sequence[dict[str, Any]], summary: dict[str, Any]) -> str:
    counts = ", ".join(f"{n} {name}" for name, n in summary["outcomes"].items())
    rows = "\n".join(map(_row, records))
    heads = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    causes = "".join(
        f"<li>{len(g['tasks'])} × {escape(g['outcome'])}: {escape(g['cause'])}<br><small>"
        f"{escape(', '.join(g['tasks']))}{'<br>hint: ' * bool(g['hint'])}{escape(g['hint'])}</small></li>"
        for g in summary["causes"]
    )
    lacking = "".join(f'<tr><td class="n">{n}</td><td>{escape(o)}</td></tr>' for o, n in summary["unsupported"].items())
    parts = [
        f"<h1>convert batch</h1><p>{escape(counts)}</p>",
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>",
        f"<h2>Causes</h2><ul>{causes}</ul>" if causes else "",
        "<h2>Unsupported operators</h2><table><thead><tr><th>conversions</th><th>operator</th></tr></thead>"
        f"<tbody>{lacking}</tbody></table>"
        if lacking
        else "",
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"{GENERATOR}<title>convert batch</title>"
        f"<style>{_STYLE}</style><body>{''.join(parts)}<script>{_SORT}</script></body></html>\n"
    )


def _row(record: dict[str, Any]) -> str:
    report = record.get("report", {})
    verdict = report.get("verdict") or {}
    ratios = [
        o["error"] / o["floor"] for o in verdict.get("outputs", []) if o.get("floor") and o.get("error") is not None
    ]
    kind = "good" if record["outcome"] in GOOD else "bad"
    why = "" if record["outcome"] in GOOD else reason(record)
    numbers = (
        record["seconds"],
        record["peak"] / 2**20,
        report.get("weight_bytes", 0) / 2**20,
        report.get("output_bytes", 0) / 2**20,
        max(ratios) if ratios else None,
    )
    cells = [
        f"<td>{escape(record['name'])}</td><td>{escape(record['format'])}</td>",
        f'<td class="{kind}">{escape(record["outcome"])}</td>',
        *(f'<td class="n" data-v="{-1 if n is None else n}">{"" if n is None else f"{n:.2f}"}</td>' for n in numbers),
        f"<td>{escape(why)}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"
