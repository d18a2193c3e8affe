"""Prints results to stdout, and progress, notes and errors to stderr; colours only on a terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from convert import plugin
from convert.errors import ConvertError, Unsupported
from convert.outcome.note_codes import ASSUMED_INPUT
from convert.outcome.notes import Note, visible_notes
from convert.outcome.report import SCHEMA_VERSION, Report, to_json
from convert.outcome.terminal import echo, echo_json, echo_lines
from convert.outcome.text import bytes_text, counted, visible

if TYPE_CHECKING:
    from convert.outcome.verdict import Reduced, Verdict

PASS = "PASS"  # convert.outcome.verdict imports numpy
_COLOURS = {"PASS": "green", "FAIL": "red", "INCONCLUSIVE": "yellow"}


def report(
    done: Report, *, quiet: bool, verbose: int, seconds: float = 0.0, written: Mapping[Path, str] = MappingProxyType({})
) -> None:
    """Print a finished report: notes to stderr, the result to stdout.

    quiet: print no notes. seconds: how long the command took. written: the files written in addition to the result, and
    what each is.
    """
    if not quiet:
        for note in visible_notes(done.notes, verbose):
            echo(_note_line(note, verbose), err=True)
    if done.command == "inspect":
        _inspection(done)
    elif done.command == "convert":
        _conversion(done, seconds, quiet=quiet)
    if done.steps:
        _steps(done)
    if done.verdict is not None:
        _verdict(done, [] if quiet else visible_notes(done.verdict.notes, verbose), verbose)
    for path, what in written.items():
        if what:
            echo(f"{what}: {path}")
    if verbose:
        times = ", ".join(f"{k} {v:.2f} s" for k, v in done.seconds.items())
        echo(f"time: {times}", err=True)


def _note_line(note: Note, verbose: int) -> str:
    """Return a note as a printed line: an assumption begins with its own word, and `-v` adds the code."""
    lead = "" if note.code == ASSUMED_INPUT else "note: "
    return f"{lead}{note}{f'  [{note.code}]' if verbose else ''}"


def formats(as_json: bool, verbose: bool = False) -> None:
    """Print the formats that can be read and written; if `verbose`, also how running models are confined."""
    readable = {k: text for f in plugin.frontends().values() for k, text in f.KINDS.items()}
    writable = plugin.formats()
    measures: list[str] = []
    if verbose:
        from convert.processes.sandbox import available_measures

        measures = list(available_measures())
    if as_json:
        written: dict[str, object] = {
            n: {"suffix": f.suffix, "folder": f.folder, "summary": f.summary} for n, f in writable.items()
        }
        confined = {"confined": measures} if verbose else {}
        echo_json(json.dumps({"read": readable, "write": written, **confined}, ensure_ascii=False))
        return
    echo("reads")
    echo_table(list(readable.items()))
    echo("writes (--to)")
    echo_table([(n, f"{f.summary} ({f.suffix}{'/' if f.folder else ''})") for n, f in writable.items()])
    if verbose:
        echo(f"models that are run are confined: {', '.join(measures) or 'not at all, on this system'}")


def error(problem: ConvertError) -> None:
    """Print an error: one paragraph (with one line for each unsupported operator) and a hint."""
    echo_lines(problem.message, lead=click.style("error: ", fg="red", bold=True, reset=True), err=True)
    if problem.hint:
        echo(f"hint: {problem.hint}", err=True)


def error_json(report: Report | str, problem: ConvertError) -> str:
    """Return a failed run as one line of JSON: its report, or for a verb without one its name and the error."""
    answer: dict[str, object] = {
        "type": type(problem).__name__,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }
    if isinstance(problem, Unsupported):
        answer["problems"] = [
            {
                "operator": p.at.operator,
                "node": p.at.node,
                "module": p.at.module,
                "source": p.at.source,
                "why": p.why,
                "count": p.count,
            }
            for p in problem.problems
        ]
    facts = {"schema": SCHEMA_VERSION, "command": report} if isinstance(report, str) else report.to_dict()
    return to_json({**facts, "ok": False, "exit_code": problem.exit_code, "error": answer})


def _conversion(done: Report, seconds: float, *, quiet: bool) -> None:
    if done.unverified.startswith("nothing was written"):
        echo(
            f"{done.source} ({done.kind}) can be converted to {done.format}: "
            f"{counted(sum(done.operators.values()), 'node')}, {counted(len(done.operators), 'operator')}"
        )
        return
    form = plugin.formats().get(done.format)
    facts = [form.title if form is not None and form.title else done.format]
    facts += [bytes_text(done.output_bytes)] if done.output_bytes else []
    facts += [f"{seconds:.1f} s"] if seconds else []
    echo(f"{done.source} → {done.target}  ({', '.join(facts)})")
    # In that case the note is not printed, and the user did not give the shape.
    _contract(done, assumed=quiet and any(note.code == ASSUMED_INPUT for note in done.notes))
    if done.unverified:
        echo(f"  not verified: {done.unverified}")


def _contract(done: Report, *, assumed: bool = False) -> None:
    """Print the inputs and outputs, and the conditions on their sizes. assumed: mark the assumed input."""
    width = min(_WIDEST, max((len(visible(t.name)) for t in (*done.inputs, *done.outputs)), default=0))
    for label, tensors in (("in ", done.inputs), ("out", done.outputs)):
        for tensor in tensors:
            described = done.contract(tensor).removeprefix(f"{tensor.name}: ")
            mark = "  (assumed)" if assumed and label == "in " else ""
            echo(f"  {label}  {visible(tensor.name):<{width}}  {described}{mark}")
    if done.conditions:
        echo(f"  for {', '.join(done.conditions)}")


def _steps(done: Report) -> None:
    """Print a line for each pair of the chain; the verdict below it is that of the first pair that fails."""
    width = min(_WIDEST, max(len(f"{step.source} → {step.target}") for step in done.steps))
    for i, step in enumerate(done.steps, 1):
        outputs = step.verdict.outputs if step.verdict is not None else []
        worst = max(outputs, key=lambda row: row.error, default=None)
        numbers = "" if worst is None else f"  error {worst.error:.2e}, noise floor {worst.floor:.2e}"
        word = click.style(f"{step.status:<12}", fg=_COLOURS.get(step.status, "red"), bold=True)
        pair = f"{step.source} → {step.target}"
        echo(numbers + (f"  {step.reason}" if step.error else ""), lead=f"{i}  {visible(pair):<{width}}  {word}")
    broken = next((i for i, step in enumerate(done.steps, 1) if step.status != "PASS"), 0)
    echo(f"step {broken} breaks" if broken else "no step breaks")


def _verdict(done: Report, notes: Sequence[Note], verbose: int) -> None:
    verdict = done.verdict
    assert verdict is not None
    word = click.style(verdict.status, fg=_COLOURS[verdict.status], bold=True)
    at_fault = f" (caused by the {verdict.at_fault})" if verdict.at_fault else ""
    reason = f": {verdict.reason}" if verdict.reason else ""
    brief = verdict.status == PASS and bool(verdict.outputs)
    echo(f"  {_agreement(verdict)}" if brief else f"{reason}{at_fault}", lead=word)
    for note in notes:
        echo(f"  {_note_line(note, verbose)}")
    if verdict.stored:
        echo(f"  stored as {verdict.stored}: the noise floor is what that does to the graph, not rounding to float32")
    for row in verdict.outputs if verbose or verdict.stored or not brief else ():
        if row.status == "INCONCLUSIVE" and not row.sets:
            more = "" if row.reason in verdict.reason else f" — {row.reason}"
            echo(f"  {row.name}: not compared{more}")
            continue
        twin = "" if row.twin is None else f", graph in float64 {row.twin:.1e}"
        twin += f", SQNR {row.decibels:.1f} dB" if verdict.stored else ""
        echo(
            f"  {row.name}: {row.numbers}{twin}"
            + ("" if row.agreement is None else f", {row.agreement:.1%} of rows have the same largest element")
            + (f" — {row.reason}" if row.status != "PASS" and row.reason not in verdict.reason else "")
        )
        for part in row.slices if verbose else ():
            echo(f"    {part.name}: SQNR {part.sqnr:.1f} dB, slope {part.slope:.4f}, offset {part.offset:+.1e}")
    _layers(verdict, verbose)
    if verdict.generation is not None:
        echo(f"  generation: {verdict.generation}")
    if verdict.latency is not None:
        echo(f"  time: {verdict.latency}")
    _weights(verdict)
    _failure(verdict)
    if verbose:
        for text in filter(None, (verdict.covered, verdict.weights_summary)):
            echo(f"  {text}")
        echo(f"  reference: {verdict.reference}")
        for feed in verdict.feeds:
            echo(f"  inputs: {feed}")


def _layers(verdict: Verdict, verbose: int) -> None:
    """Print a table of the layers that lose most accuracy in 8 bits."""
    if not verdict.layers or not verbose:
        return
    rows = [("layers that lose most in 8 bits", "operator", "SQNR before", "behind")]
    for layer in verdict.layers:
        rows.append((layer.module or layer.node, layer.operator, _decibels(layer.before), _decibels(layer.sqnr)))
    _columns(rows)


def _decibels(number: float) -> str:
    return "exact" if number == math.inf else f"{number:.1f} dB"


def _columns(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows in columns that are as wide as their widest text."""
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        echo("  " + "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip())


def _agreement(verdict: Verdict) -> str:
    """Return how well source and target agree: `error 3.2e-07 = 1.3× the source's own rounding error (limit 4×)`."""
    row = max(verdict.outputs, key=lambda row: row.error / row.floor if row.floor else float(row.error > 0))
    which = f" in {row.name}, the worst of {len(verdict.outputs)} outputs" if len(verdict.outputs) > 1 else ""
    sets = f"; {verdict.sets}" if verdict.sets else ""
    if not row.error:
        return f"the outputs are equal{sets}"
    noise = f"the rounding error of {verdict.stored}" if verdict.stored else "the source's own rounding error"
    limit = f" (limit {verdict.limit:g}×)" if verdict.limit and not row.rounding else ""
    ratio = row.error / row.floor if row.floor else 0.0
    times = f" = {ratio:.1f}× {noise}{limit}" if ratio >= 0.95 else f" = {ratio:.1g}× {noise}{limit}" if ratio else ""
    explained = f", of which rounding alone explains {row.rounding:.1e}" if row.rounding else ""
    return f"error {row.error:.1e}{times}{explained}{which}{sets}"


def _weights(verdict: Verdict) -> None:
    """Print a short table of the weights that have the same name on both sides but differ."""
    rows = [("weights that differ", "shape", "elements", "by, of its size", "at most")]
    for weight in verdict.weights:
        shape = "[" + ",".join(map(str, weight.shape)) + "]"
        count = "in other order" if weight.elements is None else f"{weight.elements:,} of {weight.size:,}"
        rows.append((weight.name, shape, count, f"{weight.distance:.2g}", f"{weight.largest:.2g}"))
    if len(rows) > 1:
        _columns(rows)


def _failure(verdict: Verdict) -> None:
    """Print the largest error, and where it began."""
    worst = [(e, row) for row in verdict.outputs if row.status == "FAIL" for e in row.elements]
    if worst:
        element, row = max(worst, key=lambda pair: pair[0].error)
        place = f"{row.name}{list(element.index)}"
        echo(f"  worst: {place} is {element.target:.9g}, should be {element.reference:.9g}, on {element.feed}")
    found = verdict.divergence
    if isinstance(found, str):
        echo(f"  place: {found}")
    elif found is not None:
        echo(f"  first node that departs: {found}")
        lines = [*(("in ", i) for i in found.inputs), ("out", found.output), ("instead", found.instead)]
        for label, text in lines:
            if text:
                echo(f"    {label} {text}")
    _reduced(verdict.reduced)


def _reduced(found: Reduced | str | None) -> None:
    """Print the smallest part that fails, and the command that shows the failure again."""
    if isinstance(found, str):
        echo(f"  {found}")
    elif found is not None:
        files = [found.model, found.inputs, *([found.target] if found.target else [])]
        echo(f"  reduced: {found} still fails; files: {', '.join(files)}")
        echo(f"    again: {found.command}")


def _inspection(done: Report) -> None:
    echo(f"{done.source}: {done.kind}")
    if done.nodes:
        echo_table([(", ".join((n.name, *(o for o in n.outputs if o != n.name))), n.operator) for n in done.nodes])
        return
    _contract(done)
    echo(f"  {counted(done.parameters, 'parameter')}, {bytes_text(done.weight_bytes)} of weights")
    if done.weights:
        echo_table([(t.name, f"{t.dtype}[{','.join(map(str, t.shape or ()))}]") for t in done.weights])
        return
    echo(
        f"  {counted(sum(done.operators.values()), 'node')}: "
        + ", ".join(f"{n} {name}" for name, n in done.operators.items())
    )


_WIDEST = 80
"""Characters of a column; a longer name pushes its own line aside, and not all of them."""


def echo_table(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and a text for each, in two columns."""
    width = min(_WIDEST, max((len(name) for name, _ in rows), default=0))
    for name, text in rows:
        echo(f"  {name:<{width}}  {text}")
