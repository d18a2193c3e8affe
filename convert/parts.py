"""A model that is written as several files, each a conversion of its own: an encoder, a decoder, one with a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert.destination import stem_of
from convert.errors import UsageError
from convert.plugin import Format
from convert.report import Report
from convert.source import Source
from convert.verdict import FAIL, INCONCLUSIVE, PASS, Verdict


def convert_parts(
    convert: Callable[..., Report],
    parts: Mapping[str, Mapping[str, Any]],
    form: Format,
    source: Source,
    output: str | Path | None,
    given: Mapping[str, Any],
    report: Report,
) -> Report:
    """Convert each part into the folder `output`, or all of them or none; `report` gets what each has found.

    parts: the options that choose a part, by the stem of its file. convert: of a place and `given` options. Raises as
    it does, and `UsageError` for an output that names a single file.
    """
    folder = Path(f"{stem_of(source)}-{form.name}" if output is None else output)
    if folder.name.lower().endswith(form.suffix):
        names = ", ".join(f"{stem}{form.suffix}" for stem in parts)
        raise UsageError(f"this is written as {len(parts)} files: {names}", hint=f"give -o {folder.stem}, a folder")
    report.source, report.kind, report.target, report.format = source.label, source.kind, str(folder), form.name
    made_folder = not folder.exists() and not given["dry_run"]
    if made_folder:
        folder.mkdir(parents=True)
    there = set(folder.iterdir()) if folder.is_dir() else set()
    found: dict[str, Report] = {}
    try:
        for stem, chosen in parts.items():
            found[stem] = Report("convert")
            convert(folder / f"{stem}{form.suffix}", **{**given, **chosen}, report=found[stem])
    except BaseException:
        for file in set(folder.iterdir()) - there if folder.is_dir() else ():
            if file.is_file():
                file.unlink()
        if made_folder:
            folder.rmdir()
        raise
    _sum_up(report, found)
    return report


def _sum_up(report: Report, found: Mapping[str, Report]) -> None:
    """What the parts have in common, and what each has by its name."""
    for stem, part in found.items():
        report.inputs += [replace(t, name=f"{stem}: {t.name}") for t in part.inputs]
        report.outputs += [replace(t, name=f"{stem}: {t.name}") for t in part.outputs]
        report.output_bytes += part.output_bytes
        report.parameters = max(report.parameters, part.parameters)
        report.weight_bytes += part.weight_bytes
        report.unverified = report.unverified or part.unverified
        for name, count in part.operators.items():
            report.operators[name] = report.operators.get(name, 0) + count
        for note in part.notes:
            report.note(note)
    verdicts = {stem: part.verdict for stem, part in found.items() if part.verdict is not None}
    if len(verdicts) == len(found):
        report.verdict = _worst(verdicts)


def _worst(verdicts: Mapping[str, Verdict]) -> Verdict:
    order = (FAIL, INCONCLUSIVE, PASS)
    stem, worst = min(verdicts.items(), key=lambda item: order.index(item[1].status))
    rows = [replace(row, name=f"{name}: {row.name}") for name, verdict in verdicts.items() for row in verdict.outputs]
    reason = f"{stem}: {worst.reason}" if worst.reason else ""
    notes = [f"{name}: {note}" for name, verdict in verdicts.items() for note in verdict.notes]
    return replace(worst, reason=reason, outputs=rows, notes=notes)
