"""Compare two given artefacts: pair their inputs and outputs, then verify them, without blaming a reader or writer."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from convert import plugin
from convert.errors import BadInput, BrokenPackage, ConvertError, UnsafeInput, UsageError
from convert.graph.names import names_in_target
from convert.outcome.note_codes import ACTION, INFO
from convert.outcome.notes import prefixed_note
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, PASS, Verdict
from convert.parity.inputs.boundary_values import COUNTERPART_KEY
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import find_counterparts, narrow_calls, narrow_dims
from convert.parity.pairing.weight_contents import judge_weights
from convert.parity.pairing.weights import describe_weights, weight_differences
from convert.parity.verify import verify
from convert.processes.interpreter import paused_garbage_collection
from convert.processes.model_reading import read_model
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source


def verify_two(
    left: Source, right: Source, graph: ir.Model, options: Options, method: VerifyMethod, report: Report
) -> Verdict:
    """Return the verdict on `right` against `left`, whose shared graph is `graph`; add notes on the pairs to `report`.

    If the target cannot be read, it is assumed to have the names of the source, unless its file is broken. If both
    graphs are available, their weights are compared too: a weight that changed in places is never PASS. If the verdict
    is FAIL and weights differ, the reason begins with the weights. Raises like `convert.verify`.
    """
    names = (left.label, right.label) if left.label != right.label else ("the first", "the second")
    with report.stage("read", names[1]), paused_garbage_collection():
        reading = Report("verify")
        other = _read_right(right, method, options, names[1], report, reading)
    made = names_in_target(graph, plugin.names_of_kind(right.kind))
    report.renamed = made.changed()
    if isinstance(other, ir.Model):
        pairs = find_counterparts(graph, other, method.pairs, options.layout, names, made)
        limits = (*narrow_dims(graph, other, pairs, options.layout, names), *narrow_calls(graph, other, pairs, names))
        for note in (*pairs.notes, *limits):
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
    for note in reading.notes:  # e.g. the target was saved in training mode
        report.note(prefixed_note(names[1], note, least=INFO if verdict.status == PASS else ACTION))
    if isinstance(other, BadInput) and verdict.at_fault == "backend" and not verdict.outputs:
        raise other  # neither the reader nor the runtime accepts the file
    if verdict.at_fault == "backend":  # the target may not come from our backend
        verdict = replace(verdict, at_fault="")
    if isinstance(other, ir.Model):
        verdict = judge_weights(verdict, graph, other, names[1])
    if verdict.status == FAIL and isinstance(other, ir.Model) and not verdict.stored:
        reason = "; ".join(t for t in (describe_weights(graph, other, names), verdict.reason) if t)
        verdict = replace(verdict, reason=reason, weights=weight_differences(graph, other))
    return verdict


def _read_right(
    right: Source, method: VerifyMethod, options: Options, name: str, report: Report, reading: Report | None = None
) -> ir.Model | ConvertError:
    """Return the shared graph of the target, or the error if operators or packages prevent reading it.

    reading: gets the notes of the reader. Raises `BadInput` for a broken file, which no runtime should get.
    """
    own = replace(method.target, rules=method.target.rules or options.rules)
    try:
        return read_model(right, own, reading or Report("verify"))
    except ConvertError as error:
        if isinstance(error, (UsageError, BrokenPackage)) and plugin.is_readable(right.kind):
            raise  # missing packages or options are no difference between models
        trusted = isinstance(error, UnsafeInput) and own.trust
        if method.pairs or (isinstance(error, BadInput) and not error.doubtful and not trusted):
            raise
        report.note(
            f"{name} is taken to have the same names and weights, because it cannot be read: {error.sentence}",
            code="unreadable-target",
        )
        return error
