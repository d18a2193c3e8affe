"""Turns the outputs of source, shared graph and target on the same inputs into one verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from convert.errors import ResourceLimit, Unsupported
from convert.graph.tensors import ROUNDOFF, dtype_name, widened_array
from convert.graph.values import quantizes
from convert.parity.compare.narrow import NarrowOutput, compare_narrow, judge_slices
from convert.parity.compare.outputs import (
    FACTOR,
    FLOAT64_BOUND,
    LEAST,
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
from convert.parity.evidence import RunOutputs, first_runs, outputs_of, reference_outputs
from convert.parity.explain.picks import picking_node, picks_explained, worst_elements
from convert.parity.explain.rounding import FLOAT64, UNDECIDED, Estimates, Explained
from convert.parity.inputs.feeds import Feed
from convert.parity.magnitudes import rms
from convert.parity.method import VerifyMethod
from convert.runners.process import Outputs
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict

if TYPE_CHECKING:
    from convert.reference.quantized import NarrowedOutputs


_NO_ROUNDING = f"in float64 the graph is {{:.1e}} away from the source (bound {FLOAT64_BOUND:.0e}): not rounding"


@dataclass(frozen=True)
class Evidence:
    """Everything that a verdict is made from.

    estimates: what rounding does to the graph on the feeds. steps: how the source stores its weights, one of
    `STEPS_AT_RUN_TIME`, if it rounds what meets them to whole steps while it runs; the graph does not.
    """

    graph: ir.Model
    feeds: Sequence[Feed]
    runs: RunOutputs
    method: VerifyMethod
    estimates: Estimates
    steps: str = ""
    parts_of_narrow: bool = True
    """Whether far smaller elements of a target with narrower numbers are held to a bound of their own."""
    stored_estimates: Estimates | None = None
    """What rounding does to the graph with stored weights, where nothing but these is narrower."""
    followed_sources: Outputs = field(default_factory=list)
    """The source's outputs on sets that the target follows it on, which need no reference (`compare/followed.py`)."""
    slice_roundoff: float = LEAST
    """The relative error that a slice of a target with narrower numbers may have as a whole, of `judge_slices`."""

    @cached_property
    def in_steps(self) -> NarrowedOutputs:
        """The outputs of the graph without and with the rounding that the source does as it runs."""
        from convert.reference.quantized import simulate

        return simulate(self.graph, [feed.arrays for feed in self.feeds], self.steps)

    def explanation(self, position: int) -> Explain:
        """Return what says how far rounding explains differences of the output at a position."""
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
    """Return the verdict on the plain outputs: the contract, each output, and every way of using the target.

    Outputs are matched by position with the source, whose framework may not name them, and by name with the graph,
    whose names are the contract.
    """
    graph, feeds, runs = evidence.graph, evidence.feeds, evidence.runs
    verdict = Verdict(PASS, feeds=[feed.label for feed in feeds])
    names = [str(v.name) for v in graph.graph.outputs]
    verdict.reference, exact = reference_outputs(runs)
    wrong = _contract_breach(graph, names, outputs_of(runs.source["float32"]), runs.target)
    if wrong:
        guilty, reason = wrong
        verdict.lower(FAIL, reason, guilty)
        return verdict
    random = random_outputs(graph)
    for position, name in enumerate(names):
        if name in random:
            sources = [_output_at(o, position) for o in outputs_of(runs.source["float32"])]
            row = judge_random(graph, name, random[name], sources, [o[name] for o in runs.target])
        else:
            row = _judge_output(evidence, position, exact)
        if row.status == FAIL and not verdict.guilty:
            verdict.guilty = row.guilty
        verdict.outputs.append(row)
    _judge_other_ways(evidence, verdict, exact, random)
    _conclude(
        verdict,
        [[_output_at(o, p) for o in (*exact, *evidence.followed_sources)] for p in range(len(names))],
        set(random),
    )
    if runs.placed is not None and runs.placed.wrong:
        reason = f"stored weights are not the source's, rounded to the nearest step: {runs.placed.wrong[0]}"
        if evidence.method.theirs:
            verdict.lower(INCONCLUSIVE, reason)
        else:
            verdict.lower(FAIL, reason, "backend")
    return verdict


def _judge_output(evidence: Evidence, position: int, exact: Outputs) -> OutputVerdict:
    runs, method, feeds = evidence.runs, evidence.method, evidence.feeds
    name = str(evidence.graph.graph.outputs[position].name)
    references, sources, targets = _output_columns(name, position, exact, runs)
    row = _compare_output(evidence, position, (references, sources, targets))
    row.elements = worst_elements([_output_at(o, position) for o in exact], targets, [feed.label for feed in feeds])
    if runs.narrowed is not None and row.status != FAIL:
        output, arrays = evidence.graph.graph.outputs[position], [feed.arrays for feed in feeds]
        narrow = _narrow_output(runs, name, (references, sources, targets))
        judge_slices(row, evidence.graph, output, arrays, narrow, roundoff=evidence.slice_roundoff)
    row.agreement = None if runs.narrowed is None else argmax_agreement(references, targets, row.noise)
    row.guilty = "backend" if row.status == FAIL and _has_twin(runs) else ""
    if _has_twin(runs):
        _judge_twin(evidence, position, exact, row)
    if row.status != FAIL and not method.tolerant:
        if runs.narrowed is not None:  # these columns have the simulated rounding in place of the source
            references = [_output_at(o, position) for o in exact]
            sources = targets = [_output_at(o, position) for o in outputs_of(runs.source["float32"])]
        judge_own_error = _judge_steps if evidence.steps else _judge_source
        judge_own_error(evidence, position, (references, sources, targets), row)
    if row.undecided:
        row.lower(INCONCLUSIVE, row.undecided)
    return row


Columns = tuple[Sequence[np.ndarray], Sequence[np.ndarray], Sequence[np.ndarray]]
"""Reference, source and target of one output on each feed; of narrower targets exact and rounded graph, and target."""


def _compare_output(evidence: Evidence, position: int, columns: Columns) -> OutputVerdict:
    name, method = str(evidence.graph.graph.outputs[position].name), evidence.method
    if evidence.runs.narrowed is not None and not method.tolerant:
        explain = None
        if evidence.stored_estimates is not None:
            explain = replace(evidence, estimates=evidence.stored_estimates).explanation(position)
        narrow = _narrow_output(evidence.runs, name, columns)
        return compare_narrow(name, narrow, parts=evidence.parts_of_narrow, explain=explain)
    references, sources, targets = columns
    if evidence.steps and not method.tolerant:  # the target does not round to steps: it gets no share of their error
        columns = references, [r.astype(s.dtype) for r, s in zip(references, sources, strict=True)], targets
    explain, others = evidence.explanation(position), [_output_at(o, position) for o in evidence.followed_sources]
    return compare(name, *columns, rtol=method.rtol, atol=method.atol, explain=explain, others=others)


def _narrow_output(runs: RunOutputs, name: str, columns: Columns) -> NarrowOutput:
    exact, rounded, targets = columns
    assert runs.narrowed is not None
    stored = runs.narrowed.stored
    return NarrowOutput(exact, rounded, targets, None if stored is None else [outputs[name] for outputs in stored])


def _has_twin(runs: RunOutputs) -> bool:
    """Return whether both the source and the graph have a run in float64."""
    return not isinstance(runs.graph_float64, Unsupported) and not isinstance(runs.source["float64"], Unsupported)


def _judge_twin(evidence: Evidence, position: int, exact: Outputs, row: OutputVerdict) -> None:
    """FAIL of the frontend, in place, where graph and source differ in float64 by more than rounding explains."""
    own, output = evidence.runs.graph_float64, evidence.graph.graph.outputs[position]
    assert not isinstance(own, Unsupported)
    row.twin = 0.0
    for place, outputs in enumerate(own):
        reference, found = _output_at(exact[place], position), outputs[row.name]
        error = float64_error(reference, found)
        row.twin = max(row.twin, error)
        if error <= FLOAT64_BOUND or _explains(evidence, place, output, reference, found):
            continue
        row.lower(FAIL, f"{_NO_ROUNDING.format(error)}, on {evidence.feeds[place].label}")
        row.guilty = "frontend"  # of two faults the reader's comes first


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


def _judge_source(evidence: Evidence, position: int, columns: Columns, row: OutputVerdict) -> None:
    """Require that rounding explains the source's own error; an error of the reader or of a float64 run looks like it.

    In place: where the graph is its own reference, a source that is further from it may have been read wrong. FAIL of
    the frontend where rounding does not explain a large error, unless the graph quantizes.
    """
    if columns[0][0].dtype.kind in "OUSbiu":
        return
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
                continue  # what follows the source takes its decisions too
            found = _explained(explain, place, reference, source, part)
            text = (
                f"the source as deployed is {own / (size or 1.0):.1e} away from {reference_outputs(evidence.runs)[0]}"
            )
            if found is not None and not found.reason:
                row.rounding = max(row.rounding, found.share)
                if decisive:
                    row.undecided = f"rounding alone moves the output by {together:.0%} of its size"
            elif found is not None and large and alone and not quantizes(evidence.graph):
                row.lower(FAIL, f"{text}, which rounding does not explain: {found.reason}", "frontend")
                return
            else:
                why = found.reason if found is not None else "what rounding does is not known"
                row.undecided = row.undecided or (
                    f"{text} and the target {error / (size or 1.0):.1e}; rounding does not explain that: {why}"
                )


def _judge_steps(evidence: Evidence, position: int, columns: Columns, row: OutputVerdict) -> None:
    """Hold the error of a source that rounds activations as it runs to what the same rounding does to the graph.

    In place. FAIL of the frontend where the source is much further away than that, INCONCLUSIVE where it is further.
    """
    if columns[0][0].dtype.kind in "OUSbiu" or isinstance(evidence.runs.graph_float64, Unsupported):
        return
    steps, sources = evidence.in_steps, columns[1]
    rounded = [o[row.name].astype(s.dtype) for o, s in zip(steps.rounded, sources, strict=True)]
    found = compare(row.name, [o[row.name] for o in steps.exact], rounded, sources, parts=False)
    least = min((s.floor for s in found.sets), default=0.0)
    if found.status == PASS and FACTOR * least >= 1:
        found.status, found.reason = INCONCLUSIVE, f"steps alone move the output by {least:.0%} of its size"
    reason = (
        f"the source rounds activations as it runs, which does not explain how far it is from the graph: {found.reason}"
    )
    if found.status == FAIL and found.error > OUTLIER * max(found.floor, ROUNDINGS * 2.0**-24):
        row.lower(FAIL, reason, "frontend")
    elif found.status != PASS:
        row.undecided = row.undecided or reason


def _explained(
    explain: Explain, place: int, reference: np.ndarray, source: np.ndarray, part: np.ndarray | None
) -> Explained | None:
    try:
        return explain(place, reference, source, source, part)
    except ResourceLimit:
        return None


def _judge_other_ways(evidence: Evidence, verdict: Verdict, exact: Outputs, random: Mapping[str, str]) -> None:
    """Hold the other ways of using the target to the same bound, in place; a failure in one way names it."""
    runs, failed = evidence.runs, any(row.status == FAIL for row in verdict.outputs)
    for way, outputs in runs.others.items():
        part = replace(evidence, runs=first_runs(replace(runs, target=outputs, others={}), len(outputs)))
        wrong = None
        for position, row in enumerate(verdict.outputs):
            if row.name in random:
                continue
            found = _compare_output(
                part, position, _output_columns(row.name, position, exact[: len(outputs)], part.runs)
            )
            if found.status == FAIL and wrong is None:
                wrong = found
                if not failed:
                    row.lower(FAIL, f"{way}: {found.reason}")
                    verdict.guilty = "backend" if _has_twin(runs) else ""
            elif found.undecided:
                row.lower(INCONCLUSIVE, f"{way}: {found.undecided}")
        if wrong is not None and not failed:
            return
        if wrong is None and failed and len(outputs) == len(runs.target):
            for row in verdict.outputs:
                if row.status == FAIL:
                    row.reason = f"{runs.use}: {row.reason}"
            return


def without_foreign_float64(graph: ir.Model, runs: RunOutputs) -> RunOutputs:
    """Return the runs without that of the source in float64, if this is another function than the source as deployed.

    A program may ask for the dtype of its tensors, and an evaluator of files may be wrong. The run proves nothing if
    the graph in float64 is much nearer to the source as deployed.
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


def _output_columns(
    name: str, position: int, exact: Outputs, runs: RunOutputs
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Reference, source and target of one output on each feed; of narrower targets exact and rounded graph, target."""
    targets = [o[name] for o in runs.target]
    sources = [_output_at(o, position) for o in outputs_of(runs.source["float32"])]
    if runs.narrowed is None:
        return [_output_at(o, position) for o in exact], sources, targets
    rounded = [o[name].astype(s.dtype) for o, s in zip(runs.narrowed.rounded, sources, strict=True)]
    return [o[name] for o in runs.narrowed.exact], rounded, targets


def _conclude(verdict: Verdict, references: Sequence[Sequence[np.ndarray]], random: Set[str]) -> None:
    failed = [r for r in verdict.outputs if r.status == FAIL]
    if failed:
        verdict.lower(FAIL, f"{failed[0].name}: {failed[0].reason}", verdict.guilty)
        return
    unsure = [r for r in verdict.outputs if r.status == INCONCLUSIVE]
    vacuous = [
        row.name not in random and bool(vacuous_reason(r)) for row, r in zip(verdict.outputs, references, strict=True)
    ]
    filled = [any(array.size for array in arrays) for arrays in references]
    # One constant output beside outputs that move is a property of the model; nothing that moves proves nothing, and
    # an output that never had an element was not compared at all.
    other = [
        row
        for row, v, f in zip(verdict.outputs, vacuous, filled, strict=True)
        if row.status == INCONCLUSIVE and not (v and f)
    ]
    if other or (unsure and all(vacuous)):
        unsure = other or unsure
        verdict.lower(INCONCLUSIVE, f"{unsure[0].name}: {unsure[0].reason}, so agreement proves nothing")


def _contract_breach(graph: ir.Model, names: list[str], source: Outputs, target: Outputs) -> tuple[str, str] | None:
    """Structure first: number, names and dtypes of outputs, exactly; who broke it, and how."""
    if counts := [len(o) for o in source if len(o) != len(names)]:
        return "frontend", f"the source has {counts[0]} outputs, the graph {len(names)}"
    for position, value in enumerate(graph.graph.outputs):
        actual = _output_at(source[0], position)
        declared = dtype_name(value.dtype)
        if value.dtype is not None and declared != _dtype_name(actual):
            return (
                "frontend",
                f"output {value.name!r} is {declared} in the graph and {_dtype_name(actual)} in the source",
            )
    for outputs in target:
        if set(outputs) != set(names):
            return "backend", f"the outputs of the target are {list(outputs)}, those of the source {names}"
    return None


def _dtype_name(array: np.ndarray) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def _output_at(outputs: Mapping[str, np.ndarray], position: int) -> np.ndarray:
    return list(outputs.values())[position]
