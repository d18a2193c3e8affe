"""Reduce a failure to the smallest part of the graph that still fails, as files for a bug report.

Each candidate is written as ONNX, read back, converted to the target's format and verified there, on the values that it
gets in the failing run. The part that is written has therefore failed by itself. If the target was changed after its
conversion, or made by another converter, its own part is cut out in addition to the graph's (`both_parts.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from convert import plugin
from convert.errors import ConvertError
from convert.files.scratch import scratch_folder
from convert.files.side_files import side_file
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, Divergence, Reduced, Verdict
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.saved import save_feeds
from convert.parity.locate.both_parts import parts_that_differ
from convert.parity.locate.reduced_files import MARK, is_reduced, reduced_files
from convert.parity.locate.shrink import Shrinking
from convert.parity.locate.subgraph import Cutter, set_shapes
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import Counterparts
from convert.passes.tidy.clean import lift_constants
from convert.processes.model_reading import read_model
from convert.processes.run_here import Limits
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source

Judge = Callable[[Source, Source, ir.Model, Options, VerifyMethod], Verdict]
"""Signature of `convert.parity.verify.verify`."""

_MOST_TRIALS, _MOST_SECONDS = 64, 300.0
_MOST_BYTES = 1 << 30
"""Most bytes of weights; a larger part is not useful in a report."""


@dataclass(frozen=True)
class Failure:
    """A pair that was judged FAIL. options: of the conversion. target_options, ends: how to read the target back."""

    graph: ir.Model
    target: Source
    options: Options
    target_options: Options
    ends: Counterparts | Names
    feed: Feed
    verdict: Verdict
    limits: Limits


def reduce_failure(failure: Failure, path: Path, judge: Judge) -> Reduced | str:
    """Write the smallest failing part of the graph to `path`, and its inputs next to it; or return why there is none.

    Raises `UsageError` if the files cannot be written, `ResourceLimit` if the disk is full.
    """
    if failure.verdict.at_fault == "frontend":
        return "not reduced: the graph itself is not what the source computes, so no ONNX file shows the difference"
    try:
        work = failure.graph.clone()
        lift_constants(work)
        found = _reduced_conversion(failure, work, judge) or _reduced_pair(failure, work, judge)
    except ConvertError as error:
        return f"not reduced: {error.sentence}"
    if isinstance(found, str):
        return f"not reduced: {found}"
    return _write(found, path)


@dataclass(frozen=True)
class _Found:
    """A part that fails. model_target: the target's own part, if converting `model` does not show the failure."""

    model: ir.Model
    arrays: Mapping[str, np.ndarray]
    nodes: int
    whole: int
    format: str
    reason: str
    trials: int = 1
    smallest: bool = True
    model_target: ir.Model | None = None


class _Trial:
    """Converts parts of a graph to one format, verifies them and keeps the last one that failed."""

    def __init__(self, failure: Failure, cutter: Cutter, values: Mapping[str, Any], judge: Judge, form: str) -> None:
        self.failure, self.cutter, self.values, self.judge, self.form = failure, cutter, values, judge, form
        given = failure.options
        self.options = Options(
            dtype=given.dtype,
            quantize=given.quantize,
            widen=given.widen,
            narrow=given.narrow,
            single_size_branch=given.single_size_branch,
            rules=given.rules,
            extra={name: value for name, value in given.extra.items() if not isinstance(value, Mapping)},
        )
        self.compared: bool | None = None
        """Whether the first trial, of the whole graph, failed by its numbers; a part must fail in the same way."""
        self.last: tuple[ir.Model, dict[str, np.ndarray], str, list[ir.Node]] | None = None

    def fails(self, nodes: Sequence[ir.Node]) -> bool:
        """Return whether these nodes, as a model, fail like the first trial: by their numbers, or by not running."""
        inputs, outputs = self.cutter.ends(nodes)
        names = [str(value.name) for value in inputs]
        arrays = {n: self.values[n] for n in names if isinstance(self.values.get(n), np.ndarray)}
        if not outputs or len(arrays) < len(names):
            return False
        part = self.cutter.part(inputs, outputs, nodes)
        set_shapes(part, arrays)
        try:
            verdict = verdict_on_conversion(part, arrays, self.form, self.options, self.failure.limits, self.judge)
        except ConvertError:
            return False  # the part is another model, which may be rejected
        if (
            verdict.status != FAIL
            or verdict.at_fault == "frontend"
            or self.compared not in (None, bool(verdict.outputs))
        ):
            return False
        self.compared = bool(verdict.outputs)
        self.last = part, arrays, verdict.reason, list(nodes)
        return True


def verdict_on_conversion(
    part: ir.Model, arrays: Mapping[str, np.ndarray], form: str, options: Options, limits: Limits, judge: Judge
) -> Verdict:
    """Return the verdict on a part that is written as ONNX, read from that file, and converted to the format `form`."""
    described = plugin.formats()[form]
    with scratch_folder() as folder:
        file, target = folder / "source.onnx", folder / f"target{described.suffix}"
        ir.save(part, file)
        source = Source("onnx", file)
        graph = read_model(source, options, Report("reduce"))
        plugin.backend_for(form).write(graph.clone(), target, form, options, Report("reduce"))
        method = VerifyMethod(arrays=dict(arrays), limits=limits)
        return judge(source, Source(described.kind, target, written_here=True), graph, options, method)


def _reduced_conversion(failure: Failure, graph: ir.Model, judge: Judge) -> _Found | None:
    """Return the smallest part that fails in a new conversion; None if the whole graph does not."""
    from convert.reference.executor import run

    form = next((f.name for f in plugin.formats().values() if f.kind == failure.target.kind), "")
    if not form or failure.options.calibrate:
        return None
    cutter = Cutter(graph)
    values = {**run(graph, failure.feed.arrays, every=True), **failure.feed.arrays}
    trial = _Trial(failure, cutter, values, judge, form)
    if not trial.fails(cutter.nodes):
        return None
    search = Shrinking(trial.fails, cutter.completed, _MOST_TRIALS, _MOST_SECONDS)
    nodes = search.smallest(cutter.nodes, _guesses(failure, cutter))
    if trial.last is None or trial.last[3] != nodes:
        trial.fails(nodes)
    assert trial.last is not None
    part, arrays, reason, _ = trial.last
    return _Found(
        part, arrays, len(nodes), len(cutter.nodes), form, reason, search.trials + 1, smallest=not search.ended_early
    )


def _guesses(failure: Failure, cutter: Cutter) -> Iterator[list[ir.Node]]:
    """Yield the node that departs first, then its neighborhoods: a backend may write several nodes as one."""
    place = failure.verdict.divergence
    if isinstance(place, Divergence):
        for node in (n for n in cutter.nodes if n.name and n.name == place.node):
            yield from (cutter.around(node, distance) for distance in (0, 1, 2, 4))


def _reduced_pair(failure: Failure, graph: ir.Model, judge: Judge) -> _Found | str:
    """Return the failing part of the graph with the target's own part, or why they cannot be found."""
    found = parts_that_differ(graph, failure.target, failure.feed, failure.target_options, failure.ends)
    if isinstance(found, str):
        return found
    ours, theirs, arrays = found.ours, found.theirs, found.arrays
    with scratch_folder() as folder:
        left, right = folder / "part.onnx", folder / "target.onnx"
        ir.save(ours, left)
        ir.save(theirs, right)
        source, target = Source("onnx", left), Source("onnx", right)
        read = read_model(source, Options(), Report("reduce"))
        verdict = judge(source, target, read, Options(), VerifyMethod(arrays=dict(arrays), limits=failure.limits))
    if verdict.status != FAIL:
        return "neither the graph converted anew nor the part of the target that departs fails by itself"
    counts = len(ours.graph), len(graph.graph)
    return _Found(ours, arrays, *counts, "", verdict.reason, model_target=theirs)


def _write(found: _Found, path: Path) -> Reduced | str:
    """Write the files, each completely or not at all; return their description, or why the part is too large."""
    size = sum(v.const_value.nbytes for v in found.model.graph.initializers.values() if v.const_value is not None)
    if size > _MOST_BYTES:
        return f"not reduced: the smallest part that fails has {size:,} bytes of weights"
    model, inputs, target = reduced_files(path)
    _save(found.model, model)
    save_feeds(inputs, [Feed("reduced", dict(found.arrays))], "--reduce")
    if found.model_target is not None:
        _save(found.model_target, target)
    operators = [f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in found.model.graph]
    return Reduced(
        model=str(model),
        inputs=str(inputs),
        target=str(target) if found.model_target is not None else "",
        nodes=found.nodes,
        whole=found.whole,
        operators=operators,
        format=found.format,
        reason=found.reason,
        trials=found.trials,
        smallest=found.smallest,
    )


def _save(part: ir.Model, path: Path) -> None:
    part.metadata_props[MARK] = "the part of a model that fails, cut out by convert --reduce"
    with side_file(path, is_reduced, "--reduce") as temporary:
        ir.save(part, temporary)
