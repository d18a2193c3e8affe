"""The report of a verification as one self-contained HTML page: nothing is fetched, light or dark as the reader is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from convert.errors import ConvertError
from convert.files.side_files import GENERATOR, is_page, side_file
from convert.parity import plots
from convert.parity.compare import FACTOR, FLOAT64_BOUND
from convert.parity.environment import environment_facts
from convert.report import ChainStep, Report
from convert.text import escape
from convert.verdict import Divergence, OutputVerdict, Verdict

_STYLE = """
:root { color-scheme: light dark; --text: #1d2129; --soft: #5d6675; --back: #ffffff; --panel: #f4f6f9; --rule: #d5dae2;
  --floor: #7a8699; --bound: #b26a00; --error: #0b5cad; --beyond: #c62828; --good: #1b7a3d; --unsure: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --text: #e7eaf0; --soft: #9aa4b5; --back: #14171c; --panel: #1e232b;
  --rule: #363e4a; --floor: #8d99ab; --bound: #e0a040; --error: #6cb2ff; --beyond: #ff7b72; --good: #56d37f;
  --unsure: #e3b341; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 auto;
  max-width: 66rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.verdict { display: inline-block; font-weight: 700; padding: .1rem .6rem; border: 2px solid; border-radius: .4rem; }
.PASS { color: var(--good); } .FAIL, .ERROR { color: var(--beyond); } .INCONCLUSIVE { color: var(--unsure); }
p.soft, td.soft, .tick, .label { color: var(--soft); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid var(--rule); vertical-align: top; } td.number, th.number { text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: var(--panel); padding: .8rem; border-radius: .4rem; overflow-x: auto; white-space: pre-wrap; }
svg { width: 100%; height: auto; background: var(--panel); border-radius: .4rem; font: 12px system-ui, sans-serif; }
svg text { fill: var(--soft); } svg polyline { fill: none; stroke-width: 1.5; } .grid { stroke: var(--rule); }
polyline.floor { stroke: var(--floor); stroke-dasharray: 2 3; }
polyline.bound { stroke: var(--bound); stroke-dasharray: 6 4; }
polyline.error { stroke: var(--error); opacity: .5; } circle.error, rect.bar { fill: var(--error); }
circle.beyond, rect.beyond { fill: var(--beyond); } .mark { stroke: var(--beyond); stroke-width: 2; }
.key span { margin-right: 1.2rem; }
.key i { display: inline-block; width: 1.2rem; border-top: 3px solid; margin-right: .4rem; vertical-align: middle; }
"""


def write_page(done: Report, path: Path, error: ConvertError | None = None) -> None:
    """Write the report of `done` to `path`. error: what ended the work, which the page then tells.

    Raises `UsageError` where `path` cannot be written, `ResourceLimit` on a full disk.
    """
    with side_file(path, is_page, "--report") as temporary:
        temporary.write_text(page(done, error), encoding="utf-8")


def page(done: Report, error: ConvertError | None = None) -> str:
    """The page as text."""
    verdict = done.verdict
    sections = [_heading(done, error)]
    if done.steps:
        sections.append(_steps(done.steps))
    if verdict is not None:
        sections += [_place(verdict), _outputs(verdict), _network(verdict), _worst_elements(verdict), _inputs(verdict)]
    sections += [_contract(done), _notes(done), _environment(done)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f"{GENERATOR}"
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(_title(done, error))}</title><style>{_STYLE}</style></head>\n<body>"
        + "\n".join(s for s in sections if s)
        + "</body></html>\n"
    )


def _status(done: Report, error: ConvertError | None) -> str:
    if done.verdict is not None:
        return done.verdict.status
    return "ERROR" if error is not None else "UNVERIFIED"


def _title(done: Report, error: ConvertError | None) -> str:
    return f"{_status(done, error)}: {done.source} → {done.target}"


def _heading(done: Report, error: ConvertError | None) -> str:
    status, verdict = _status(done, error), done.verdict
    reason = verdict.reason if verdict is not None else (error.message if error is not None else done.unverified)
    guilty = f". The {verdict.guilty} is at fault." if verdict is not None and verdict.guilty else ""
    reference = f" Reference: {verdict.reference}." if verdict is not None and verdict.reference else ""
    stored = f" The target stores numbers as {verdict.stored}." if verdict is not None and verdict.stored else ""
    return (
        f'<h1><span id="verdict" class="verdict {status}">{status}</span> {escape(done.source)} → '
        f"{escape(done.target)}</h1><p>{escape(reason)}{escape(guilty)}</p>"
        f'<p class="soft">{escape(done.kind)} against {escape(done.format)}.{escape(reference)}{escape(stored)}</p>'
    )


def _outputs(verdict: Verdict) -> str:
    if not verdict.outputs:
        return ""
    head = ("output", "verdict", "error", "noise floor", "ratio", "graph in float64", "worst element", "why")
    rows = [[_cell(r.name), _cell(r.status, r.status), *_numbers(r), _cell(r.reason)] for r in verdict.outputs]
    about = (
        "Errors are root mean squares relative to the reference's. The noise floor is what rounding alone does to the "
        f"source; up to {FACTOR:g} times that passes. The graph in float64 may be at most {FLOAT64_BOUND:.0e} away."
    )
    drawn = [r for r in verdict.outputs if r.error or r.floor]
    plot = _KEY_OUTPUTS + plots.plot_output_errors(drawn) if drawn else ""
    return f'<h2>Outputs</h2><p class="soft">{about}</p>{_table("outputs-table", head, rows)}{plot}'


def _numbers(row: OutputVerdict) -> list[str]:
    ratio = f"{row.error / row.floor:.2f}" if row.floor else "–"
    twin = "–" if row.twin is None else f"{row.twin:.2e}"
    return [_cell(t, "number") for t in (f"{row.error:.2e}", f"{row.floor:.2e}", ratio, twin, f"{row.worst:.2e}")]


_KEY_OUTPUTS = (
    '<p class="key"><span><i style="color:var(--error)"></i>error</span>'
    '<span><i style="color:var(--floor)"></i>noise floor</span><span><i style="color:var(--bound)"></i>bound</span></p>'
)


def _network(verdict: Verdict) -> str:
    head = "<h2>Along the network</h2>"
    if verdict.profile is None or isinstance(verdict.profile, str):
        why = verdict.profile or "errors at the nodes were not computed"
        return f'{head}<p id="no-profile">There is no plot: {escape(why)}.</p>'
    first = verdict.divergence.node if isinstance(verdict.divergence, Divergence) else ""
    missing = sum(p.error is None for p in verdict.profile)
    about = (
        "The artefact was read back and evaluated node by node in float32, against the graph in float64. "
        f"{len(verdict.profile)} nodes in order; {missing} have no counterpart in the artefact: fused away, or behind "
        "a defect. Point at a node for its name."
    )
    return f'{head}<p class="soft">{about}</p>{_KEY_OUTPUTS}{plots.plot_node_errors(verdict.profile, first)}'


def _worst_elements(verdict: Verdict) -> str:
    head = ("output", "index", "reference", "target", "relative error", "inputs")
    rows = [
        [
            _cell(row.name),
            _cell(str(list(e.index))),
            _cell(f"{e.reference:.9g}", "number"),
            _cell(f"{e.target:.9g}", "number"),
            _cell(f"{e.error:.2e}", "number"),
            _cell(e.feed),
        ]
        for row in verdict.outputs
        for e in row.elements
    ]
    return f"<h2>The worst elements</h2>{_table('elements', head, rows)}" if rows else ""


def _place(verdict: Verdict) -> str:
    found = verdict.divergence
    if found is None:
        return ""
    if isinstance(found, str):
        return f"<h2>Where</h2><p>{escape(found)}</p>"
    rows = [[_cell("operator"), _cell(f"{found.operator}, node {found.node}")]]
    rows += [[_cell(k), _cell(v)] for k, v in (("module", found.module), ("source line", found.source)) if v]
    rows += [[_cell("input"), _cell(text)] for text in found.inputs] + [[_cell("output"), _cell(found.output)]]
    rows += [[_cell("instead"), _cell(found.instead)]] if found.instead else []
    return f"<h2>The first node that departs</h2>{_table('place', (), rows)}"


def _inputs(verdict: Verdict) -> str:
    return "<h2>Inputs</h2><ul>" + "".join(f"<li>{escape(f)}</li>" for f in verdict.feeds) + "</ul>"


def _steps(steps: Sequence[ChainStep]) -> str:
    head = ("step", "verdict", "largest error", "noise floor", "why")
    rows = []
    for step in steps:
        outputs = step.verdict.outputs if step.verdict is not None else []
        worst = max(outputs, key=lambda r: r.error, default=None)
        numbers = ("–", "–") if worst is None else (f"{worst.error:.2e}", f"{worst.floor:.2e}")
        cells = [_cell(f"{step.source} → {step.target}"), _cell(step.status, step.status)]
        rows.append([*cells, *(_cell(n, "number") for n in numbers), _cell(step.reason)])
    return f"<h2>Step by step</h2>{_table('steps', head, rows)}"


def _contract(done: Report) -> str:
    rows = [[_cell("input"), _cell(str(t))] for t in done.inputs]
    rows += [[_cell("output"), _cell(str(t))] for t in done.outputs]
    rows += [[_cell("nodes"), _cell(f"{sum(done.operators.values()):,} of {len(done.operators)} operators")]]
    rows += [[_cell("parameters"), _cell(f"{done.parameters:,}")]]
    return f"<h2>Model</h2>{_table('model', (), rows)}"


def _notes(done: Report) -> str:
    return "<h2>Notes</h2><ul>" + "".join(f"<li>{escape(n)}</li>" for n in done.notes) + "</ul>" if done.notes else ""


def _environment(done: Report) -> str:
    rows = [[_cell(k), _cell(v)] for k, v in _facts(done).items()]
    command = f'<h2>To reproduce</h2><pre id="command">{escape(done.reproduce)}</pre>' if done.reproduce else ""
    return f"{command}<h2>Environment</h2>{_table('environment', (), rows)}"


def _facts(done: Report) -> Mapping[str, str]:
    times = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in done.seconds.items())
    return {**environment_facts(), **({"time": times} if times else {})}


def _cell(text: str, style: str = "") -> str:
    return f'<td class="{style}">{escape(text)}</td>' if style else f"<td>{escape(text)}</td>"


def _table(identity: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    numbers = [cell.startswith('<td class="number"') for cell in rows[0]] if rows else []
    cells = [
        f'<th class="number">{escape(h)}</th>' if number else f"<th>{escape(h)}</th>"
        for h, number in zip(head, numbers, strict=False)
    ]
    top = f"<thead><tr>{''.join(cells)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table id="{identity}">{top}<tbody>{body}</tbody></table></div>'
