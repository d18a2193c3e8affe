"""Shared by all pages: the frame, style and script of one self-contained file, tables that sort and filter, cells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from convert.files.side_files import GENERATOR, is_page, side_file
from convert.outcome.notes import as_note
from convert.outcome.text import escape
from convert.pages.environment import environment_facts

_STYLE = """
:root { color-scheme: light dark; --text: #1d2129; --soft: #5d6675; --back: #ffffff; --panel: #f4f6f9; --rule: #d5dae2;
  --floor: #7a8699; --bound: #b26a00; --error: #0b5cad; --beyond: #c62828; --good: #1b7a3d; --unsure: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --text: #e7eaf0; --soft: #9aa4b5; --back: #14171c; --panel: #1e232b;
  --rule: #363e4a; --floor: #8d99ab; --bound: #e0a040; --error: #6cb2ff; --beyond: #ff7b72; --good: #56d37f;
  --unsure: #e3b341; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 auto;
  max-width: 75rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
a { color: var(--error); } p { overflow-wrap: anywhere; }
.verdict { display: inline-block; font-weight: 700; padding: .1rem .6rem; border: 2px solid; border-radius: .4rem; }
.PASS, .good { color: var(--good); } .FAIL, .ERROR, .bad { color: var(--beyond); }
.INCONCLUSIVE, .unsure { color: var(--unsure); } .soft, .tick, .label { color: var(--soft); }
dl.totals { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; } dl.totals div { background: var(--panel);
  border-radius: .4rem; padding: .4rem .9rem; } dl.totals dt { color: var(--soft); font-size: .8rem; }
dl.totals dd { margin: 0; font-size: 1.1rem; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; } input.filter { font: inherit; color: inherit; background: var(--panel); width: 16rem;
  border: 1px solid var(--rule); border-radius: .4rem; padding: .2rem .6rem; margin: .25rem 0; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .3rem 1.6rem .3rem 0;
  border-bottom: 1px solid var(--rule); vertical-align: top; overflow-wrap: break-word; max-width: 36rem; }
td:last-child { min-width: 12rem; }
td.number, th.number { min-width: 0; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.sortable { cursor: pointer; } th.sortable:hover { color: var(--error); } th[aria-sort=ascending]::after {
  content: " ↑"; } th[aria-sort=descending]::after { content: " ↓"; }
pre { background: var(--panel); padding: .8rem; border-radius: .4rem; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: anywhere; }
svg.plot { width: 100%; height: auto; background: var(--panel); border-radius: .4rem;
  font: 12px system-ui, sans-serif; }
svg.plot text { fill: var(--soft); } svg.plot polyline { fill: none; stroke-width: 1.5; }
.grid { stroke: var(--rule); }
polyline.floor { stroke: var(--floor); stroke-dasharray: 2 3; }
polyline.bound { stroke: var(--bound); stroke-dasharray: 6 4; }
polyline.error { stroke: var(--error); opacity: .5; } circle.error, rect.bar { fill: var(--error); }
svg.plot path { fill: none; stroke-width: 3; stroke-linecap: round; } path.dots { stroke: var(--error); }
svg.plot path.beyond { stroke: var(--beyond); stroke-width: 5; }
.diagonal { stroke: var(--floor); stroke-dasharray: 2 3; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
figure { margin: 0; min-width: 0; } h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; overflow-wrap: anywhere; }
circle.beyond, rect.beyond { fill: var(--beyond); } .mark { stroke: var(--beyond); stroke-width: 2; }
.key span { margin-right: 1.2rem; }
.key i { display: inline-block; width: 1.2rem; border-top: 3px solid; margin-right: .4rem; vertical-align: middle; }
@media (max-width: 45rem) { body { padding: .8rem; } .scroll > svg.plot { min-width: 44rem; }
  th, td { padding-right: .8rem; } td:last-child { min-width: 0; } table.many thead { display: none; }
  table.many, table.many tbody { display: block; }
  table.many tr { display: block; border-bottom: 1px solid var(--rule); padding: .5rem 0; }
  table.many tr[hidden] { display: none; } table.many td { display: grid; grid-template-columns: 8.5rem 1fr; border: 0;
  padding: .1rem 0; text-align: left; white-space: normal; overflow-wrap: anywhere; max-width: none; }
  table.many td:empty { display: none; }
  table.many td::before { content: attr(data-label); color: var(--soft); overflow-wrap: normal; } }
"""

# A heading sorts its table; a table of many rows gets a search field, which keeps the rows that contain all its words.
_SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], rows = Array.from(body.rows);
  const value = (row, at) => row.cells[at].dataset.value ?? row.cells[at].textContent;
  const compare = (a, b) => { const n = a - b; return isNaN(n) || a === "" || b === "" ? a.localeCompare(b) : n; };
  for (const head of table.tHead ? table.tHead.rows[0].cells : []) {
    head.classList.add("sortable");
    head.onclick = () => {
      const up = head.getAttribute("aria-sort") !== "ascending", at = head.cellIndex;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      rows.sort((a, b) => (up ? 1 : -1) * compare(value(a, at), value(b, at)));
      body.append(...rows);
    };
  }
  if (table.tHead === null || FILTERED > rows.length) continue;
  const field = document.createElement("input"), counted = document.createElement("span");
  field.type = "search"; field.className = "filter"; field.placeholder = "filter " + rows.length + " rows";
  field.setAttribute("aria-label", "filter the rows of this table"); counted.className = "soft";
  table.parentElement.before(field, " ", counted);
  field.oninput = () => {
    const words = field.value.toLowerCase().split(" ");
    let left = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = words.some(word => !text.includes(word));
      left += row.hidden ? 0 : 1;
    }
    counted.textContent = field.value ? left + " of " + rows.length : "";
  };
}
""".replace("FILTERED", "8")

_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' blob:; form-action 'none'; base-uri 'none'\"/>"
)
"""The Content-Security-Policy: the browser does not let a page fetch anything."""


_MANY = 5
"""Columns that do not fit beside one another on a phone."""

_TEXT = re.compile(r">[^<]")
"""Matches text in a cell, which an empty cell does not have."""


@dataclass
class Page:
    """A page before it becomes text. `status` is one word, `finding` the result in a few words, `subject` what it is
    about.

    `about` are sentences below; `totals` are counts shown first, by what they count; `sections` are HTML from the
    functions below; `command` is the command that made the page.
    """

    status: str
    style: str
    finding: str
    subject: str
    about: Sequence[str] = ()
    totals: Mapping[str, str] = field(default_factory=dict)
    sections: Sequence[str] = ()
    command: str = ""
    times: Mapping[str, float] = field(default_factory=dict)

    def text(self) -> str:
        """Return the page as HTML that is also well-formed XML."""
        title = f"{self.status}: {self.finding} – {self.subject}" if self.finding else f"{self.status}: {self.subject}"
        parts = [_heading(self), _totals(self.totals), *self.sections, _command(self.command), _environment(self.times)]
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
            f"{GENERATOR}{_POLICY}"
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>"
            + "\n".join(part for part in parts if part)
            + f"{script(_SCRIPT)}</body></html>\n"
        )

    def write(self, path: Path, option: str = "--report") -> None:
        """Write the page to `path` atomically; only a page of this tool is replaced.

        Raises `UsageError` if `path` cannot be written, and `ResourceLimit` on a full disk.
        """
        with side_file(path, is_page, option) as temporary:
            temporary.write_text(self.text(), "utf-8", "replace")  # names of files may be no text


def _heading(page: Page) -> str:
    found = f" {escape(page.finding)}" if page.finding else ""
    about = "".join(f"<p>{escape(text)}</p>" for text in page.about if text)
    return (
        f'<h1><span id="verdict" class="verdict {page.style}">{escape(page.status)}</span>{found}</h1>'
        f'<p class="soft" id="subject">{escape(page.subject)}</p>{about}'
    )


def _totals(totals: Mapping[str, str]) -> str:
    counted = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in totals.items())
    return f'<dl class="totals">{counted}</dl>' if counted else ""


def _command(command: str) -> str:
    return f'<h2>To reproduce</h2><pre id="command">{escape(command)}</pre>' if command else ""


def _environment(times: Mapping[str, float]) -> str:
    stages = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in times.items())
    facts = {**environment_facts(), **({"time": stages} if stages else {})}
    return section("Environment", table("environment", (), [[cell(k), cell(v)] for k, v in facts.items()]))


def section(heading: str, *parts: str) -> str:
    """Return a heading and its content; empty if there is no content."""
    return f"<h2>{escape(heading)}</h2>{''.join(parts)}" if any(parts) else ""


def soft(text: str) -> str:
    """Return an explaining sentence as HTML."""
    return f'<p class="soft">{escape(text)}</p>'


def scrolled(plot: str) -> str:
    """Return a plot that keeps its width on a narrow screen."""
    return f'<div class="scroll">{plot}</div>'


def bullets(texts: Sequence[str]) -> str:
    """A list of sentences."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>" if texts else ""


def notes_list(notes: Sequence[str]) -> str:
    """Return a list of notes, each with its level and code after it."""
    return bullets([f"{note} [{note.level}: {note.code}]" for note in map(as_note, notes)])


def cell(text: str, style: str = "") -> str:
    """A cell of a table."""
    return f'<td class="{style}">{escape(text)}</td>' if style else f"<td>{escape(text)}</td>"


def number_cell(text: str, value: float | None = None) -> str:
    """Return the cell of a number, which sorts by `value` if JavaScript would not read its text as a number."""
    return cell(text, "number") if value is None else f'<td class="number" data-value="{value!r}">{escape(text)}</td>'


def link_cell(text: str, target: str) -> str:
    """Return a cell that links to another page; `target` is a relative URL, already quoted."""
    return f'<td><a href="{escape(target)}">{escape(text)}</a></td>'


def table(identity: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells; without a heading it neither sorts nor filters. Empty if there are no rows.

    A column with a heading and no text in any row is left out. On a narrow screen, a row of `_MANY` columns or more
    becomes a list of its cells, each with its heading.
    """
    if not rows:
        return ""
    if head:
        kept = [any(_TEXT.search(row[i]) for row in rows) for i in range(len(head))]
        head = [text for text, keep in zip(head, kept, strict=True) if keep]
        rows = [[each for each, keep in zip(row, kept, strict=True) if keep] for row in rows]
    numbers = [each.startswith('<td class="number"') for each in rows[0]]
    cells = [
        f'<th class="number">{escape(h)}</th>' if number else f"<th>{escape(h)}</th>"
        for h, number in zip(head, numbers, strict=False)
    ]
    top = f"<thead><tr>{''.join(cells)}</tr></thead>" if head else ""
    many = len(head) >= _MANY
    if many:
        rows = [[_labelled(each, text) for each, text in zip(row, head, strict=True)] for row in rows]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    style = ' class="many"' if many else ""
    return f'<div class="scroll"><table id="{identity}"{style}>{top}<tbody>{body}</tbody></table></div>'


def _labelled(cell: str, heading: str) -> str:
    return cell.replace(">", f' data-label="{escape(heading)}">', 1)


def script(code: str, kind: str = "") -> str:
    """Return a script element that HTML and XML parse alike, with our code or that of a package."""
    kind = f' type="{kind}"' if kind else ""
    return f"<script{kind}>//<![CDATA[\n{code}\n//]]></script>"
