"""Turns the outputs of source, shared graph and target on the same inputs into one verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from convert.differences import Difference
from convert.errors import ConvertError, Unsupported
from convert.graph.tensors import dtype_name
from convert.naming import Names
from convert.options import Options
from convert.parity.compare import (
    FACTOR,
    FLOAT64_BOUND,
    argmax_agreement,
    compare,
    compare_narrow,
    mark_doubtful,
    vacuous_reason,
)
from convert.parity.draws import FEW, MANY, group_draws, more_draws, pool_arrays, unsettled_feeds
from convert.parity.flipped_steps import is_of_flipped_steps
from convert.parity.inputs import Feed
from convert.parity.joined_parts import lost_part
from convert.parity.randomness import judge_random, random_outputs
from convert.parity.rounding_margins import is_within_noise
from convert.parity.sensitive import unexplained_error
from convert.parity.systematic_error import wrong_scale
from convert.parity.ties import is_tied, worst_elements
from convert.runners.process import Limits, Outputs
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict

if TYPE_CHECKING:
    from convert.parity.counterparts import Counterparts
    from convert.reference.quantized import NarrowedOutputs


_NO_ROUNDING = f"in float64 the graph is {{:.1e}} away from the source (bound {FLOAT64_BOUND:.0e}): not rounding"


@dataclass(frozen=True)
class VerifyMethod:
    """How to verify.

    `arrays` are the user's inputs by name or place (else `seeds` feeds are made); `rtol`/`atol` replace the bound;
    `profile` asks for the errors along the network as well; `save` is where the inputs go (`.npz`); `target` are the
    options to read the target with; `pairs` are names that belong together in two artefacts of the user's, source to
    target, and `counterparts` what was made of them. Without, `names` are what the target calls the graph's ends (None:
    as its format has them called). `theirs`: the target is a file of the user's, which may be broken.
    `declared`: what of the two runtimes is declared to differ.
    """

    arrays: Mapping[Any, np.ndarray] | None = None
    seeds: int = 3
    rtol: float | None = None
    atol: float | None = None
    limits: Limits = field(default_factory=Limits)
    profile: bool = False
    save: Path | None = None
    target: Options = field(default_factory=Options)
    pairs: Mapping[str, str] = field(default_factory=dict)
    counterparts: Counterparts | None = None
    names: Names | None = None
    theirs: bool = False
    declared: Sequence[Difference] = ()

    @property
    def ends(self) -> Counterparts | Names:
        """What belongs together at the ends of the graph and of the target."""
        return self.counterparts or self.names or Names()

    @property
    def tolerant(self) -> bool:
        """Whether tolerances replace the bound."""
        return self.rtol is not None or self.atol is not None


@dataclass(frozen=True)
class RunOutputs:
    """Outputs, one dict for each feed: of the source by precision, of the target, of the graph in float64 .

    narrowed: of a target with narrower numbers, what the graph computes with such: how far the rounded is from the
    exact is the noise floor then. refused: how the target did not take special inputs, which are left out then.
    """

    source: Mapping[str, Outputs | Unsupported]
    target: Outputs
    graph_float64: Outputs | Unsupported
    narrowed: NarrowedOutputs | None = None
    use: str = ""
    """The way of using the target that gave its outputs."""
    others: Mapping[str, Outputs] = field(default_factory=dict)
    """Of the target by other ways of using it, on the first feeds or all."""
    refused: str = ""
    stand_ins: int = 0
    """On so many of the last feeds the source did not run in float64: the graph's outputs stand in for its own."""


def without_feed(runs: RunOutputs, at: int) -> RunOutputs:
    """The outputs without those on one of the feeds."""
    count = len(runs.target)

    def rest(outputs: Outputs) -> Outputs:
        return [*outputs[:at], *outputs[at + 1 :]]

    source = {p: o if isinstance(o, Unsupported) else rest(o) for p, o in runs.source.items()}
    graph = runs.graph_float64
    others = {way: rest(o) for way, o in runs.others.items()}
    return replace(
        runs,
        source=source,
        target=rest(runs.target),
        graph_float64=graph if isinstance(graph, Unsupported) else rest(graph),
        others=others,
        stand_ins=runs.stand_ins - (at >= count - runs.stand_ins),
    )


def judge(graph: ir.Model, feeds: Sequence[Feed], runs: RunOutputs, method: VerifyMethod) -> Verdict:
    """The verdict from outputs that are at hand.

    Outputs are matched by position with the source, whose framework may not name them, and by name with the graph,
    whose names are the contract. Feeds that are draws of one another are compared as one.
    """
    groups = group_draws(feeds)
    heads = [feeds[g[0]] for g in groups]
    verdict = Verdict(PASS, feeds=[_feed_label(f, len(g)) for f, g in zip(heads, groups, strict=True)])
    names = [str(v.name) for v in graph.graph.outputs]
    verdict.reference, exact = reference_outputs(runs)
    wrong = _contract_breach(graph, names, _outputs(runs.source["float32"]), runs.target)
    if wrong:
        verdict.status, (verdict.guilty, verdict.reason) = FAIL, wrong
        return verdict
    random = random_outputs(graph)
    deployed = _outputs(runs.source["float32"])
    for position, name in enumerate(names):
        if name in random:
            sources = [_output_at(o, position) for o in deployed]
            verdict.outputs.append(judge_random(graph, name, random[name], sources, [o[name] for o in runs.target]))
            continue
        row = _compare_output(name, position, exact, runs, groups, method)
        references, targets = [_output_at(o, position) for o in exact], [o[name] for o in runs.target]
        first = [g[0] for g in groups]
        row.elements = worst_elements([references[i] for i in first], [targets[i] for i in first],
                                      [f.label for f in heads])  # fmt: skip
        alike = all(t.dtype == _output_at(o, position).dtype for t, o in zip(targets, deployed, strict=True))
        fails = row.status == FAIL and not method.tolerant and alike
        whole = fails and references[0].dtype.kind in "iub"
        if whole and is_tied(graph, name, feeds, references, targets, FACTOR, method.declared):
            row.status, row.reason = PASS, "what differs is picked among scores that rounding cannot tell apart"
        elif whole and is_within_noise(graph, name, feeds, references, targets, FACTOR):
            row.status, row.reason = PASS, "what differs was decided by less than rounding may change"
        elif fails and runs.narrowed is None and is_of_flipped_steps(graph, name, feeds, references, targets):
            row.status, row.reason = INCONCLUSIVE, f"{row.reason}: steps of a quantization that rounding decides"
        if row.status == PASS and runs.narrowed is not None:
            arrays = [feed.arrays for feed in feeds]
            why = lost_part(graph, graph.graph.outputs[position], arrays, references, targets) or wrong_scale(
                *_output_columns(name, position, exact, runs)
            )
            row.status, row.reason = (INCONCLUSIVE, why) if why else (PASS, row.reason)
        row.agreement = None if runs.narrowed is None else argmax_agreement(references, targets, row.noise)
        if not isinstance(runs.graph_float64, Unsupported) and exact is not runs.graph_float64:
            own = [o[name] for o in runs.graph_float64]
            errors = [unexplained_error(graph, name, *each) for each in zip(feeds, references, own, strict=True)]
            row.twin = max(errors)
            # Of scores that are equal in float64 the source takes another, where that is declared of it.
            integers = references[0].dtype.kind in "iub" and row.twin > FLOAT64_BOUND
            if integers and is_tied(graph, name, feeds, references, own, 0.0, method.declared):
                row.twin = 0.0
            if row.status == PASS and row.twin > FLOAT64_BOUND:
                where = feeds[int(np.argmax(errors))].label
                row.status, row.reason = FAIL, f"{_NO_ROUNDING.format(row.twin)}, on {where}"
        verdict.outputs.append(row)
    _conclude(verdict, [[_output_at(exact[g[0]], p) for g in groups] for p in range(len(names))], set(random))
    if exact is runs.graph_float64 and runs.narrowed is None and not method.tolerant:
        mark_doubtful(verdict)
    return verdict


def settle_verdict(
    verdict: Verdict,
    graph: ir.Model,
    feeds: Sequence[Feed],
    runs: RunOutputs,
    again: Callable[[Sequence[Feed]], RunOutputs],
    method: VerifyMethod,
) -> Verdict:
    """The verdict, made again on more draws where outputs may have failed by chance.

    again: runs everything on other feeds. What cannot be run on them leaves the verdict as it was.
    """
    if method.tolerant or not verdict.outputs:
        return verdict
    drawn = [d for feed in _unsettled(verdict, graph, feeds, runs) for d in more_draws(graph, feed, feeds)]
    if not drawn:
        return verdict
    every = [replace(f, edge=False) for f in (*feeds, *drawn)]  # what has run may not be left out now
    try:
        return judge(graph, every, again(every), method)
    except ConvertError:
        return verdict


def hold_other_uses(
    verdict: Verdict,
    graph: ir.Model,
    feeds: Sequence[Feed],
    runs: RunOutputs,
    again: Callable[[Sequence[Feed]], RunOutputs],
    method: VerifyMethod,
) -> Verdict:
    """The verdict, or a failure of another way of using the target, by more than chance may do.

    A failure in one way only says which. `again` runs everything on other feeds: where chance may have decided, a way
    that is run on every feed is judged on more draws. Where the first way passes, its own distance from the reference
    is rounding too, and another way, by other kernels, may be `FACTOR` times as far.
    """
    failed = verdict.status == FAIL
    for way, outputs in runs.others.items():
        used = [replace(feed, edge=False) for feed in feeds[: len(outputs)]]
        part, whole = _first_runs(replace(runs, target=outputs, others={}), len(outputs)), len(used) == len(feeds)
        other = judge(graph, used, part, method)
        by_bound = other.outputs and not method.tolerant
        fails = other.status == FAIL
        # Where a way is run on the first feed alone, nothing can be drawn: of few elements chance is granted.
        if fails and by_bound and (unsettled := _unsettled(other, graph, used, part, MANY if whole else FEW)):
            if whole and not failed:
                other = _drawn_again(way, other, graph, used, unsettled, again, method)
            fails = whole and not failed and other.status == FAIL
        if fails and not failed and by_bound:
            fails = judge(graph, used, _beside_first_way(part, graph, runs), method).status == FAIL
        if fails and not failed:
            other.reason = f"{way}: {other.reason}"
            return other
        if failed and not fails and whole:
            verdict.reason = f"{runs.use}: {verdict.reason}"
            return verdict
    return verdict


def _drawn_again(
    way: str,
    verdict: Verdict,
    graph: ir.Model,
    feeds: Sequence[Feed],
    unsettled: Sequence[Feed],
    again: Callable[[Sequence[Feed]], RunOutputs],
    method: VerifyMethod,
) -> Verdict:
    """The verdict on one way of using the target, made again on more draws of some feeds where they can be run."""
    every = [*feeds, *(replace(d, edge=False) for feed in unsettled for d in more_draws(graph, feed, feeds))]
    try:
        runs = again(every)
    except ConvertError:
        return verdict
    outputs = runs.others.get(way, [])
    if len(outputs) < len(every) or len(every) == len(feeds):
        return verdict
    return judge(graph, every, replace(runs, target=outputs, others={}), method)


def _beside_first_way(part: RunOutputs, graph: ir.Model, runs: RunOutputs) -> RunOutputs:
    """The runs of another way with the first way's outputs in place of the source as deployed."""
    names = [str(v.name) for v in graph.graph.outputs]
    first = [{n: outputs[n] for n in names} for outputs in runs.target[: len(part.target)]]
    return replace(part, source={**part.source, "float32": first})


def _first_runs(runs: RunOutputs, count: int) -> RunOutputs:
    """The outputs on the first feeds."""
    source = {p: o if isinstance(o, Unsupported) else o[:count] for p, o in runs.source.items()}
    exact, narrowed = runs.graph_float64, runs.narrowed
    if narrowed is not None:
        narrowed = replace(narrowed, exact=narrowed.exact[:count], rounded=narrowed.rounded[:count])
    kept = exact if isinstance(exact, Unsupported) else exact[:count]
    stand_ins = max(0, runs.stand_ins - (len(runs.target) - count))
    return RunOutputs(source, runs.target[:count], kept, narrowed, stand_ins=stand_ins)


def hold_stand_ins(
    verdict: Verdict, graph: ir.Model, feeds: Sequence[Feed], runs: RunOutputs, method: VerifyMethod
) -> None:
    """Name, in place, the feeds on which the graph is its own reference; INCONCLUSIVE where it may have been misread.

    The source ran in float64 on the feeds before. A source that is much further from the graph than the target is, on
    these, may be noisy or another function, as where it has no run in float64 at all.
    """
    if not runs.stand_ins or isinstance(runs.source["float64"], Unsupported):
        return
    first = len(feeds) - runs.stand_ins
    labels = "; ".join(feed.label for feed in feeds[first:])
    verdict.reference = f"{verdict.reference}; on {labels}: the shared graph in float64"
    verdict.notes.append(f"the source does not run in float64 on {labels}: there the graph is compared with itself")
    if verdict.status != PASS or method.tolerant or runs.narrowed is not None:
        return
    single, own = _outputs(runs.source["float32"])[first:], runs.graph_float64
    rest: dict[str, Outputs | Unsupported] = {"float32": single, "float64": Unsupported("it does not run")}
    tail = RunOutputs(rest, runs.target[first:], own if isinstance(own, Unsupported) else own[first:])
    doubt = Verdict(PASS, outputs=judge(graph, feeds[first:], tail, method).outputs)
    mark_doubtful(doubt)
    verdict.status, verdict.reason = doubt.status, doubt.reason or verdict.reason


def _unsettled(
    verdict: Verdict, graph: ir.Model, feeds: Sequence[Feed], runs: RunOutputs, most: int = MANY
) -> Sequence[Feed]:
    """The feeds on which outputs of up to `most` elements may have failed by chance."""
    _, exact = reference_outputs(runs)
    columns = [_output_columns(str(v.name), position, exact, runs) for position, v in enumerate(graph.graph.outputs)]
    return unsettled_feeds(verdict, feeds, columns, most)


def reference_outputs(runs: RunOutputs) -> tuple[str, Outputs]:
    """What the outputs are compared with, and what it is called."""
    exact = runs.source["float64"]
    if not isinstance(exact, Unsupported):
        return "the source in float64", exact
    if isinstance(runs.graph_float64, Unsupported):
        return "the source in float32 (no float64 to be had)", _outputs(runs.source["float32"])
    return "the shared graph in float64", runs.graph_float64


def _output_columns(
    name: str, position: int, exact: Outputs, runs: RunOutputs
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Reference, source and target of one output on each feed; of narrower targets exact and rounded graph, target."""
    targets = [o[name] for o in runs.target]
    sources = [_output_at(o, position) for o in _outputs(runs.source["float32"])]
    if runs.narrowed is None:
        return [_output_at(o, position) for o in exact], sources, targets
    rounded = [o[name].astype(s.dtype) for o, s in zip(runs.narrowed.rounded, sources, strict=True)]
    return [o[name] for o in runs.narrowed.exact], rounded, targets


def _compare_output(
    name: str, position: int, exact: Outputs, runs: RunOutputs, groups: Sequence[Sequence[int]], method: VerifyMethod
) -> OutputVerdict:
    if method.tolerant:
        runs = replace(runs, narrowed=None)
    references, sources, targets = (pool_arrays(c, groups) for c in _output_columns(name, position, exact, runs))
    if runs.narrowed is not None:
        return compare_narrow(name, references, sources, targets)
    return compare(name, references, sources, targets, rtol=method.rtol, atol=method.atol)


def _feed_label(feed: Feed, draws: int) -> str:
    return feed.label if draws == 1 else f"{feed.label}, with {draws - 1} more draws around it"


def _conclude(verdict: Verdict, references: Sequence[Sequence[np.ndarray]], random: Set[str]) -> None:
    for row in verdict.outputs:
        off = row.twin is not None and row.twin > FLOAT64_BOUND
        if row.status == FAIL and not verdict.guilty and row.twin is not None:
            verdict.guilty = "frontend" if off else "backend"
    failed = [r for r in verdict.outputs if r.status == FAIL]
    if failed:
        verdict.status, verdict.reason = FAIL, f"{failed[0].name}: {failed[0].reason}"
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
        verdict.status, verdict.reason = (
            INCONCLUSIVE,
            f"{unsure[0].name}: {unsure[0].reason}, so agreement proves nothing",
        )


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


def _outputs(found: Outputs | Unsupported) -> Outputs:
    if isinstance(found, Unsupported):
        raise found
    return found


def _output_at(outputs: Mapping[str, np.ndarray], position: int) -> np.ndarray:
    return list(outputs.values())[position]
