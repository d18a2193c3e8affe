"""The outputs of all runs on the same inputs, from which a verdict is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from convert.errors import Unsupported
from convert.notes import Note
from convert.parity.inputs.feeds import Feed
from convert.runners.process import Outputs
from convert.verdict import Verdict

if TYPE_CHECKING:
    from convert.parity.pairing.stored_weights import PlacedWeights
    from convert.reference.quantized import NarrowedOutputs


@dataclass(frozen=True)
class RunOutputs:
    """Outputs, one dict for each feed: of the source by precision, of the target, of the graph in float64.

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
    notes: Sequence[Note] = ()
    """Which other runtimes do not take the target."""
    stand_ins: int = 0
    """On so many of the last feeds the source did not run in float64: the graph's outputs stand in for its own."""
    placed: PlacedWeights | None = None
    """The graph with the weights of a target with narrower numbers, if all their places were found."""
    followed: Sequence[int] = ()
    """The places of sets on which the target follows the source and nothing was run in float64: the source's own
    outputs stand for the reference there."""


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


def first_runs(runs: RunOutputs, count: int) -> RunOutputs:
    """The outputs on the first feeds."""
    source = {p: o if isinstance(o, Unsupported) else o[:count] for p, o in runs.source.items()}
    exact = runs.graph_float64
    narrowed = None if runs.narrowed is None else runs.narrowed.first(count)
    kept = exact if isinstance(exact, Unsupported) else exact[:count]
    stand_ins = max(0, runs.stand_ins - (len(runs.target) - count))
    return RunOutputs(source, runs.target[:count], kept, narrowed, stand_ins=stand_ins, placed=runs.placed)


def outputs_of(found: Outputs | Unsupported) -> Outputs:
    """Return the outputs of a run; raises why there are none."""
    if isinstance(found, Unsupported):
        raise found
    return found


def reference_outputs(runs: RunOutputs) -> tuple[str, Outputs]:
    """Return the name and the outputs of the run that others are compared with."""
    exact = runs.source["float64"]
    if not isinstance(exact, Unsupported):
        return "the source in float64", exact
    if isinstance(runs.graph_float64, Unsupported):
        return "the source in float32 (no float64 to be had)", outputs_of(runs.source["float32"])
    return "the shared graph in float64", runs.graph_float64


def note_stand_ins(verdict: Verdict, feeds: Sequence[Feed], runs: RunOutputs) -> None:
    """Name, in place, the feeds on which the graph is its own reference: there the source has no float64 run."""
    if not runs.stand_ins or isinstance(runs.source["float64"], Unsupported):
        return
    labels = "; ".join(feed.label for feed in feeds[len(feeds) - runs.stand_ins :])
    verdict.reference = f"{verdict.reference}; on {labels}: the shared graph in float64"
    verdict.notes.append(
        Note(
            f"the source does not run in float64 on {labels}: there the graph is compared with itself",
            code="float64-unavailable",
        )
    )
