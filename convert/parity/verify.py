"""Runs source, shared graph and target on the same inputs, has them judged, and looks for the place of a defect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from convert import plugin
from convert import stored as stored_as
from convert.activity import doing, limited_time
from convert.errors import BadInput, BrokenPackage, ConvertError, ResourceLimit, Unsupported, UsageError
from convert.graph.metadata import MODE_KEY
from convert.graph.mismatches import first_mismatch
from convert.graph.names import names_in_target
from convert.graph.tensors import ROUNDOFF, dtype_name
from convert.graph.values import inverse_permutation, quantizes
from convert.notes import Note
from convert.options import Options
from convert.parity.compare.declared_ends import hold_declared_ends
from convert.parity.compare.followed import FollowedSets, followed_sets, later_sets, take_followed
from convert.parity.compare.outputs import FACTOR, LEAST
from convert.parity.compare.overflow import without_overflow
from convert.parity.compare.randomness import random_outputs
from convert.parity.compare.special_verdict import SpecialRun, is_float64_needed, judge_special, take_special
from convert.parity.evidence import RunOutputs, note_stand_ins, outputs_of
from convert.parity.explain.rounding import Estimates
from convert.parity.generation.decoders import hold_generation
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
from convert.parity.runs.as_used import start
from convert.parity.runs.latency import add_latency
from convert.parity.runs.memory import is_scarce
from convert.parity.runs.repeats import (
    child_results,
    compare_draws,
    kept_outputs,
    transpose_arrays,
    unrepeatable_sides,
)
from convert.parity.runs.source_runs import RunFailure, run_where_it_runs
from convert.passes.layout.boundary import Moves, boundary_permutations
from convert.runners.process import Outputs, execute, run_all, with_stand_ins
from convert.source import Source
from convert.text import counted
from convert.verdict import FAIL, INCONCLUSIVE, PASS, Divergence, Verdict

if TYPE_CHECKING:
    from convert.parity.pairing.stored_weights import PlacedWeights
    from convert.reference.quantized import NarrowedOutputs

_TURNS = 20
"""A verification may take so many times in this process what one run of a model may take in its own."""


def unavailable_reason(*kinds: str) -> str:
    """Why artefacts of these kinds cannot be run here, or an empty string."""
    for kind in kinds:
        runner = plugin.runner_for(kind)
        missing = f"no runner executes a {kind}" if runner is None else runner.available()
        if missing:
            return missing
    return ""


def verify(
    source: Source, target: Source, graph: ir.Model, options: Options, method: VerifyMethod | None = None
) -> Verdict:
    """Judge whether `target` computes what `source` does. `graph` is the shared graph that was read from `source`.

    Both are run as deployed and the source also in float64, each in a child process, while the graph is evaluated in
    float64 here. Raises `ConvertError` where the source cannot be run at all, `BadInput` where the user's target is
    broken.
    """
    if nested := [str(v.name) for v in (*graph.graph.inputs, *graph.graph.outputs) if not _is_tensor(v)]:
        reason = f"sequences and optionals at the ends of a model are not compared: {', '.join(nested)}"
        return Verdict(INCONCLUSIVE, reason)
    method = method or VerifyMethod()
    with limited_time(_TURNS * method.limits.seconds):
        verdict = _verify(source, target, graph, options, method)
        if method.arrays is not None:  # the user's choice
            return verdict

        def judge_at(sizes: Sequence[Mapping[str, int]], spans: inputs.Spans) -> Verdict:
            plain = replace(method, profile=False, time=False, save=None, seeds=len(sizes))
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
        """How the source stores its weights, if it rounds what meets them to whole steps while it runs."""
        stored = _storage_format(self.source, self.graph)
        return stored if stored in stored_as.STEPS_AT_RUN_TIME else ""

    @cached_property
    def permutations(self) -> Moves:
        """The permutation of each end whose layout the user has chosen."""
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
    """Judge the pair on the usual inputs, or on inputs of these sizes and integers alone."""
    method = replace(method, target=replace(method.target, rules=method.target.rules or options.rules))
    names = method.names or names_in_target(graph, plugin.names_of_kind(target.kind))
    of_target, of_source = plugin.target_differences(target.kind), plugin.source_differences(source.kind)
    method = replace(method, names=names, declared=(*of_target, *of_source))
    denormals = not any(difference.flushes for difference in of_target)
    pair = _Pair(source, target, graph, options, method, stored := _storage_format(target, graph))
    feeds = default_feeds(graph, options, method, denormals, sizes, spans, large=not stored)
    if method.save is not None:
        save_feeds(method.save, [f for f in feeds if not f.edge])
    feeds = [f for f in feeds if not (f.special and stored)]  # no scale is fit for an infinity
    if stored in stored_as.CALIBRATED and method.arrays is None:
        reason = "activations are in 8 bits, in ranges that were calibrated: give inputs that are like those (--inputs)"
        return Verdict(INCONCLUSIVE, reason, stored=stored)

    def run(feeds: Sequence[Feed]) -> RunOutputs:
        return _run_everything(pair, feeds)

    def draw(sizes: Sequence[Mapping[str, int]], spans: inputs.Spans) -> list[Feed]:
        return default_feeds(graph, options, method, denormals, sizes, spans, alike=True, large=not stored)

    try:
        runs, feeds, notes = run_where_it_runs(run, draw, feeds, source, graph, options, method)
    except RunFailure as failed:
        if method.theirs and failed.guilty == "backend" and isinstance(failed.error, BadInput):
            raise failed.error from None
        return failed_run_verdict(failed.error, graph, feeds, failed.guilty)
    feeds, runs, followed = take_followed(feeds, runs)
    feeds, runs, special = take_special(feeds, runs)
    feeds, runs, remarks = without_overflow(graph, feeds, without_foreign_float64(graph, runs))
    every = [*feeds, *followed.feeds]
    if method.save is not None:
        save_feeds(method.save, every)
    verdict = judge(_evidence(pair, feeds, runs, followed))
    verdict.feeds += [feed.label for feed in followed.feeds]
    verdict.stored, verdict.covered, verdict.sets = stored, describe_coverage(graph, every), describe_sets(graph, every)
    verdict.limit = 0.0 if method.tolerant or stored else FACTOR
    verdict.notes += [*notes, *remarks, *runs.notes]
    note_stand_ins(verdict, feeds, runs)
    if followed.feeds:
        verdict.covered += f"; in float64 on {len(feeds)} of the sets"
    judged = replace(runs, target=[*runs.target, *followed.target])
    _judge_further(pair, verdict, every, judged, special, drawn=method.arrays is None and not sizes)
    _locate_defects(pair, verdict, feeds)
    if method.time and feeds:
        arrays = feeds[0].arrays
        theirs = method.ends.feed(transpose_arrays(arrays, pair.permutations))
        sides = (source, arrays, options), (target, theirs, method.target)
        add_latency(verdict, *sides, feeds[0], method.limits)
    return verdict


def _evidence(pair: _Pair, feeds: Sequence[Feed], runs: RunOutputs, followed: FollowedSets) -> Evidence:
    """Return what `judge` needs of the runs, with what is known of how source and target store numbers."""
    stored = pair.stored
    form, slice_roundoff, stored_estimates = _simulated_form(stored, runs.placed), LEAST, None
    if form in stored_as.VALUES:
        slice_roundoff = ROUNDOFF[stored_as.VALUES[form]]
    if runs.placed is not None and stored_as.is_weights_alone(form):
        slice_roundoff, stored_estimates = 0.0, Estimates(runs.placed.model, feeds)
    return Evidence(
        pair.graph,
        feeds,
        runs,
        pair.method,
        Estimates(pair.graph, feeds),
        steps=pair.steps,
        parts_of_narrow=stored not in (*stored_as.CALIBRATED, *stored_as.STEPS_AT_RUN_TIME),
        stored_estimates=stored_estimates,
        followed_sources=followed.source,
        slice_roundoff=slice_roundoff,
    )


def _judge_further(
    pair: _Pair,
    verdict: Verdict,
    feeds: Sequence[Feed],
    runs: RunOutputs,
    special: SpecialRun | None,
    *,
    drawn: bool,
) -> None:
    """Lower the verdict, in place, by all that is looked at besides the numbers on the usual inputs.

    drawn: whether the inputs are the usual ones.
    """
    source, target, graph, options, method = pair.source, pair.target, pair.graph, pair.options, pair.method
    if drawn and verdict.status == PASS and (unreached := unreached_branches(graph, feeds)):
        verdict.lower(INCONCLUSIVE, f"no input reached {unreached[0]}")
    hold_declared_ends(verdict, source, target, graph, runs.target, options.layout, method)
    if special is not None and verdict.status != FAIL:
        if is_float64_needed(special, graph):
            special = _with_float64(special, source, graph, runs, options, method)
        of_target, of_source = plugin.target_differences(target.kind), plugin.source_differences(source.kind)
        judge_special(verdict, graph, special, of_target, of_source)
    if verdict.status != FAIL and verdict.outputs and not method.tolerant and random_outputs(graph):
        compare_draws(verdict, source, target, graph, feeds, options, method)
    hold_generation(verdict, source, target, graph, options, method)
    mode = graph.metadata_props.get(MODE_KEY)
    if mode:
        verdict.lower(INCONCLUSIVE, mode)


def _locate_defects(pair: _Pair, verdict: Verdict, feeds: Sequence[Feed]) -> None:
    """Add, in place, where a failure begins, and the errors along the network if they are asked for."""
    source, target, graph, options, method = pair.source, pair.target, pair.graph, pair.options, pair.method
    if verdict.status == FAIL or any(row.undecided for row in verdict.outputs):
        found = unrepeatable_sides(source, target, graph, _worst_feed(verdict, feeds), options, method)
        verdict.notes += [Note(text, code="unrepeatable") for text in found]
    if verdict.status == FAIL and verdict.outputs:
        verdict.divergence = _divergence_place(pair, verdict, feeds)
    if method.profile and verdict.outputs and not pair.permutations:
        from convert.parity.locate.profile import profile_errors

        verdict.profile = profile_errors(graph, target, _worst_feed(verdict, feeds), method.target, method.ends)


def _is_tensor(value: ir.Value) -> bool:
    return not isinstance(value.type, (ir.SequenceType, ir.OptionalType))


def runs_of_every_feed(uses: Mapping[str, Outputs]) -> list[Outputs]:
    """The outputs of those ways to run the target that are run on more than the first feed; the first way always is."""
    return [outputs for place, outputs in enumerate(uses.values()) if len(outputs) > 1 or place == 0]


def _run_everything(pair: _Pair, feeds: Sequence[Feed]) -> RunOutputs:
    """Everything on the same inputs; not on those at the edge, which come last, where the source does not take them.

    Raises `ConvertError` where the source does not run, `RunFailure` where it does and something else does not.
    """
    special = next((i for i, f in enumerate(feeds) if f.special), None)
    later = [] if pair.stored or pair.steps or pair.method.tolerant else later_sets(pair.graph, feeds)
    deployed = [*later, *([] if special is None else [special])]
    expected, graph_outputs, got, notes = _run_sides(pair, feeds, deployed)
    edges = any(f.edge for f in feeds)
    # A runtime that lacks a kernel lacks it on both sides: what that means, the target's error tells.
    if isinstance(expected, ConvertError) and not (isinstance(expected, Unsupported) and isinstance(got, Unsupported)):
        if edges:  # which may have taken the whole process with it
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
        raise got  # what is lacking is no difference between two models
    if isinstance(got, ConvertError):
        raise RunFailure("backend", got)
    assert isinstance(expected, dict)
    runs = _collected(pair, feeds, expected, graph_outputs, got, notes)
    return _with_float64_where_it_decides(pair, feeds, runs, later)


Expected = dict[str, Outputs | Unsupported]
"""The outputs of a source by precision."""


def _run_sides(
    pair: _Pair, feeds: Sequence[Feed], deployed: Sequence[int]
) -> tuple[Expected | ConvertError, Outputs | ConvertError, dict[str, Outputs] | ConvertError, list[Note]]:
    """Return the outputs of source, graph and target on the feeds, or why there are none; and notes on the target.

    Source and target run in processes of their own, both beside the graph if memory holds them. deployed: the places of
    feeds on which nothing runs in float64.
    """
    method, arrays, edges = pair.method, [f.arrays for f in feeds], sum(f.edge for f in feeds)
    theirs = execute(pair.source, arrays, ("float32", "float64"), pair.options, method.limits, edges, deployed=deployed)
    if scarce := is_scarce(pair.graph, method.limits):
        theirs.finish()
    given = [method.ends.feed(transpose_arrays(a, pair.permutations)) for a in arrays]
    ours = start(pair.target, given, method.target, method.limits, edges, at_once=not scarce)
    try:
        exact = [f for i, f in enumerate(feeds) if i not in deployed]
        plain, plain_edges = [f.arrays for f in exact], sum(f.edge for f in exact)
        graph_outputs = _graph_outputs(pair.graph, plain, plain_edges, method.limits.seconds)
        with doing("running the source", size := f"{counted(len(arrays), 'set')} of inputs"):
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
    """Return the outputs of all runs under the names and in the layout of the graph, on the feeds that the source took.

    Raises `RunFailure` where graph or target did not take one of these.
    """
    graph, method, stored = pair.graph, pair.method, pair.stored
    back = {n: inverse_permutation(p) for n, p in pair.permutations.items()}
    name_outputs = method.ends.name_outputs
    uses = {way: [transpose_arrays(name_outputs(o), back) for o in outputs] for way, outputs in got.items()}
    if stored == stored_as.HALF_VALUES:
        uses = {way: _in_dtypes_of(graph, outputs) for way, outputs in uses.items()}
    use, target_outputs = next(iter(uses.items()))
    count = len(outputs_of(expected["float32"]))
    for guilty, outputs in (("frontend", graph_outputs), *(("backend", o) for o in runs_of_every_feed(uses))):
        if not isinstance(outputs, ConvertError) and len(outputs) < count:
            raise RunFailure(guilty, ConvertError(f"the source takes {feeds[-1].label}, and this does not"))
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
        _narrowed_outputs(graph, [f.arrays for f in feeds[:count]], stored, placed),
        use,
        {way: o[:count] for way, o in list(uses.items())[1:]},
        notes=notes,
        stand_ins=0 if isinstance(double, Unsupported) else max(0, count - len(double)),
        placed=placed,
    )


def _with_float64_where_it_decides(
    pair: _Pair, feeds: Sequence[Feed], runs: RunOutputs, later: Sequence[int]
) -> RunOutputs:
    """Return the runs with source and graph in float64 on those of the sets `later` that the target does not follow on.

    Raises as `_with_float64_on` does.
    """
    if isinstance(runs.source["float64"], Unsupported) and isinstance(runs.graph_float64, Unsupported):
        return runs  # there is no reference on any set
    later = [place for place in later if place < len(runs.target)]
    followed = followed_sets(runs, later)
    places = [place for place in later if place not in followed]
    runs = replace(runs, followed=followed)
    return _with_float64_on(pair, feeds, places, runs) if places else runs


def _with_float64_on(pair: _Pair, feeds: Sequence[Feed], places: Sequence[int], runs: RunOutputs) -> RunOutputs:
    """Return the runs with those in float64 on the sets of these places, as far as there are such on others.

    The graph stands in for sets at the edge that the source does not take in float64. Raises `RunFailure` if the graph
    does not run, and what the source says if it does not.
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
    """Return outputs with others at these places, as many as there are."""
    found = dict(zip(places, others, strict=False))
    return [found.get(place, each) for place, each in enumerate(outputs)]


def _with_float64(
    special: SpecialRun, source: Source, graph: ir.Model, runs: RunOutputs, options: Options, method: VerifyMethod
) -> SpecialRun:
    """With what source and graph make of the special inputs in float64, where they have it and take them."""
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
    """Whether the others ran on all feeds that the source ran on; a lacking kernel or precision does not count."""
    if isinstance(source, ConvertError):
        return True
    taken: list[Any] = []
    for other in others:  # a target has several ways of use, some of them on one feed only
        ways = list(other.values()) if isinstance(other, dict) else [other]
        taken += [ways[0], *(o for o in ways[1:] if len(o) > 1)]
    if any(isinstance(o, ConvertError) and not isinstance(o, Unsupported) for o in taken):
        return False
    count = len(outputs_of(source["float32"]))
    return all(len(o) >= count for o in taken if not isinstance(o, Unsupported))


def _completed(found: Outputs, graph_outputs: Outputs | Unsupported, count: int) -> Outputs | Unsupported:
    """Outputs for `count` feeds: a run in float64 may have ended early, and the graph stands in for the rest."""
    if len(found) >= count:
        return found[:count]
    if isinstance(graph_outputs, Unsupported):
        return Unsupported("the source runs in float64 on some of the inputs only")
    return [*found, *graph_outputs[len(found) :]]


def failed_run_verdict(error: ConvertError, graph: ir.Model, feeds: Sequence[Feed], guilty: str = "backend") -> Verdict:
    """What does not run is a failure, unless the target's runtime lacks kernels for the dtypes that the model has."""
    floats = {v.dtype for n in graph.graph.all_nodes() for v in n.outputs if v.dtype is not None}
    unusual = sorted(dtype_name(d) for d in floats if d.is_floating_point() and d != ir.DataType.FLOAT)
    labels = [f.label for f in feeds]
    if isinstance(error, Unsupported) and unusual:
        reason = f"the target's runtime here lacks kernels for a model in {', '.join(unusual)}: {error.sentence}"
        return Verdict(INCONCLUSIVE, reason, feeds=labels)
    what = "target" if guilty == "backend" else "shared graph"
    if guilty == "frontend" and (found := first_mismatch(graph)):
        guilty, what = "", f"model contradicts itself, at {found}; its graph"
    return Verdict(FAIL, f"the {what} does not run: {error.sentence}", guilty=guilty, feeds=labels)


def _worst_feed(verdict: Verdict, feeds: Sequence[Feed]) -> Feed:
    """The inputs on which a failure is worst; without one the smallest, which will do."""
    worst = [e for row in verdict.outputs if row.status == FAIL for e in row.elements]
    label = max(worst, key=lambda e: e.error).feed if worst else ""
    smallest = min(feeds, key=lambda f: sum(a.size for a in f.arrays.values()))
    return next((f for f in feeds if f.label == label), smallest)


def _divergence_place(pair: _Pair, verdict: Verdict, feeds: Sequence[Feed]) -> Divergence | str:
    """Return the first difference: of the target from the graph, or of the graph from the source if it is at fault."""
    feed, method = _worst_feed(verdict, feeds), pair.method
    if pair.permutations and verdict.guilty != "frontend":
        return "the target has another layout than the graph: without --layout the place is found"
    if verdict.guilty == "frontend":
        distance = max((r.twin for r in verdict.outputs if r.twin is not None), default=np.inf)
        return locate_source(pair.graph, pair.source, feed, distance, pair.options, method.limits)
    return locate(pair.graph, pair.target, feed, method.target, method.ends)


def _graph_outputs(
    graph: ir.Model, arrays: Sequence[Mapping[str, np.ndarray]], edges: int, seconds: float
) -> Outputs | ConvertError:
    """The shared graph in float64, by the ONNX runner's reference executor, in this process: it is our own code."""
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
    """How the target says that it stores numbers narrower than the graph; what the graph has itself does not count."""
    tell = getattr(plugin.runner_for(target.kind), "stored", None)
    if tell is None or target.path is None or quantizes(graph):
        return ""
    own: set[str] = set()
    if {v.dtype for v in graph.graph.initializers.values()} & {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}:
        own |= {stored_as.HALF_VALUES, stored_as.BRAIN, stored_as.BRAIN_VALUES}
    if any(node.op_type == "DequantizeLinear" for node in graph.graph.all_nodes()):
        own.add(stored_as.WEIGHT_STEPS)
    stored = str(tell(target))
    return "" if stored in own else stored


def _in_dtypes_of(graph: ir.Model, outputs: Outputs) -> Outputs:
    """Outputs that half precision has made narrower, in the dtypes that they have in the graph."""
    floats = {str(v.name) for v in graph.graph.outputs if v.dtype == ir.DataType.FLOAT}

    def widen(name: str, array: np.ndarray) -> np.ndarray:
        return array.astype(np.float32) if array.dtype == np.float16 and name in floats else array

    return [{name: widen(name, array) for name, array in found.items()} for found in outputs]


def _placed_weights(graph: ir.Model, target: Source, stored: str) -> PlacedWeights | None:
    """The graph with the weights that a narrow target stores; None where they are not known or not all have a place."""
    read = getattr(plugin.runner_for(target.kind), "stored_weights", None)
    if not stored or read is None:
        return None
    from convert.parity.pairing.stored_weights import place_weights
    from convert.reference.quantized import as_stored

    placed = place_weights(as_stored(graph), read(target))
    return None if placed.unpaired else placed


def _simulated_form(stored: str, placed: PlacedWeights | None) -> str:
    """The form in which the graph is simulated: narrow constants of an operator round its values."""
    values = {stored_as.HALF: stored_as.HALF_VALUES, stored_as.BRAIN: stored_as.BRAIN_VALUES}
    return values.get(stored, stored) if placed is not None and placed.scalars else stored


def _narrowed_outputs(
    graph: ir.Model, arrays: Sequence[Mapping[str, np.ndarray]], stored: str, placed: PlacedWeights | None = None
) -> NarrowedOutputs | None:
    if not stored:
        return None
    from convert.reference.quantized import simulate

    return simulate(graph, arrays, _simulated_form(stored, placed), None if placed is None else placed.model)
