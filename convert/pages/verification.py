"""The page of a verification, or of a conversion with its verification."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from convert.batch.contents import content_digest
from convert.errors import ConvertError, Unsupported
from convert.files.output import size_of
from convert.outcome.report import ChainStep, Report
from convert.outcome.text import bytes_text, escape
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Divergence, OutputVerdict, Reduced, Verdict
from convert.pages import plots
from convert.pages.spread_plots import spread_plots
from convert.pages.template import Page, bullets, cell, notes_list, number_cell, scrolled, section, soft, table
from convert.parity.compare.outputs import FACTOR, FLOAT64_BOUND


def write_page(done: Report, path: Path, error: ConvertError | None = None) -> None:
    """Write the report of `done` to `path`. error: what ended the work, shown on the page.

    Raises `UsageError` if `path` cannot be written, and `ResourceLimit` on a full disk.
    """
    _page(done, error, path).write(path)


def page(done: Report, error: ConvertError | None = None) -> str:
    """Return the page as text."""
    return _page(done, error).text()


def _page(done: Report, error: ConvertError | None, place: Path | None = None) -> Page:
    """Return the page. place: the page's own path, from which it links to the files."""
    verdict = done.verdict
    sections = [_steps(done.steps)]
    if verdict is not None:
        sections += [
            _place(verdict),
            _reduced(verdict),
            _weights(verdict),
            _outputs(verdict),
            _network(verdict),
            _worst_elements(verdict),
        ]
        covered = [text for text in (verdict.covered, verdict.weights_summary) if text]
        sections.append(section("Inputs", *map(soft, covered), bullets(verdict.feeds)))
    sections.append(_files(done, place))
    notes = [*(verdict.notes if verdict is not None else ()), *done.notes]
    sections += [_problems(error), contract(done), section("Notes", notes_list(notes))]
    status = _status(done, error)
    return Page(
        status,
        status,
        finding(done, error),
        f"{done.source} → {done.target}" if done.target else done.source,
        _about(done, error),
        _totals(done),
        sections,
        done.reproduce,
        done.seconds,
    )


def _files(done: Report, place: Path | None) -> str:
    """Return source and target with sizes and SHA-256 (not for folders), and links if the page has a path."""
    rows = []
    for what, name in (("source", done.source), ("target", done.target)):
        if not name or not (path := Path(name)).exists():
            continue
        link = escape(name)
        if place is not None and place.suffix == ".html":
            address = quote(os.fsencode(os.path.relpath(path, place.parent)))
            link = f'<a href="{address}">{link}</a>'
        digest = content_digest(path).hex() if path.is_file() else "–"
        rows.append([cell(what), f"<td>{link}</td>", cell(bytes_text(size_of(path)), "number"), cell(digest)])
    return section("Files", table("files", ("", "name", "size", "SHA-256"), rows))


def _status(done: Report, error: ConvertError | None) -> str:
    if done.verdict is not None:
        return done.verdict.status
    return "ERROR" if error is not None else "UNVERIFIED"


def finding(done: Report, error: ConvertError | None = None) -> str:
    """Return the result in a few words: differing weights, differing outputs, or how well the outputs agree."""
    verdict = done.verdict
    if verdict is None:
        return _shortened(error.message if error is not None else "")
    if verdict.status != PASS:
        return _shortened(verdict.reason)
    ratios = [row.error / row.floor for row in verdict.outputs if row.floor]
    agree = "1 output agrees" if len(verdict.outputs) == 1 else f"{len(verdict.outputs)} outputs agree"
    return f"{agree}, {max(ratios):.2f} × the noise floor at most" if ratios else agree if verdict.outputs else ""


def _shortened(text: str, most: int = 100) -> str:
    """Return the first clause of a reason; the whole reason is shown further below."""
    first = text.partition("; ")[0].partition("\n")[0].partition(" (")[0]
    return first if len(first) <= most else first[: most - 1] + "…"


def _about(done: Report, error: ConvertError | None) -> list[str]:
    verdict = done.verdict
    if verdict is None:
        if error is None:
            return [done.unverified]
        return [*error.message.split("\n"), f"Hint: {error.hint}" if error.hint else ""]
    kinds = f"{done.kind} against {done.format}."
    reference = f" Reference: {verdict.reference}." if verdict.reference else ""
    stored = f" The target stores numbers as {verdict.stored}." if verdict.stored else ""
    at_fault = f"The {verdict.at_fault} is at fault." if verdict.at_fault else ""
    return [verdict.reason, at_fault, kinds + reference + stored]


def _totals(done: Report) -> dict[str, str]:
    verdict = done.verdict
    outputs = [] if verdict is None else verdict.outputs
    agree = sum(row.status == PASS for row in outputs)
    totals = {"outputs that agree": f"{agree} of {len(outputs)}"} if outputs else {}
    if verdict is not None and verdict.feeds:
        totals["sets of inputs"] = str(len(verdict.feeds))
    if verdict is not None and verdict.latency is not None:
        totals["time of a run"] = str(verdict.latency)
    if done.operators:
        totals["nodes"] = f"{sum(done.operators.values()):,}"
    if done.parameters:
        totals["parameters"] = f"{done.parameters:,}"
    if done.output_bytes:
        totals["written"] = bytes_text(done.output_bytes)
    if done.seconds:
        totals["seconds"] = f"{sum(done.seconds.values()):.1f}"
    return totals


def _problems(error: ConvertError | None) -> str:
    if not isinstance(error, Unsupported):
        return ""
    head = ("operator", "nodes", "node", "module", "source line", "why")
    rows = [
        [cell(p.at.operator), cell(str(p.count), "number"), *map(cell, (p.at.node, p.at.module, p.at.source, p.why))]
        for p in error.problems
    ]
    return section("What cannot be converted", table("problems", head, rows))


def _weights(verdict: Verdict) -> str:
    head = ("weight", "dims", "differs by", "largest", "elements")
    rows = [
        [
            cell(w.name),
            cell("×".join(map(str, w.shape))),
            number_cell(f"{w.distance:.2e}"),
            number_cell(f"{w.largest:.2e}"),
            cell("other order" if w.elements is None else f"{w.elements:,} of {w.size:,}"),
        ]
        for w in verdict.weights
    ]
    about = "Of weights that both sides have by one name, those that differ most, relative to their root mean squares."
    return section("Weights that differ", table("weights", head, rows) and soft(about), table("weights", head, rows))


def _outputs(verdict: Verdict) -> str:
    head = ("output", "verdict", "error", "noise floor", "ratio", "graph in float64", "worst element", "why")
    ordered = sorted(verdict.outputs, key=lambda row: _SEVERITY.index(row.status))
    rows = [[cell(r.name), cell(r.status, r.status), *_numbers(r), cell(r.reason)] for r in ordered]
    about = (
        "Errors are root mean squares relative to the reference's. The noise floor is what rounding alone does to the "
        f"source; up to {FACTOR:g} times that passes. The graph in float64 may be at most {FLOAT64_BOUND:.0e} away."
    )
    drawn = [r for r in ordered if r.error or r.floor]
    equal = '<p class="no-plot">There is no plot of errors: no output has an error or a noise floor.</p>'
    plot = _KEY_OUTPUTS + scrolled(plots.plot_output_errors(drawn)) if drawn else equal
    parts = soft(about), table("outputs-table", head, rows), plot, spread_plots(ordered)
    return section("Outputs", *parts) if rows else ""


_SEVERITY = (FAIL, INCONCLUSIVE, PASS)
"""The order of outputs on a page."""


def _numbers(row: OutputVerdict) -> list[str]:
    ratio = f"{row.error / row.floor:.2f}" if row.floor else "–"
    twin = "–" if row.twin is None else f"{row.twin:.2e}"
    return [cell(t, "number") for t in (f"{row.error:.2e}", f"{row.floor:.2e}", ratio, twin, f"{row.worst:.2e}")]


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
    drawn = scrolled(plots.plot_node_errors(verdict.profile, first))
    return f'{head}<p class="soft">{about}</p>{_KEY_OUTPUTS}{drawn}'


def _worst_elements(verdict: Verdict) -> str:
    head = ("output", "index", "reference", "target", "relative error", "inputs")
    rows = [
        [
            cell(row.name),
            cell(str(list(e.index))),
            cell(f"{e.reference:.9g}", "number"),
            cell(f"{e.target:.9g}", "number"),
            cell(f"{e.error:.2e}", "number"),
            cell(e.feed),
        ]
        for row in verdict.outputs
        for e in row.elements
    ]
    return section("The worst elements", table("elements", head, rows))


def _place(verdict: Verdict) -> str:
    found = verdict.divergence
    if found is None:
        return ""
    if isinstance(found, str):
        return f"<h2>Where</h2><p>{escape(found)}</p>"
    rows = [[cell("operator"), cell(f"{found.operator}, node {found.node}")]]
    rows += [[cell(k), cell(v)] for k, v in (("module", found.module), ("source line", found.source)) if v]
    rows += [[cell("input"), cell(text)] for text in found.inputs] + [[cell("output"), cell(found.output)]]
    rows += [[cell("instead"), cell(found.instead)]] if found.instead else []
    return section("The first node that departs", table("place", (), rows))


def _reduced(verdict: Verdict) -> str:
    """Return the smallest part that still fails, or why there is none."""
    found = verdict.reduced
    if not isinstance(found, Reduced):
        return section("The smallest part that fails", soft(found) if found else "")
    rows = [[cell("part"), cell(str(found))], [cell("fails with"), cell(found.reason)]]
    rows += [[cell(what), cell(name)] for what, name in (("model", found.model), ("inputs", found.inputs)) if name]
    rows += [[cell("part of the target"), cell(found.target)]] if found.target else []
    return section("The smallest part that fails", table("reduced", (), [*rows, [cell("again"), cell(found.command)]]))


def _steps(steps: Sequence[ChainStep]) -> str:
    head = ("step", "verdict", "largest error", "noise floor", "why")
    rows = []
    for step in steps:
        outputs = step.verdict.outputs if step.verdict is not None else []
        worst = max(outputs, key=lambda r: r.error, default=None)
        numbers = ("–", "–") if worst is None else (f"{worst.error:.2e}", f"{worst.floor:.2e}")
        cells = [cell(f"{step.source} → {step.target}"), cell(step.status, step.status)]
        rows.append([*cells, *(cell(n, "number") for n in numbers), cell(step.reason)])
    return section("Step by step", table("steps", head, rows))


def contract(done: Report) -> str:
    """Return inputs and outputs with their allowed sizes, and how large the model is."""
    rows = [[cell("input"), cell(done.contract(t))] for t in done.inputs]
    rows += [[cell("output"), cell(done.contract(t))] for t in done.outputs]
    if done.operators:
        rows.append([cell("nodes"), cell(f"{sum(done.operators.values()):,} of {len(done.operators)} operators")])
    rows += [[cell("parameters"), cell(f"{done.parameters:,}")]] if done.parameters else []
    return section("Model", table("model", (), rows))
