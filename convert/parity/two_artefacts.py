"""Compares two artefacts that somebody made: their ends are paired first, and nobody is at fault."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from convert import plugin
from convert.errors import BadInput, BrokenPackage, ConvertError, UnsafeInput, UsageError
from convert.graph.names import names_in_target
from convert.interpreter import paused_garbage_collection
from convert.model_reading import read_model
from convert.naming import Names
from convert.note_codes import ACTION, INFO
from convert.notes import prefixed_note
from convert.options import Options
from convert.parity.inputs.boundary_values import COUNTERPART_KEY
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import find_counterparts, narrow_dims
from convert.parity.pairing.held_numbers import hold_weights
from convert.parity.pairing.weights import describe_weights, weight_differences
from convert.parity.verify import verify
from convert.report import Report
from convert.source import Source
from convert.verdict import FAIL, PASS, Verdict


def verify_two(
    left: Source, right: Source, graph: ir.Model, options: Options, method: VerifyMethod, report: Report
) -> Verdict:
    """The verdict on `right` against `left`, whose shared graph is `graph`; notes on what was paired go to `report`.

    A target that cannot be read is taken to have the names of the source, unless its file is broken. Where both graphs
    are at hand, what they hold is compared too: a weight that was changed in places is never PASS. Where the verdict is
    FAIL and weights differ, that is said first. Raises as `convert.verify`.
    """
    names = (left.label, right.label) if left.label != right.label else ("the first", "the second")
    with report.stage("read", names[1]), paused_garbage_collection():
        reading = Report("verify")
        other = _read_right(right, method, options, names[1], report, reading)
    made = names_in_target(graph, plugin.names_of_kind(right.kind))
    report.renamed = made.changed()
    if isinstance(other, ir.Model):
        pairs = find_counterparts(graph, other, method.pairs, options.layout, names, made)
        for note in (*pairs.notes, *narrow_dims(graph, other, pairs, options.layout, names)):
            report.note(note)
        theirs = {str(v.name): v for v in other.graph.inputs}
        for value in graph.graph.inputs:
            value.meta[COUNTERPART_KEY] = theirs[pairs.inputs[str(value.name)]]
        for i in reversed(range(len(graph.graph.outputs))):
            if i not in pairs.kept:
                del graph.graph.outputs[i]
        method = replace(method, counterparts=pairs)
        report.renamed = Names(pairs.inputs, pairs.outputs).changed()
    with report.stage("verify"):
        verdict = verify(left, right, graph, options, replace(method, theirs=True))
    for note in reading.notes:  # such as that the target was saved in training mode
        report.note(prefixed_note(names[1], note, least=INFO if verdict.status == PASS else ACTION))
    if isinstance(other, BadInput) and verdict.guilty == "backend" and not verdict.outputs:
        raise other  # neither the reader nor its runtime makes sense of it
    if verdict.guilty == "backend":  # which may never have seen it
        verdict.guilty = ""
    if isinstance(other, ir.Model):
        hold_weights(verdict, graph, other, names[1])
    if verdict.status == FAIL and isinstance(other, ir.Model) and not verdict.stored:
        verdict.reason = "; ".join(t for t in (describe_weights(graph, other, names), verdict.reason) if t)
        verdict.weights = weight_differences(graph, other)
    return verdict


def _read_right(
    right: Source, method: VerifyMethod, options: Options, name: str, report: Report, reading: Report | None = None
) -> ir.Model | ConvertError:
    """The shared graph of the target, or why its operators or what is lacking keep it from being read.

    `reading` gets the notes of its reader. Raises `BadInput` for one that is not to be run either: broken files are for
    no runtime.
    """
    own = replace(method.target, rules=method.target.rules or options.rules)
    try:
        return read_model(right, own, reading or Report("verify"))
    except ConvertError as error:
        if isinstance(error, (UsageError, BrokenPackage)) and plugin.is_read(right.kind):
            raise  # what is lacking is no difference between two models
        trusted = isinstance(error, UnsafeInput) and own.trust
        if method.pairs or (isinstance(error, BadInput) and not error.doubtful and not trusted):
            raise
        report.note(
            f"{name} is taken to have the same names and weights, because it cannot be read: {error.sentence}",
            code="unreadable-target",
        )
        return error
