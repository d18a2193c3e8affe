"""Joins the reports of the parts of a model: an encoder with its decoders, or the models of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from convert.outcome.notes import prefixed_note
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Verdict


def has_folders(stems: Iterable[str]) -> bool:
    """Return whether parts have folders of their own (`unet/model`), as the models of a pipeline have."""
    return any("/" in stem for stem in stems)


def sum_up(report: Report, parts: Mapping[str, Report]) -> None:
    """Return one report: the facts that all parts share, and the facts of each part under its name.

    A part with a folder of its own has the name of the folder, and weights of its own. Other parts have the same
    weights, as an encoder and its decoders have.
    """
    whole = sum if has_folders(parts) else max
    found = {stem.partition("/")[0]: part for stem, part in parts.items()}
    for stem, part in found.items():
        report.inputs += [replace(t, name=f"{stem}: {t.name}") for t in part.inputs]
        report.outputs += [replace(t, name=f"{stem}: {t.name}") for t in part.outputs]
        report.output_bytes += part.output_bytes
        report.parameters = whole((report.parameters, part.parameters))
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
    notes = [prefixed_note(name, note) for name, verdict in verdicts.items() for note in verdict.notes]
    return replace(worst, reason=reason, outputs=rows, notes=notes)
