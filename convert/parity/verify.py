"""Run source, shared graph and target on the same inputs, judge the outputs, and locate defects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from convert import plugin
from convert.activity import doing, limited_time
from convert.errors import BadInput, BrokenPackage, ConvertError, ResourceLimit, Unsupported, UsageError
from convert.graph.metadata import MODE_KEY
from convert.graph.mismatches import first_mismatch
from convert.graph.names import names_in_target
from convert.graph.tensors import ROUNDOFF, dtype_name
from convert.graph.values import inverse_permutation, quantizes
from convert.outcome.notes import Note
from convert.outcome.text import counted
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Divergence, Finding, Verdict
from convert.parity.compare.declared_signature import compare_declared_signature
from convert.parity.compare.dim_names import false_dim_names
from convert.parity.compare.followed import FollowedSets, followed_sets, later_sets, take_followed
from convert.parity.compare.outputs import FACTOR, MIN_TOLERANCE
from convert.parity.compare.overflow import without_overflow
from convert.parity.compare.randomness import random_outputs
from convert.parity.compare.selection import selection_problem
from convert.parity.compare.special_verdict import SpecialRun, is_float64_needed, judge_special, take_special
from convert.parity.evidence import RunOutputs, note_stand_ins, outputs_of
from convert.parity.explain.rounding import Estimates
from convert.parity.generation.decoders import judge_generation
from convert.parity.inputs import feeds as inputs
from convert.parity.inputs.beyond_claims import compare_beyond_claims
from convert.parity.inputs.branches import unreached_branches
from convert.parity.inputs.coverage import describe_coverage, describe_sets
from convert.parity.inputs.default_feeds import default_feeds
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.saved import save_feeds
from convert.parity.judge import Evidence, judge, without_foreign_float64
from convert.parity.locate.places import locate, locate_source
from convert.parity.method import VerifyMethod
from convert.parity.pairing.selected import Selected, find_selected
from convert.parity.runs.as_used import start
from convert.parity.runs.latency import measure_latency
from convert.parity.runs.memory import is_scarce
from convert.parity.runs.repeats import (
    child_results,
    compare_distributions,
    kept_outputs,
    transpose_arrays,
    unrepeatable_sides,
)
from convert.parity.runs.source_runs import RunFailure, run_where_it_runs
from convert.passes.detections import behind_suppression, candidates_of, rows_settings
from convert.passes.layout.boundary import Moves, boundary_permutations
from convert.processes.process import execute
from convert.processes.run_here import Outputs, run_all, with_stand_ins
from convert.request import stored as stored_as
from convert.request.calibration import parse_method
from convert.request.detections import (
    ALONE,
    BESIDE,
    CANDIDATE_NAMES,
    CANDIDATES,
    DETECTIONS,
    INNER,
    Detections,
    InnerTensors,
)
from convert.request.options import Options
from convert.request.source import Source
from convert.request.storage import CALIBRATION_METHOD

if TYPE_CHECKING:
    from convert.parity.pairing.stored_weights import PlacedWeights
    from convert.reference.quantized import NarrowedOutputs

_TURNS = 20
"""Time limit of a verification in this process, as a multiple of the limit of one run in its own process."""


def unavailable_reason(*kinds: str) -> str:
    """Return why artefacts of these kinds cannot be run here, or an empty string."""
    for kind in kinds:
        runner = plugin.runner_for(kind)
        missing = f"no runner executes a {kind}" if runner is None else runner.available()
        if missing:
            return missing
    return ""


def verify(
    source: Source, target: Source, graph: ir.Model, options: Options, method: VerifyMethod | None = None
) -> Verdict:
    """Judge whether `target` computes the same as `source`. graph: the shared graph that was read from `source`.

    Both are run as deployed, and the source also in float64, each in a child process. The graph is evaluated in float64
    in this process. Raises `ConvertError` if the source cannot be run at all, `BadInput` if the user's target is
    broken.
    """
    if nested := [str(v.name) for v in (*graph.graph.inputs, *graph.graph.outputs) if not _is_tensor(v)]:
        reason = f"sequences and optionals at the ends of a model are not compared: {', '.join(nested)}"
        return Verdict(INCONCLUSIVE, reason)
    method = method or VerifyMethod()
    with limited_time(_TURNS * method.limits.seconds):
        if DETECTIONS in options.extra:
            return _verify_detections(source, target, graph, options, method)
        verdict = _verify(source, target, graph, options, method)
        if method.arrays is not None:  # the user's choice
            return verdict

        def judge_at(sizes: Sequence[Mapping[str, int]], spans: inputs.Spans) -> Verdict:
            plain = replace(method, profile=False, time=False, save=None, reduce=None, seeds=len(sizes))
            return _verify(source, target, graph, options, plain, sizes, spans)

        return compare_beyond_claims(verdict, graph, judge_at)


@dataclass(frozen=True)
class _Pair:
    """Two models to compare, and how. options: of the source. stored: how the target stores numbers."""

    source: Source
    target: Source
    graph: ir.Model
    options: Options
    method: VerifyMethod
    stored: str

    @cached_property
    def steps(self) -> str:
        """The storage format of the source's weights if it rounds activations to integer steps at run time, else ''."""
        stored = _storage_format(self.source, self.graph)
        return stored if stored in stored_as.STEPS_AT_RUN_TIME else ""

    @cached_property
    def integers(self) -> bool:
        """Return whether one of the two has integer kernels for what the graph quantizes."""
        return quantizes(self.graph) and any(_computes_with_integers(side) for side in (self.source, self.target))

    @cached_property
    def permutations(self) -> Moves:
        """The permutation of each input and output whose layout the user has chosen."""
        return boundary_permutations(self.graph, self.options.layout)


def _verify(
    source: Source,
    target: Source,
    graph: ir.Model,
    options: Options,
    method: VerifyMethod,
    sizes: Sequence[Mapping[str, int]] = (),
    spans: inputs.Spans = inputs.NO_SPANS,
) -> Verdict:
    """Judge the pair on the usual inputs, or only on inputs with these sizes and integers."""
    method = _method_for_pair(source, target, graph, options, method)
    denormals = not any(difference.flushes for difference in plugin.target_differences(target.kind))
    stored = _storage_format(target, graph)
    pair = _Pair(source, target, graph, options, method, stored)
    feeds = default_feeds(graph, options, method, denormals, sizes, spans, large=not stored)
    if method.save is not None:
        save_feeds(method.save, [f for f in feeds if not f.edge])
    feeds = [f for f in feeds if not (f.special and stored)]  # no scale fits an infinity
    if stored in stored_as.CALIBRATED and method.arrays is None:
        reason = "activations are integers, in ranges that were calibrated: give inputs that are like those (--inputs)"
        return Verdict(INCONCLUSIVE, reason, stored=stored)

    def run(feeds: Sequence[Feed]) -> RunOutputs:
        return _run_everything(pair, feeds)

    def draw(sizes: Sequence[Mapping[str, int]], spans: inputs.Spans) -> list[Feed]:
        return default_feeds(graph, options, method, denormals, sizes, spans, alike=True, large=not stored)

    try:
        runs, feeds, notes = run_where_it_runs(run, draw, feeds, source, graph, options, method)
    except RunFailure as failed:
        if method.theirs and failed.at_fault == "backend" and isinstance(failed.error, BadInput):
            raise failed.error from None
        return _reduced(pair, failed_run_verdict(failed.error, graph, feeds, failed.at_fault), feeds)
    feeds, runs, followed = take_followed(feeds, runs)
    feeds, runs, special = take_special(feeds, runs)
    feeds, runs, remarks = without_overflow(graph, feeds, without_foreign_float64(graph, runs))
    every = [*feeds, *followed.feeds]
    if method.save is not None:
        save_feeds(method.save, every)
    verdict = judge(_evidence(pair, feeds, runs, followed))
    verdict = _judged_before_suppression(pair, [*feeds, *followed.feeds], [*runs.target, *followed.target], verdict)
    verdict = replace(
        verdict,
        feeds=[*verdict.feeds, *(feed.label for feed in followed.feeds)],
        stored=stored,
        covered=describe_coverage(graph, every)
        + (f"; in float64 on {len(feeds)} of the sets" if followed.feeds else ""),
        sets=describe_sets(graph, every),
        limit=0.0 if method.tolerant or stored else FACTOR,
        notes=[*verdict.notes, *notes, *remarks, *runs.notes],
    )
    verdict = note_stand_ins(verdict, feeds, runs)
    outputs = replace(runs, target=[*runs.target, *followed.target])
    compared = Compared(pair, every, outputs, special, drawn=method.arrays is None and not sizes)
    for check in CHECKS:
        verdict = check(compared, verdict)
    for step in (_located, _with_narrow_layers, _timed, _reduced):
        verdict = step(pair, verdict, feeds)
    return verdict


def _verify_detections(
    source: Source, target: Source, graph: ir.Model, options: Options, method: VerifyMethod
) -> Verdict:
    """Judge detections. If they differ, or are of 8 bits, this takes two steps: what they are selected from, and the
    selection.
    """
    verdict = None
    if _storage_format(target, graph) not in stored_as.CALIBRATED:
        verdict = _verify(source, target, graph, options, method)
        if verdict.status == PASS:
            return verdict
    found = _verify_before_selection(source, target, graph, options, method)
    return found if found.outputs or verdict is None else verdict


def _verify_before_selection(
    source: Source, target: Source, graph: ir.Model, options: Options, method: VerifyMethod
) -> Verdict:
    """Judge the boxes and scores that detections are selected from, and the selection from the target's own ones."""

    def asking(given: Options, what: str) -> Options:
        return replace(given, extra={**given.extra, CANDIDATES: what})

    alone = _method_before_selection(method, asking(method.target, ALONE))
    verdict = _verify(source, target, candidates_of(graph), asking(options, ALONE), alone)
    if verdict.status == FAIL or not verdict.outputs:
        return verdict
    beside = replace(method, target=asking(method.target, BESIDE))
    beside = _method_for_pair(source, target, graph, options, beside)
    pair = _Pair(source, target, graph, options, beside, verdict.stored)
    feeds = default_feeds(graph, options, beside, False, large=False)
    given = [beside.ends.feed(transpose_arrays(f.arrays, pair.permutations)) for f in feeds if not f.special]
    found = execute(target, given, ("float32",), beside.target, beside.limits).results()["float32"]
    if isinstance(found, Unsupported):
        raise found
    for feed, outputs in zip(feeds, found, strict=False):
        detections = beside.ends.name_outputs({n: y for n, y in outputs.items() if n not in CANDIDATE_NAMES})
        if problem := selection_problem(outputs, detections, options.extra[DETECTIONS]):
            reason = f"detections are not those of the target's own boxes and scores: {problem}, on {feed.label}"
            return replace(verdict.after(Finding(FAIL, reason)), at_fault="backend")
    return verdict.after(Finding(notes=(_TWO_STEPS,)))


_TWO_STEPS = Note(
    "rounding decides which of nearly equal boxes is selected: boxes and scores were compared with those of the "
    "source, and the selection with that from the target's own boxes and scores",
    code="compared-before-selection",
)


def _method_before_selection(method: VerifyMethod, target: Options) -> VerifyMethod:
    """Return the method for comparing the boxes and scores before a selection. target: options for running it."""
    found = replace(method, target=target, names=None, profile=False, time=False, save=None, reduce=None)
    if method.counterparts is None:
        return found
    same = {name: name for name in CANDIDATE_NAMES}
    pairs = replace(method.counterparts, outputs=same, order=CANDIDATE_NAMES, kept=(0, 1))
    return replace(found, counterparts=pairs)


def _judged_before_suppression(pair: _Pair, feeds: Sequence[Feed], targets: Outputs, verdict: Verdict) -> Verdict:
    """Return the verdict; if outputs behind NonMaxSuppression differ, it is judged in two steps where possible.

    The first step compares the boxes and scores that the target selects from with those of the graph, which must be
    those of the source in float64. In the second step the graph computes the outputs from the target's own boxes,
    scores and rows.
    """
    differs = verdict.status != PASS and verdict.outputs and verdict.at_fault != "frontend"
    if not differs or pair.method.tolerant or any(row.twin is None for row in verdict.outputs):
        return verdict
    how = rows_settings(pair.graph)
    if how is None or not getattr(plugin.runner_for(pair.target.kind), "INNER_TENSORS", False):
        return verdict
    before = candidates_of(pair.graph)
    selected = _selected_by_target(pair, before, feeds, how)
    if selected is None:
        return verdict
    source, numbers = Source("onnx-object", model=before), InnerTensors(selected.numbers)
    options = replace(Options(), layout=pair.options.layout, extra={CANDIDATES: ALONE})
    method = pair.method
    target = replace(method.target, extra={**method.target.extra, INNER: numbers})
    found = _verify(source, pair.target, before, options, _method_before_selection(method, target))
    if found.status == FAIL or not found.outputs:
        return found if found.outputs else verdict
    found = replace(found, reference=verdict.reference)
    if selected.problem:
        reason = f"rows are not those of the target's own boxes and scores: {selected.problem}"
        return replace(found.after(Finding(FAIL, reason)), at_fault="backend")
    rest = _judged_behind_suppression(pair, feeds, targets, selected.arrays)
    return found.after(Finding(rest.status, rest.reason, rest.at_fault, notes=(*rest.notes, _TWO_STEPS)))


def _selected_by_target(pair: _Pair, before: ir.Model, feeds: Sequence[Feed], how: Detections) -> Selected | None:
    """Return what the target selects from and what it selects, on the feeds; None if its tensors do not show it."""
    method, arrays = pair.method, [feed.arrays for feed in feeds]
    exact = _graph_outputs(before, arrays, 0, method.limits.seconds)
    if isinstance(exact, ConvertError):
        return None
    sizes = frozenset(run[name].size for run in exact for name in CANDIDATE_NAMES)
    options = replace(method.target, extra={**method.target.extra, INNER: InnerTensors(sizes=sizes)})
    given = [method.ends.feed(transpose_arrays(a, pair.permutations)) for a in arrays]
    try:
        found = execute(pair.target, given, ("float32",), options, method.limits).results()["float32"]
    except ConvertError:
        return None
    return None if isinstance(found, Unsupported) else find_selected(exact, found, how)


def _judged_behind_suppression(
    pair: _Pair, feeds: Sequence[Feed], targets: Outputs, selected: Sequence[Mapping[str, np.ndarray]]
) -> Verdict:
    """Return the verdict on the target's outputs against what the graph computes from the target's own selection."""
    graph = behind_suppression(pair.graph)
    source = Source("onnx-object", model=graph)
    feeds = [replace(f, arrays={**f.arrays, **own}) for f, own in zip(feeds, selected, strict=True)]
    arrays = [feed.arrays for feed in feeds]
    answer = execute(source, arrays, ("float32", "float64"), Options(), pair.method.limits).results()
    placed = _placed_weights(graph, pair.target, pair.stored)
    narrowed = _narrowed_outputs(graph, arrays, pair.stored, placed, CALIBRATION_METHOD.of(pair.options))
    runs = RunOutputs(answer, targets, answer["float64"], narrowed, placed=placed)
    return judge(_evidence(replace(pair, source=source, graph=graph), feeds, runs, FollowedSets()))


def _method_for_pair(
    source: Source, target: Source, graph: ir.Model, options: Options, method: VerifyMethod
) -> VerifyMethod:
    """Return the method with what depends on the pair: the target's rules and names, and the declared differences."""
    return replace(
        method,
        target=replace(method.target, rules=method.target.rules or options.rules),
        names=method.names or names_in_target(graph, plugin.names_of_kind(target.kind)),
        declared=(*plugin.target_differences(target.kind), *plugin.source_differences(source.kind)),
    )


def _evidence(pair: _Pair, feeds: Sequence[Feed], runs: RunOutputs, followed: FollowedSets) -> Evidence:
    """Return the evidence for `judge`: the runs, and how source and target store numbers."""
    stored = pair.stored
    form, slice_roundoff, stored_estimates = _simulated_form(stored, runs.placed), MIN_TOLERANCE, None
    if form in stored_as.VALUES:
        slice_roundoff = ROUNDOFF[stored_as.VALUES[form]]
    if runs.placed is not None and stored_as.is_weights_alone(form):
        slice_roundoff, stored_estimates = 0.0, Estimates(runs.placed.model, feeds)
    return Evidence(
        pair.graph,
        feeds,
        runs,
        pair.method,
        Estimates(pair.graph, feeds, integers=pair.integers),
        steps=pair.steps,
        parts_of_narrow=stored not in (*stored_as.CALIBRATED, *stored_as.STEPS_AT_RUN_TIME),
        stored_estimates=stored_estimates,
        followed_sources=followed.source,
        slice_roundoff=slice_roundoff,
        stored=stored,
    )


@dataclass(frozen=True)
class Compared:
    """Data for the further checks: a pair, its inputs with the outputs of all runs, and the run on special inputs.

    drawn: whether the inputs are the default random ones.
    """

    pair: _Pair
    feeds: Sequence[Feed]
    runs: RunOutputs
    special: SpecialRun | None
    drawn: bool


def reaches_branches(compared: Compared, verdict: Verdict) -> Verdict:
    """Return the verdict: INCONCLUSIVE if no input takes one side of a branch that depends on numbers."""
    if not compared.drawn or verdict.status != PASS:
        return verdict
    unreached = unreached_branches(compared.pair.graph, compared.feeds)
    return verdict.after(Finding(INCONCLUSIVE, f"no input reached {unreached[0]}")) if unreached else verdict


def check_declared_signature(compared: Compared, verdict: Verdict) -> Verdict:
    """Return the verdict: FAIL if a target that convert made declares other inputs or outputs than it has."""
    pair = compared.pair
    if not verdict.outputs or CANDIDATES in pair.options.extra:  # the selection is judged on its own
        return verdict
    sides, outputs = (pair.source, pair.target, pair.graph), compared.runs.target
    dtypes = not verdict.stored
    return verdict.after(compare_declared_signature(*sides, outputs, pair.options.layout, pair.method, dtypes=dtypes))


def names_dims_truly(compared: Compared, verdict: Verdict) -> Verdict:
    """Return the verdict with notes on outputs whose dims have other sizes than their names say."""
    texts = false_dim_names(compared.pair.graph, compared.feeds, compared.runs.target)
    return verdict.after(Finding(notes=tuple(Note(text, code="false-dim") for text in texts)))


def keeps_special_values(compared: Compared, verdict: Verdict) -> Verdict:
    """Return the verdict: FAIL if NaN or infinities differ, unless a declared difference or a kernel explains it."""
    pair, special = compared.pair, compared.special
    if special is None or verdict.status == FAIL:
        return verdict
    if is_float64_needed(special, pair.graph):
        special = _with_float64(special, pair.source, pair.graph, compared.runs, pair.options, pair.method)
    of_target, of_source = plugin.target_differences(pair.target.kind), plugin.source_differences(pair.source.kind)
    found = judge_special(pair.graph, special, of_target, of_source)
    verdict = verdict if special.refused else replace(verdict, feeds=[*verdict.feeds, special.label])
    # Outputs that prove nothing, such as random ones, do not prove a failure on special values either.
    return verdict.after(found if verdict.status == PASS else Finding(notes=found.notes))


def check_distributions(compared: Compared, verdict: Verdict) -> Verdict:
    """Return the verdict: FAIL if random outputs of source and target have different distributions."""
    pair = compared.pair
    if verdict.status == FAIL or not verdict.outputs or pair.method.tolerant or not random_outputs(pair.graph):
        return verdict
    return compare_distributions(
        verdict, pair.source, pair.target, pair.graph, compared.feeds, pair.options, pair.method
    )


def generates_alike(compared: Compared, verdict: Verdict) -> Verdict:
    """Return the verdict: FAIL if a decoder with a cache generates other tokens than its source."""
    pair = compared.pair
    return judge_generation(verdict, pair.source, pair.target, pair.graph, pair.options, pair.method)


def is_in_eval_mode(compared: Compared, verdict: Verdict) -> Verdict:
    """Return the verdict: INCONCLUSIVE if the source was saved in training mode."""
    mode = compared.pair.graph.metadata_props.get(MODE_KEY)
    return verdict.after(Finding(INCONCLUSIVE, mode)) if mode else verdict


CHECKS: tuple[Callable[[Compared, Verdict], Verdict], ...] = (
    reaches_branches,
    check_declared_signature,
    names_dims_truly,
    keeps_special_values,
    check_distributions,
    generates_alike,
    is_in_eval_mode,
)
"""Checks besides the numbers on the usual inputs. Expensive ones are skipped if the verdict is FAIL already."""


def _located(pair: _Pair, verdict: Verdict, feeds: Sequence[Feed]) -> Verdict:
    """Return the verdict with the place where a failure begins, and with errors along the network on request."""
    source, target, graph, options, method = pair.source, pair.target, pair.graph, pair.options, pair.method
    if verdict.status == FAIL or any(row.undecided for row in verdict.outputs):
        found = unrepeatable_sides(source, target, graph, _worst_feed(verdict, feeds), options, method)
        verdict = verdict.after(Finding(notes=tuple(Note(text, code="unrepeatable") for text in found)))
    if verdict.status == FAIL and verdict.outputs:
        verdict = replace(verdict, divergence=_divergence_place(pair, verdict, feeds))
    if method.profile and verdict.outputs and not pair.permutations:
        from convert.parity.locate.profile import profile_errors

        profile = profile_errors(graph, target, _worst_feed(verdict, feeds), method.target, method.ends)
        verdict = replace(verdict, profile=profile)
    return verdict


def _timed(pair: _Pair, verdict: Verdict, feeds: Sequence[Feed]) -> Verdict:
    """Return the verdict with the latency of both sides, on request."""
    method = pair.method
    if not method.time or not feeds:
        return verdict
    arrays = feeds[0].arrays
    theirs = method.ends.feed(transpose_arrays(arrays, pair.permutations))
    sides = (pair.source, arrays, pair.options), (pair.target, theirs, method.target)
    found = measure_latency(*sides, feeds[0], method.limits)
    return verdict.after(Finding(notes=(found,))) if isinstance(found, Note) else replace(verdict, latency=found)


def _with_narrow_layers(pair: _Pair, verdict: Verdict, feeds: Sequence[Feed]) -> Verdict:
    """Return the verdict with the layers that lose most if activations are in 8 bits, and notes on mixed ranges."""
    if pair.stored not in stored_as.CALIBRATED or not verdict.outputs:
        return verdict
    from convert.parity.locate.narrow_layers import layers_of_narrow

    arrays, method = _worst_feed(verdict, feeds).arrays, pair.method
    with doing("comparing layers"), limited_time(method.limits.seconds):
        found = layers_of_narrow(pair.graph, pair.target, arrays, pair.permutations, method.target, method.ends)
    return replace(verdict, layers=found[0]).after(Finding(notes=tuple(found[1])))


def _reduced(pair: _Pair, verdict: Verdict, feeds: Sequence[Feed]) -> Verdict:
    """Return the verdict; on request, a failure gets the smallest part that still fails."""
    method = pair.method
    if method.reduce is None or verdict.status != FAIL or not feeds:
        return verdict
    from convert.parity.locate.reduce import Failure, reduce_failure

    feed = _worst_feed(verdict, feeds)
    failure = Failure(pair.graph, pair.target, pair.options, method.target, method.ends, feed, verdict, method.limits)
    with doing("reducing the failure"):
        return replace(verdict, reduced=reduce_failure(failure, method.reduce, verify))


def _is_tensor(value: ir.Value) -> bool:
    return not isinstance(value.type, (ir.SequenceType, ir.OptionalType))


def runs_of_every_feed(uses: Mapping[str, Outputs]) -> list[Outputs]:
    """Return the outputs of the first way of running the target, and of others that ran on more than the first feed."""
    return [outputs for place, outputs in enumerate(uses.values()) if len(outputs) > 1 or place == 0]


def _run_everything(pair: _Pair, feeds: Sequence[Feed]) -> RunOutputs:
    """Return the outputs of all runs on the same inputs, without edge sets (which come last) that the source rejects.

    Raises `ConvertError` if the source does not run, `RunFailure` if it does and the graph or the target does not.
    """
    special = next((i for i, f in enumerate(feeds) if f.special), None)
    later = [] if pair.stored or pair.steps or pair.method.tolerant else later_sets(pair.graph, feeds)
    deployed = [*later, *([] if special is None else [special])]
    expected, graph_outputs, got, notes = _run_sides(pair, feeds, deployed)
    edges = any(f.edge for f in feeds)
    # If the runtimes of both sides lack a kernel, the target's error decides what follows.
    if isinstance(expected, ConvertError) and not (isinstance(expected, Unsupported) and isinstance(got, Unsupported)):
        if edges:  # an edge set may have ended the whole process
            return _run_everything(pair, feeds[:-1])
        raise expected
    if not isinstance(expected, ConvertError) and not isinstance(graph_outputs, ConvertError):
        graph_outputs = with_stand_ins(graph_outputs, deployed, expected["float32"])
    if special is not None and not _takes_all(expected, [graph_outputs, got]):
        runs = _run_everything(pair, [f for f in feeds if not f.special])
        return replace(runs, refused="the source takes them, and the target does not")
    limited = next((found for found in (graph_outputs, got) if isinstance(found, ResourceLimit)), None)
    if limited is not None:
        if edges:
            return _run_everything(pair, feeds[:-1])
        raise limited
    if isinstance(graph_outputs, ConvertError) and not isinstance(graph_outputs, Unsupported):
        raise RunFailure("frontend", graph_outputs)
    if isinstance(got, (UsageError, BrokenPackage)):
        raise got  # missing packages or options are no difference between models
    if isinstance(got, ConvertError):
        raise RunFailure("backend", got)
    assert isinstance(expected, dict)
    runs = _collected(pair, feeds, expected, graph_outputs, got, notes)
    return _with_float64_where_it_decides(pair, feeds, runs, later)


Expected = dict[str, Outputs | Unsupported]
"""Outputs of a source by precision."""


def _run_sides(
    pair: _Pair, feeds: Sequence[Feed], deployed: Sequence[int]
) -> tuple[Expected | ConvertError, Outputs | ConvertError, dict[str, Outputs] | ConvertError, list[Note]]:
    """Return the outputs of source, graph and target on the feeds, or their errors, and notes on the target.

    Source and target run in processes of their own, at the same time as the graph if memory suffices. deployed: indices
    of feeds that do not run in float64.
    """
    method, arrays, edges = pair.method, [f.arrays for f in feeds], sum(f.edge for f in feeds)
    options = replace(pair.options, extra={**pair.options.extra, stored_as.UNROUNDED: True})
    theirs = execute(pair.source, arrays, ("float32", "float64"), options, method.limits, edges, deployed=deployed)
    if scarce := is_scarce(pair.graph, method.limits):
        theirs.finish()
    given = [method.ends.feed(transpose_arrays(a, pair.permutations)) for a in arrays]
    ours = start(pair.target, given, method.target, method.limits, edges, at_once=not scarce)
    try:
        exact = [f for i, f in enumerate(feeds) if i not in deployed]
        plain, plain_edges = [f.arrays for f in exact], sum(f.edge for f in exact)
        graph_outputs = _graph_outputs(pair.graph, plain, plain_edges, method.limits.seconds)
        size = f"{counted(len(arrays), 'set')} of inputs"
        with doing("running the source", size):
            expected = child_results(theirs, "source")
        with doing("running the target", size):
            got = ours.results()
    finally:
        theirs.stop()
        ours.stop()
    return expected, graph_outputs, got, ours.notes


def _collected(
    pair: _Pair,
    feeds: Sequence[Feed],
    expected: Expected,
    graph_outputs: Outputs | Unsupported,
    got: Mapping[str, Outputs],
    notes: Sequence[Note],
) -> RunOutputs:
    """Return the outputs of all runs with the graph's names and layout, on the feeds that the source accepted.

    Raises `RunFailure` if graph or target rejected one of these.
    """
    graph, method, stored = pair.graph, pair.method, pair.stored
    back = {n: inverse_permutation(p) for n, p in pair.permutations.items()}
    name_outputs = method.ends.name_outputs
    uses = {way: [transpose_arrays(name_outputs(o), back) for o in outputs] for way, outputs in got.items()}
    if stored == stored_as.HALF_VALUES:
        uses = {way: _in_dtypes_of(graph, outputs) for way, outputs in uses.items()}
    use, target_outputs = next(iter(uses.items()))
    count = len(outputs_of(expected["float32"]))
    for at_fault, outputs in (("frontend", graph_outputs), *(("backend", o) for o in runs_of_every_feed(uses))):
        if not isinstance(outputs, ConvertError) and len(outputs) < count:
            raise RunFailure(at_fault, ConvertError(f"the source takes {feeds[-1].label}, and this does not"))
    graph_outputs = graph_outputs if isinstance(graph_outputs, Unsupported) else graph_outputs[:count]
    kept: dict[str, Outputs | Unsupported] = {
        p: o
        if isinstance(o, Unsupported)
        else _completed([kept_outputs(e, method.counterparts) for e in o], graph_outputs, count)
        for p, o in expected.items()
    }
    double = expected["float64"]
    placed = _placed_weights(graph, pair.target, stored)
    return RunOutputs(
        kept,
        target_outputs[:count],
        graph_outputs,
        _narrowed_outputs(
            graph, [f.arrays for f in feeds[:count]], stored, placed, CALIBRATION_METHOD.of(pair.options)
        ),
        use,
        {way: o[:count] for way, o in list(uses.items())[1:]},
        notes=notes,
        stand_ins=0 if isinstance(double, Unsupported) else max(0, count - len(double)),
        placed=placed,
    )


def _with_float64_where_it_decides(
    pair: _Pair, feeds: Sequence[Feed], runs: RunOutputs, later: Sequence[int]
) -> RunOutputs:
    """Return the runs with float64 runs of source and graph added on the sets of `later` where the target departs.

    Raises like `_with_float64_on`.
    """
    if isinstance(runs.source["float64"], Unsupported) and isinstance(runs.graph_float64, Unsupported):
        return runs  # no set has a reference
    later = [place for place in later if place < len(runs.target)]
    followed = followed_sets(runs, later)
    places = [place for place in later if place not in followed]
    runs = replace(runs, followed=followed)
    return _with_float64_on(pair, feeds, places, runs) if places else runs


def _with_float64_on(pair: _Pair, feeds: Sequence[Feed], places: Sequence[int], runs: RunOutputs) -> RunOutputs:
    """Return the runs with float64 runs added on the sets at these indices, for each side that runs in float64.

    The graph's outputs replace the source's on edge sets that the source rejects in float64. Raises `RunFailure` if the
    graph does not run, and the source's error if the source does not.
    """
    exact, own, limits = runs.source["float64"], runs.graph_float64, pair.method.limits
    arrays, edges = [feeds[place].arrays for place in places], sum(feeds[place].edge for place in places)
    if not isinstance(own, Unsupported):
        found = _graph_outputs(pair.graph, arrays, 0, limits.seconds)
        if isinstance(found, ConvertError):
            raise RunFailure("frontend", found)
        own = _put(own, places, found)
    if isinstance(exact, Unsupported):
        return replace(runs, graph_float64=own)
    answer = child_results(execute(pair.source, arrays, ("float64",), pair.options, limits, edges), "source")
    if isinstance(answer, ConvertError):
        raise answer
    double = [kept_outputs(o, pair.method.counterparts) for o in outputs_of(answer["float64"])]
    missing = places[len(double) :]
    double += [] if isinstance(own, Unsupported) else [own[place] for place in missing]
    source = {**runs.source, "float64": _put(exact, places, double)}
    return replace(runs, source=source, graph_float64=own, stand_ins=runs.stand_ins + len(missing))


def _put(outputs: Outputs, places: Sequence[int], others: Outputs) -> Outputs:
    """Return `outputs` with `others` at these indices, as many as there are."""
    found = dict(zip(places, others, strict=False))
    return [found.get(place, each) for place, each in enumerate(outputs)]


def _with_float64(
    special: SpecialRun, source: Source, graph: ir.Model, runs: RunOutputs, options: Options, method: VerifyMethod
) -> SpecialRun:
    """Return the special run with the outputs of source and graph in float64, as far as they run there.

    If the graph rejects the inputs, `refused` says so.
    """
    arrays = [special.arrays or {}]
    if not isinstance(runs.graph_float64, Unsupported):
        found = _graph_outputs(graph, arrays, 0, method.limits.seconds)
        if isinstance(found, ConvertError) and not isinstance(found, Unsupported):
            return replace(special, refused="the source takes them, and the graph's executor does not")
        special = replace(special, graph=None if isinstance(found, Unsupported) else found[0])
    if isinstance(runs.source["float64"], Unsupported):
        return special
    exact = child_results(execute(source, arrays, ("float64",), options, method.limits), "source")
    if isinstance(exact, ConvertError) or isinstance(exact["float64"], Unsupported):
        return special
    return replace(special, exact=kept_outputs(exact["float64"][0], method.counterparts))


def _takes_all(source: Any, others: Sequence[Any]) -> bool:
    """Return whether the others ran on all feeds that the source ran on, ignoring missing kernels and precisions."""
    if isinstance(source, ConvertError):
        return True
    taken: list[Any] = []
    for other in others:  # a target has several ways, some of them with one feed only
        ways = list(other.values()) if isinstance(other, dict) else [other]
        taken += [ways[0], *(o for o in ways[1:] if len(o) > 1)]
    if any(isinstance(o, ConvertError) and not isinstance(o, Unsupported) for o in taken):
        return False
    count = len(outputs_of(source["float32"]))
    return all(len(o) >= count for o in taken if not isinstance(o, Unsupported))


def _completed(found: Outputs, graph_outputs: Outputs | Unsupported, count: int) -> Outputs | Unsupported:
    """Return outputs for `count` feeds; if a float64 run ended early, the graph's outputs fill the rest."""
    if len(found) >= count:
        return found[:count]
    if isinstance(graph_outputs, Unsupported):
        return Unsupported("the source runs in float64 on some of the inputs only")
    return [*found, *graph_outputs[len(found) :]]


def failed_run_verdict(
    error: ConvertError, graph: ir.Model, feeds: Sequence[Feed], at_fault: str = "backend"
) -> Verdict:
    """Return FAIL for a run that failed; INCONCLUSIVE if the target's runtime lacks kernels for the model's dtypes."""
    floats = {v.dtype for n in graph.graph.all_nodes() for v in n.outputs if v.dtype is not None}
    unusual = sorted(dtype_name(d) for d in floats if d.is_floating_point() and d != ir.DataType.FLOAT)
    labels = [f.label for f in feeds]
    if isinstance(error, Unsupported) and unusual:
        reason = f"the target's runtime here lacks kernels for a model in {', '.join(unusual)}: {error.sentence}"
        return Verdict(INCONCLUSIVE, reason, feeds=labels)
    what = "target" if at_fault == "backend" else "shared graph"
    if at_fault == "frontend" and (found := first_mismatch(graph)):
        at_fault, what = "", f"model contradicts itself, at {found}; its graph"
    return Verdict(FAIL, f"the {what} does not run: {error.sentence}", at_fault=at_fault, feeds=labels)


def _worst_feed(verdict: Verdict, feeds: Sequence[Feed]) -> Feed:
    """Return the feed with the largest error of a failure; without a failure, the smallest feed."""
    worst = [e for row in verdict.outputs if row.status == FAIL for e in row.elements]
    label = max(worst, key=lambda e: e.error).feed if worst else ""
    smallest = min(feeds, key=lambda f: sum(a.size for a in f.arrays.values()))
    return next((f for f in feeds if f.label == label), smallest)


def _divergence_place(pair: _Pair, verdict: Verdict, feeds: Sequence[Feed]) -> Divergence | str:
    """Return where the target departs from the graph, or the graph from the source if the frontend is at fault."""
    feed, method = _worst_feed(verdict, feeds), pair.method
    if pair.permutations and verdict.at_fault != "frontend":
        return "the target has another layout than the graph: without --layout the place is found"
    if verdict.at_fault == "frontend":
        distance = max((r.twin for r in verdict.outputs if r.twin is not None), default=np.inf)
        return locate_source(pair.graph, pair.source, feed, distance, pair.options, method.limits)
    return locate(pair.graph, pair.target, feed, method.target, method.ends)


def _graph_outputs(
    graph: ir.Model, arrays: Sequence[Mapping[str, np.ndarray]], edges: int, seconds: float
) -> Outputs | ConvertError:
    """Return the outputs of the shared graph in float64; it runs in this process, because the executor is our
    own code.
    """
    runner = plugin.runners().get("onnx")
    if runner is None:
        return Unsupported("no ONNX runner is installed")
    source = Source("onnx-object", model=graph)
    try:
        with doing("running the graph in float64", f"{counted(len(arrays), 'set')} of inputs"), limited_time(seconds):
            found = run_all(runner, source, arrays, ("float64",), Options(), edges)["float64"]
    except ConvertError as error:
        return error
    return found


def _storage_format(target: Source, graph: ir.Model) -> str:
    """Return the storage format of the target if it is narrower than the graph's own numbers, else ''."""
    tell = getattr(plugin.runner_for(target.kind), "stored", None)
    if tell is None or target.path is None or quantizes(graph):
        return ""
    own: set[str] = set()
    if {v.dtype for v in graph.graph.initializers.values()} & {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}:
        own |= {stored_as.HALF, stored_as.HALF_VALUES, stored_as.BRAIN, stored_as.BRAIN_VALUES}
    if any(node.op_type == "DequantizeLinear" for node in graph.graph.all_nodes()):
        own.add(stored_as.WEIGHT_STEPS)
    stored = str(tell(target))
    return "" if stored in own else stored


def _computes_with_integers(side: Source) -> bool:
    """Return whether a model has kernels on quantized integers, which its runner reads from the file."""
    tell = getattr(plugin.runner_for(side.kind), "computes_with_integers", None)
    return tell is not None and side.path is not None and bool(tell(side))


def _in_dtypes_of(graph: ir.Model, outputs: Outputs) -> Outputs:
    """Return outputs with float16 ones cast to float32 if they are float32 in the graph."""
    floats = {str(v.name) for v in graph.graph.outputs if v.dtype == ir.DataType.FLOAT}

    def widen(name: str, array: np.ndarray) -> np.ndarray:
        return array.astype(np.float32) if array.dtype == np.float16 and name in floats else array

    return [{name: widen(name, array) for name, array in found.items()} for found in outputs]


def _placed_weights(graph: ir.Model, target: Source, stored: str) -> PlacedWeights | None:
    """Return the graph with the weights that a narrow target stores; None if some have no place or are not known."""
    read = getattr(plugin.runner_for(target.kind), "stored_weights", None)
    if not stored or read is None:
        return None
    from convert.parity.pairing.stored_weights import place_weights
    from convert.reference.quantized import as_stored

    placed = place_weights(as_stored(graph), read(target))
    return None if placed.unpaired else placed


def _simulated_form(stored: str, placed: PlacedWeights | None) -> str:
    """Return the format in which to simulate the graph: narrow constants of an operator round its values."""
    values = {stored_as.HALF: stored_as.HALF_VALUES, stored_as.BRAIN: stored_as.BRAIN_VALUES}
    return values.get(stored, stored) if placed is not None and placed.scalars else stored


def _narrowed_outputs(
    graph: ir.Model,
    arrays: Sequence[Mapping[str, np.ndarray]],
    stored: str,
    placed: PlacedWeights | None,
    ranges: str = CALIBRATION_METHOD.default,
) -> NarrowedOutputs | None:
    """Return what the graph computes with its numbers stored as `stored`; None if they are not narrower."""
    if not stored:
        return None
    from convert.reference.quantized import simulate

    form, weights = _simulated_form(stored, placed), None if placed is None else placed.model
    return simulate(graph, arrays, form, weights, parse_method(ranges))
