"""Outputs of all runs on the same inputs, on which a verdict is based."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from convert.errors import Unsupported
from convert.outcome.notes import Note
from convert.outcome.verdict import Verdict
from convert.parity.inputs.feeds import Feed
from convert.processes.run_here import Outputs

if TYPE_CHECKING:
    from convert.parity.pairing.stored_weights import PlacedWeights
    from convert.reference.quantized import NarrowedOutputs


@dataclass(frozen=True)
class RunOutputs:
    """Outputs, one dict per feed: of the source by precision, of the target, and of the graph in float64.

    narrowed: for a target with fewer bits, the graph's outputs with and without that rounding; their difference is the
    noise floor. refused: the target's error on special inputs, which are then left out.
    """

    source: Mapping[str, Outputs | Unsupported]
    target: Outputs
    graph_float64: Outputs | Unsupported
    narrowed: NarrowedOutputs | None = None
    use: str = ""
    """The way of running the target that gave `target`."""
    others: Mapping[str, Outputs] = field(default_factory=dict)
    """Outputs of the target in other ways of running it, on the first feeds or on all."""
    refused: str = ""
    notes: Sequence[Note] = ()
    """Other runtimes that do not accept the target."""
    stand_ins: int = 0
    """Number of the last feeds on which the source has no float64 run, so that the graph's outputs replace it."""
    placed: PlacedWeights | None = None
    """The graph with the weights of a target with narrower numbers, if all their places were found."""
    followed: Sequence[int] = ()
    """Indices of sets on which the target follows the source and nothing ran in float64.

    The source's own outputs are the reference there.
    """


def runs_on(runs: RunOutputs, places: Sequence[int]) -> RunOutputs:
    """Return the outputs on the feeds at these indices, which are in order."""

    def kept(outputs: Outputs) -> Outputs:
        return [outputs[place] for place in places if place < len(outputs)]

    return replace(
        runs,
        source={p: o if isinstance(o, Unsupported) else kept(o) for p, o in runs.source.items()},
        target=kept(runs.target),
        graph_float64=runs.graph_float64 if isinstance(runs.graph_float64, Unsupported) else kept(runs.graph_float64),
        narrowed=None if runs.narrowed is None else runs.narrowed.on(places),
        others={way: kept(o) for way, o in runs.others.items()},
        stand_ins=sum(place >= len(runs.target) - runs.stand_ins for place in places),
    )


def outputs_of(found: Outputs | Unsupported) -> Outputs:
    """Return the outputs of a run; raise its error if there are none."""
    if isinstance(found, Unsupported):
        raise found
    return found


def reference_outputs(runs: RunOutputs) -> tuple[str, Outputs]:
    """Return the name and the outputs of the reference run."""
    exact = runs.source["float64"]
    if not isinstance(exact, Unsupported):
        return "the source in float64", exact
    if isinstance(runs.graph_float64, Unsupported):
        return "the source in float32 (no float64 to be had)", outputs_of(runs.source["float32"])
    return "the shared graph in float64", runs.graph_float64


def note_stand_ins(verdict: Verdict, feeds: Sequence[Feed], runs: RunOutputs) -> Verdict:
    """Return the verdict with a note on sets without a float64 run of the source, where the graph is the reference."""
    if not runs.stand_ins or isinstance(runs.source["float64"], Unsupported):
        return verdict
    labels = "; ".join(feed.label for feed in feeds[len(feeds) - runs.stand_ins :])
    text = f"the source does not run in float64 on {labels}: there the graph is compared with itself"
    reference = f"{verdict.reference}; on {labels}: the shared graph in float64"
    return replace(verdict, reference=reference, notes=[*verdict.notes, Note(text, code="float64-unavailable")])
