"""Make one verdict from the outputs of source, shared graph and target on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from convert.errors import ResourceLimit, Unsupported
from convert.graph.metadata import AS_IS_KEY
from convert.graph.tensors import ROUNDOFF, dtype_name, widened_array
from convert.graph.values import quantizes
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Finding, OutputVerdict, Verdict
from convert.parity.compare.narrow import NarrowOutput, compare_narrow, judge_slices
from convert.parity.compare.outputs import (
    FACTOR,
    FLOAT64_BOUND,
    MIN_TOLERANCE,
    OUTLIER,
    ROUNDINGS,
    SUSPICIOUS,
    Explain,
    argmax_agreement,
    compare,
    distance,
    float64_error,
    parts_of,
    vacuous_reason,
)
from convert.parity.compare.randomness import judge_random, random_outputs
from convert.parity.compare.spread import spread_of
from convert.parity.evidence import RunOutputs, outputs_of, reference_outputs, runs_on
from convert.parity.explain.picks import picking_node, picks_explained, suppression_before, worst_elements
from convert.parity.explain.rounding import FLOAT64, UNDECIDED, Estimates, Explained, is_of_steps
from convert.parity.inputs.feeds import Feed
from convert.parity.magnitudes import rms
from convert.parity.method import VerifyMethod
from convert.processes.run_here import Outputs

if TYPE_CHECKING:
    from convert.reference.quantized import NarrowedOutputs


_NO_ROUNDING = f"in float64 the graph is {{:.1e}} away from the source (bound {FLOAT64_BOUND:.0e}): not rounding"


@dataclass(frozen=True)
class Evidence:
    """Everything that a verdict is based on.

    estimates: what rounding does to the graph on the feeds. steps: the storage format of the source's weights, one of
    `STEPS_AT_RUN_TIME`, if the source rounds activations to integer steps at run time; the graph does not.
    """

    graph: ir.Model
    feeds: Sequence[Feed]
    runs: RunOutputs
    method: VerifyMethod
    estimates: Estimates
    steps: str = ""
    parts_of_narrow: bool = True
    """Whether far smaller elements of a target with narrower numbers have a bound of their own."""
    stored_estimates: Estimates | None = None
    """What rounding does to the graph with stored weights, if only the weights are narrower."""
    followed_sources: Outputs = field(default_factory=list)
    """The source's outputs on sets on which the target follows it, which need no reference (`compare/followed.py`)."""
    slice_roundoff: float = MIN_TOLERANCE
    """The relative error of a slice as a whole that `judge_slices` allows, for a target with narrower numbers."""
    stored: str = ""
    """The target's storage format, one of `convert.request.stored.STORED`, or ""."""

    @cached_property
    def nearest(self) -> NarrowedOutputs:
        """Return the outputs of the graph with its weights rounded to the nearest numbers that the target stores."""
        from convert.reference.quantized import simulate

        return simulate(self.graph, [feed.arrays for feed in self.feeds], self.stored)

    @cached_property
    def in_steps(self) -> NarrowedOutputs:
        """Return the outputs of the graph with and without the rounding that the source does at run time."""
        from convert.reference.quantized import simulate

        return simulate(self.graph, [feed.arrays for feed in self.feeds], self.steps)

    def explanation(self, position: int) -> Explain:
        """Return a function that tells whether rounding explains differences of the output at this position."""
        output, estimates = self.graph.graph.outputs[position], self.estimates

        def explain(
            place: int, reference: np.ndarray, got: np.ndarray, source: np.ndarray, part: np.ndarray | None
        ) -> Explained | None:
            if picking_node(output) is not None and got.dtype.kind in "iu" and got.shape == reference.shape:
                near = picks_explained(estimates, place, output, reference, got, self.method.declared)
                return Explained("" if near else "rounding does not decide which are picked")
            return estimates.explain(place, str(output.name), reference, got, source, part)

        return explain


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict on the plain outputs: the contract, each output, and every way of running the target.

    Outputs are matched with the source by position, because its framework may not name them, and with the graph by
    name, because its names are the contract.
    """
    graph, feeds, runs = evidence.graph, evidence.feeds, evidence.runs
    names = [str(v.name) for v in graph.graph.outputs]
    reference, exact = reference_outputs(runs)
    verdict = Verdict(PASS, reference=reference, feeds=[feed.label for feed in feeds])
    breach = _contract_breach(graph, names, outputs_of(runs.source["float32"]), runs.target)
    if breach is not None:
        return verdict.after(breach)
    random, rows = random_outputs(graph), list[OutputVerdict]()
    for position, name in enumerate(names):
        if name in random:
            sources = [_output_at(o, position) for o in outputs_of(runs.source["float32"])]
            rows.append(judge_random(graph, name, random[name], sources, [o[name] for o in runs.target]))
        else:
            rows.append(_judge_output(evidence, position, exact))
    rows = _judge_other_ways(evidence, rows, exact, random)
    references = [[_output_at(o, p) for o in (*exact, *evidence.followed_sources)] for p in range(len(names))]
    verdict = replace(verdict, outputs=rows).after(_conclusion(rows, references, set(random)))
    if runs.placed is None or not runs.placed.wrong:
        return verdict
    return verdict.after(_other_weights(evidence, runs.placed.wrong[0]))


def _other_weights(evidence: Evidence, wrong: str) -> Finding:
    """Return the finding on stored weights that are not the source's, rounded to the nearest step.

    Other writers choose their steps by the outputs (GPTQ), and so change these less than the nearest steps do. A file
    that changes an output by far more has wrong weights.
    """
    reason = f"stored weights are not the source's, rounded to the nearest step: {wrong}"
    if not evidence.method.theirs:
        return Finding(FAIL, reason, "backend")
    nearest = evidence.nearest
    for name in nearest.exact[0]:
        sides = (nearest.exact, nearest.rounded, evidence.runs.target)
        exact, rounded, got = ([widened_array(each[name]) for each in side] for side in sides)
        if any(array.dtype.kind != "f" or not np.isfinite(array).all() for array in (*exact, *rounded, *got)):
            continue
        error, bound = (
            rms(np.concatenate([(a - b).ravel() for a, b in zip(side, exact, strict=True)])) for side in (got, rounded)
        )
        if error > FACTOR * bound:
            text = f"{reason}; they move {name} {error / bound if bound else np.inf:.2g} times as far as these would"
            return Finding(FAIL, text, "backend")
    return Finding(INCONCLUSIVE, reason)


def _judge_output(evidence: Evidence, position: int, exact: Outputs) -> OutputVerdict:
    runs, method, feeds = evidence.runs, evidence.method, evidence.feeds
    name = str(evidence.graph.graph.outputs[position].name)
    references, sources, targets = _output_columns(name, position, exact, runs)
    row = _compare_output(evidence, position, (references, sources, targets))
    elements = worst_elements([_output_at(o, position) for o in exact], targets, [feed.label for feed in feeds])
    row = replace(row, elements=elements)
    if method.profile:
        given = [_output_at(o, position) for o in outputs_of(runs.source["float32"])]
        row = replace(row, spread=spread_of([_output_at(o, position) for o in exact], given, targets))
    if runs.narrowed is not None and row.status != FAIL:
        output, arrays = evidence.graph.graph.outputs[position], [feed.arrays for feed in feeds]
        narrow = _narrow_output(runs, name, (references, sources, targets))
        row = judge_slices(row, evidence.graph, output, arrays, narrow, roundoff=evidence.slice_roundoff)
    agreement = None if runs.narrowed is None else argmax_agreement(references, targets, row.noise)
    row = replace(
        row, agreement=agreement, at_fault="backend" if row.status == FAIL and _has_float64_graph(runs) else ""
    )
    if _has_float64_graph(runs):
        row = _judge_twin(evidence, position, exact, row)
    if row.status != FAIL and not method.tolerant:
        if runs.narrowed is not None:  # here the simulated rounding stands in for the source
            references = [_output_at(o, position) for o in exact]
            sources = targets = [_output_at(o, position) for o in outputs_of(runs.source["float32"])]
        judge_own_error = _judge_steps if evidence.steps else _judge_source
        row = judge_own_error(evidence, position, (references, sources, targets), row)
    return row.after(Finding(INCONCLUSIVE, row.undecided)) if row.undecided else row


Columns = tuple[Sequence[np.ndarray], Sequence[np.ndarray], Sequence[np.ndarray]]
"""Reference, source and target of one output per feed; for narrower targets, exact and rounded graph, and target."""


def _compare_output(evidence: Evidence, position: int, columns: Columns) -> OutputVerdict:
    name, method = str(evidence.graph.graph.outputs[position].name), evidence.method
    if evidence.runs.narrowed is not None and not method.tolerant:
        explain = None
        if evidence.stored_estimates is not None:
            explain = replace(evidence, estimates=evidence.stored_estimates).explanation(position)
        narrow = _narrow_output(evidence.runs, name, columns)
        found = compare_narrow(name, narrow, parts=evidence.parts_of_narrow, explain=explain)
        return found if explain else _with_selection(evidence.graph, position, found)
    references, sources, targets = columns
    if evidence.steps and not method.tolerant:  # the target does not round to steps: its bound excludes that error
        columns = references, [r.astype(s.dtype) for r, s in zip(references, sources, strict=True)], targets
    explain, others = evidence.explanation(position), [_output_at(o, position) for o in evidence.followed_sources]
    return compare(name, *columns, rtol=method.rtol, atol=method.atol, explain=explain, others=others)


def _with_selection(graph: ir.Model, position: int, row: OutputVerdict) -> OutputVerdict:
    """Return the verdict on an output in 8 bits: INCONCLUSIVE instead of FAIL if the output selects boxes by values in
    8 bits. Then one step decides which boxes there are, in which order, and how many.
    """
    output = graph.graph.outputs[position]
    selecting = suppression_before(output) if row.status == FAIL or row.undecided else None
    if selecting is None:
        return row
    names = ",".join(str(v.name) for v in selecting.inputs[:2] if v is not None)
    how = "leave out --postprocess" if AS_IS_KEY in output.metadata_props else f"--outputs {names}"
    reason = f"8 bits decide which boxes NonMaxSuppression selects: compare boxes and scores ({how})"
    if row.undecided:
        return replace(row, undecided=f"{reason}; {row.undecided}")
    return replace(row, status=INCONCLUSIVE, reason=f"{reason}; {row.reason}")


def _narrow_output(runs: RunOutputs, name: str, columns: Columns) -> NarrowOutput:
    exact, rounded, targets = columns
    assert runs.narrowed is not None
    stored = runs.narrowed.stored
    return NarrowOutput(exact, rounded, targets, None if stored is None else [outputs[name] for outputs in stored])


def _has_float64_graph(runs: RunOutputs) -> bool:
    """Return whether both the source and the graph have a run in float64."""
    return not isinstance(runs.graph_float64, Unsupported) and not isinstance(runs.source["float64"], Unsupported)


def _judge_twin(evidence: Evidence, position: int, exact: Outputs, row: OutputVerdict) -> OutputVerdict:
    """Return the row: FAIL of the frontend if graph and source differ in float64 by more than rounding explains."""
    own, output = evidence.runs.graph_float64, evidence.graph.graph.outputs[position]
    assert not isinstance(own, Unsupported)
    row = replace(row, twin=0.0)
    for place, outputs in enumerate(own):
        reference, found = _output_at(exact[place], position), outputs[row.name]
        error = float64_error(reference, found)
        row = replace(row, twin=max(row.twin or 0.0, error))
        if error <= FLOAT64_BOUND or _explains(evidence, place, output, reference, found):
            continue
        failed = Finding(FAIL, f"{_NO_ROUNDING.format(error)}, on {evidence.feeds[place].label}")
        row = replace(row.after(failed), at_fault="frontend")  # if both are wrong, the reader is named first
    return row


def _explains(evidence: Evidence, place: int, output: ir.Value, reference: np.ndarray, found: np.ndarray) -> bool:
    """Return whether rounding in float64 explains how the graph differs from the source."""
    estimates = evidence.estimates
    if reference.dtype.kind in "OUS" or reference.shape != found.shape:
        return False
    try:
        if picking_node(output) is not None and found.dtype.kind in "iu":
            declared = evidence.method.declared
            return picks_explained(estimates, place, output, reference, found, declared, FLOAT64)
        explained = estimates.explain(place, str(output.name), reference, found, reference, roundoff=FLOAT64)
        return explained is not None and not explained.reason
    except ResourceLimit:
        return False


def _judge_source(evidence: Evidence, position: int, columns: Columns, row: OutputVerdict) -> OutputVerdict:
    """Return the row after checking that rounding explains the source's own error, which might be a misread source.

    An error of the reader or of a float64 run looks like rounding error of the source. If the graph is its own
    reference, a source with a larger error than the target may have been read wrong. The result is FAIL of the frontend
    if rounding does not explain a large error, unless the graph quantizes. Integers are checked only if they are
    quantization steps.
    """
    kind = columns[0][0].dtype.kind
    if kind in "OUSb" or (kind in "iu" and not is_of_steps(evidence.graph.graph.outputs[position])):
        return row
    if kind in "iu":
        references, sources, targets = ([array.astype(np.float64) for array in column] for column in columns)
        columns = references, sources, targets
    alone = evidence.runs.source["float64"] is not reference_outputs(evidence.runs)[1]
    own_run = 0 if alone else len(columns[0]) - evidence.runs.stand_ins
    explain = evidence.explanation(position)
    together = rms(
        np.array([distance(s, r) for r, s, _ in zip(*columns, strict=True) if r.shape == s.shape and r.size])
    )
    for place, (reference, source, target) in enumerate(zip(*columns, strict=True)):
        if reference.shape != source.shape or target.shape != source.shape:
            continue
        exact, given, got = (widened_array(a) for a in (reference, source, target))
        finite = np.isfinite(exact) & np.isfinite(given) & np.isfinite(got)
        for part in parts_of(exact):
            mask = finite if part is None else finite & part
            right, ours, theirs = exact[mask], given[mask], got[mask]
            size, own, error = rms(right), rms(ours - right), rms(theirs - right)
            least = ROUNDINGS * ROUNDOFF.get(source.dtype.name, 2.0**-24) * size
            large, far = own > SUSPICIOUS * size, place >= own_run and own > OUTLIER * max(error, least)
            decisive = part is None and together >= UNDECIDED
            follows = not alone and not decisive and rms(theirs - ours) <= OUTLIER * least
            if follows or not (large or far):
                continue  # a target that follows the source takes the same decisions as the source
            found = _explained(explain, place, reference, source, part)
            text = (
                f"the source as deployed is {own / (size or 1.0):.1e} away from {reference_outputs(evidence.runs)[0]}"
            )
            if found is not None and not found.reason:
                undecided = f"rounding alone moves the output by {together:.0%} of its size"
                row = replace(row, rounding=max(row.rounding, found.share))
                row = replace(row, undecided=undecided) if decisive else row
            elif found is not None and large and alone and not quantizes(evidence.graph):
                return row.after(Finding(FAIL, f"{text}, which rounding does not explain: {found.reason}", "frontend"))
            else:
                why = found.reason if found is not None else "what rounding does is not known"
                differs = f"{text} and the target {error / (size or 1.0):.1e}; rounding does not explain that: {why}"
                row = replace(row, undecided=row.undecided or differs)
    return row


def _judge_steps(evidence: Evidence, position: int, columns: Columns, row: OutputVerdict) -> OutputVerdict:
    """Compare the error of a source that rounds activations at run time with the effect of that rounding on the graph.

    The result is FAIL of the frontend if the source's error is much larger, INCONCLUSIVE if it is larger.
    """
    if columns[0][0].dtype.kind in "OUSbiu" or isinstance(evidence.runs.graph_float64, Unsupported):
        return row
    steps, sources = evidence.in_steps, columns[1]
    rounded = [o[row.name].astype(s.dtype) for o, s in zip(steps.rounded, sources, strict=True)]
    found = compare(row.name, [o[row.name] for o in steps.exact], rounded, sources, parts=False)
    least = min((s.floor for s in found.sets), default=0.0)
    if found.status == PASS and FACTOR * least >= 1:
        found = found.after(Finding(INCONCLUSIVE, f"steps alone move the output by {least:.0%} of its size"))
    reason = (
        f"the source rounds activations as it runs, which does not explain how far it is from the graph: {found.reason}"
    )
    if found.status == FAIL and found.error > OUTLIER * max(found.floor, ROUNDINGS * 2.0**-24):
        return row.after(Finding(FAIL, reason, "frontend"))
    return row if found.status == PASS else replace(row, undecided=row.undecided or reason)


def _explained(
    explain: Explain, place: int, reference: np.ndarray, source: np.ndarray, part: np.ndarray | None
) -> Explained | None:
    try:
        return explain(place, reference, source, source, part)
    except ResourceLimit:
        return None


def _judge_other_ways(
    evidence: Evidence, rows: Sequence[OutputVerdict], exact: Outputs, random: Mapping[str, str]
) -> list[OutputVerdict]:
    """Return the rows after comparing the other ways of running the target; a failure in one way alone names it."""
    runs, rows, failed = evidence.runs, list(rows), any(row.status == FAIL for row in rows)
    at_fault = "backend" if _has_float64_graph(runs) else ""
    for way, outputs in runs.others.items():
        part = replace(evidence, runs=runs_on(replace(runs, target=outputs, others={}), range(len(outputs))))
        wrong = False
        for position, row in enumerate(rows):
            if row.name in random:
                continue
            columns = _output_columns(row.name, position, exact[: len(outputs)], part.runs)
            found = _compare_output(part, position, columns)
            wrong |= found.status == FAIL
            if found.status == FAIL and not failed:
                rows[position] = row.after(Finding(FAIL, f"{way}: {found.reason}", at_fault))
            elif found.status != FAIL and found.undecided:
                rows[position] = row.after(Finding(INCONCLUSIVE, f"{way}: {found.undecided}"))
        if wrong and not failed:
            break
        if failed and not wrong and len(outputs) == len(runs.target):
            return [replace(r, reason=f"{runs.use}: {r.reason}") if r.status == FAIL else r for r in rows]
    return rows


def without_foreign_float64(graph: ir.Model, runs: RunOutputs) -> RunOutputs:
    """Return the runs without the source's float64 run if that computes another function than the deployed source.

    A program may depend on the dtype of its tensors, and an evaluator of files may be wrong. The float64 run proves
    nothing if the graph in float64 is much nearer to the deployed source than it is.
    """
    double, single, own = runs.source["float64"], runs.source["float32"], runs.graph_float64
    if isinstance(double, Unsupported) or isinstance(single, Unsupported) or isinstance(own, Unsupported):
        return runs
    random = random_outputs(graph)
    for exact, given, ours in zip(double, single, own, strict=True):
        for name, a, b, c in zip(ours, exact.values(), given.values(), ours.values(), strict=False):
            if name in random or a.shape != b.shape or b.dtype.kind in "OUSbiu":
                continue
            least = ROUNDINGS * ROUNDOFF.get(b.dtype.name, 2.0**-24)
            if float64_error(a, c) > FLOAT64_BOUND and distance(b, a) > OUTLIER * max(distance(b, c), least):
                reason = Unsupported("in float64 the source computes something else than as it is deployed")
                return replace(runs, source={**runs.source, "float64": reason})
    return runs


def _output_columns(name: str, position: int, exact: Outputs, runs: RunOutputs) -> Columns:
    """Return the columns of one output: reference, source and target, as described at `Columns`."""
    targets = [o[name] for o in runs.target]
    sources = [_output_at(o, position) for o in outputs_of(runs.source["float32"])]
    if runs.narrowed is None:
        return [_output_at(o, position) for o in exact], sources, targets
    rounded = [o[name].astype(s.dtype) for o, s in zip(runs.narrowed.rounded, sources, strict=True)]
    return [o[name] for o in runs.narrowed.exact], rounded, targets


def _conclusion(rows: Sequence[OutputVerdict], references: Sequence[Sequence[np.ndarray]], random: Set[str]) -> Finding:
    """Return the finding on all outputs together. references: by output, on all sets. random: random outputs."""
    failed = [r for r in rows if r.status == FAIL]
    if failed:
        at_fault = next((r.at_fault for r in failed if r.at_fault), "")
        return Finding(FAIL, f"{failed[0].name}: {failed[0].reason}", at_fault)
    unsure = [r for r in rows if r.status == INCONCLUSIVE]
    vacuous = [row.name not in random and bool(vacuous_reason(r)) for row, r in zip(rows, references, strict=True)]
    filled = [any(array.size for array in arrays) for arrays in references]
    # A constant output next to outputs that vary is a property of the model. If no output varies, agreement proves
    # nothing. An output that never had an element was not compared at all.
    other = [
        row for row, v, f in zip(rows, vacuous, filled, strict=True) if row.status == INCONCLUSIVE and not (v and f)
    ]
    if not other and not (unsure and all(vacuous)):
        return Finding()
    first = (other or unsure)[0]
    return Finding(INCONCLUSIVE, f"{first.name}: {first.reason}, so agreement proves nothing")


def _contract_breach(graph: ir.Model, names: list[str], source: Outputs, target: Outputs) -> Finding | None:
    """Return FAIL if number, names or dtypes of outputs are wrong, with the side at fault; None if all are right."""
    if counts := [len(o) for o in source if len(o) != len(names)]:
        return Finding(FAIL, f"the source has {counts[0]} outputs, the graph {len(names)}", "frontend")
    for position, value in enumerate(graph.graph.outputs):
        actual = _output_at(source[0], position)
        declared = dtype_name(value.dtype)
        if value.dtype is not None and declared != _dtype_name(actual):
            reason = f"output {value.name!r} is {declared} in the graph and {_dtype_name(actual)} in the source"
            return Finding(FAIL, reason, "frontend")
    for outputs in target:
        if set(outputs) != set(names):
            reason = f"the outputs of the target are {list(outputs)}, those of the source {names}"
            return Finding(FAIL, reason, "backend")
    return None


def _dtype_name(array: np.ndarray) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def _output_at(outputs: Mapping[str, np.ndarray], position: int) -> np.ndarray:
    return list(outputs.values())[position]
