"""Run both sides many times on the same inputs, to find random outputs and to compare their distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError, Unsupported
from convert.graph.values import inverse_permutation
from convert.outcome.notes import Note
from convert.outcome.verdict import Finding, Verdict
from convert.parity.compare.distribution import SAMPLES, judge_distributions
from convert.parity.compare.randomness import describe_repeats, random_outputs
from convert.parity.evidence import outputs_of
from convert.parity.inputs.cost import is_small
from convert.parity.inputs.feeds import Feed
from convert.parity.method import VerifyMethod
from convert.passes.layout.boundary import Moves, boundary_permutations
from convert.processes.process import RunningChild, execute
from convert.processes.run_here import Outputs
from convert.request.options import Options
from convert.request.source import Source

if TYPE_CHECKING:
    from convert.parity.pairing.counterparts import Counterparts


def unrepeatable_sides(
    source: Source, target: Source, graph: ir.Model, feed: Feed, options: Options, method: VerifyMethod
) -> list[str]:
    """Describe outputs that differ in two runs of a side on the same inputs, although the graph has no randomness."""
    random = [i for i, v in enumerate(graph.graph.outputs) if v.name in random_outputs(graph)]
    found = []
    for who, outputs in _repeated_runs(source, target, graph, feed, 2, options, method).items():
        if not isinstance(outputs, ConvertError):
            found += [f"the {who} gives {text}" for text in describe_repeats(outputs[0], outputs[1], random)]
    return found


def compare_distributions(
    verdict: Verdict,
    source: Source,
    target: Source,
    graph: ir.Model,
    feeds: Sequence[Feed],
    options: Options,
    method: VerifyMethod,
) -> Verdict:
    """Return the verdict after comparing the distributions of random outputs, on the set with the most elements."""
    feed = max(feeds, key=lambda f: sum(a.size for a in f.arrays.values()))
    if not is_small(graph, feed):
        text = "random outputs are not compared in distribution: that takes too many runs of this model"
        return verdict.after(Finding(notes=(Note(text, code="not-compared"),)))
    found = _repeated_runs(source, target, graph, feed, SAMPLES, options, method)
    ours, theirs = found["source"], found["target"]
    if isinstance(ours, ConvertError) or isinstance(theirs, ConvertError):
        return verdict
    back = {n: inverse_permutation(p) for n, p in boundary_permutations(graph, options.layout).items()}
    named = [transpose_arrays(method.ends.name_outputs(o), back) for o in theirs]
    return judge_distributions(verdict, graph, [kept_outputs(o, method.counterparts) for o in ours], named)


def _repeated_runs(
    source: Source, target: Source, graph: ir.Model, feed: Feed, count: int, options: Options, method: VerifyMethod
) -> dict[str, Outputs | ConvertError]:
    """Return the outputs of `source` and `target`, each in `count` runs on the same inputs, or their error."""
    moved = transpose_arrays(feed.arrays, boundary_permutations(graph, options.layout))
    moved = method.ends.feed(moved)
    found: dict[str, Outputs | ConvertError] = {}
    for who, artefact, arrays, own in (
        ("source", source, feed.arrays, options), ("target", target, moved, method.target)
    ):  # fmt: skip
        running = execute(artefact, [arrays] * count, ("float32",), own, method.limits)
        outputs = child_results(running, who)
        running.stop()
        found[who] = outputs if isinstance(outputs, ConvertError) else outputs_of(outputs["float32"])
    return found


def transpose_arrays(arrays: Mapping[str, np.ndarray], moved: Moves) -> dict[str, np.ndarray]:
    """Return arrays in another layout; arrays of another rank are unchanged, and their shape will show the error."""
    return {n: a.transpose(moved[n]) if n in moved and a.ndim == len(moved[n]) else a for n, a in arrays.items()}


def kept_outputs(outputs: dict[str, np.ndarray], pairs: Counterparts | None) -> dict[str, np.ndarray]:
    """Return the outputs that are compared. If the source returns too few, return all; the judge reports that."""
    if pairs is None or max(pairs.kept, default=-1) >= len(outputs):
        return outputs
    items = list(outputs.items())
    return dict(items[i] for i in pairs.kept)


def child_results(running: RunningChild, who: str) -> dict[str, Outputs | Unsupported] | ConvertError:
    try:
        return running.results()
    except ConvertError as error:
        error.message = f"{error.message} (the {who} of the comparison)"
        return error
