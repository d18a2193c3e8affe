"""Trace a run: its operators in order with their origins, and a summary of every value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import location_of
from convert.graph.names import restore_io_names
from convert.outcome.report import Report
from convert.parity.pairing.counterparts import Counterparts
from convert.processes.model_reading import read_model
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import Summary, Trace, TraceStep, summarize


def trace_graph(model: ir.Model, feed: Mapping[str, np.ndarray]) -> tuple[Trace, dict[str, Any]]:
    """Run a shared graph once in float64 by the reference executor; return its trace, and its outputs as arrays."""
    from convert.passes.to_float64 import widen_model
    from convert.reference.executor import run

    found = run(widen_model(model), feed, every=True, keep=summarize)
    values = {n: v if isinstance(v, Summary) else summarize(v) for n, v in found.items()}
    for value in model.graph.initializers.values():
        if value.const_value is not None and value.const_value.dtype != ir.DataType.STRING and value.name:
            values[value.name] = summarize(value.const_value.numpy())
    return Trace(steps_of(model.graph), values), {str(v.name): found[str(v.name)] for v in model.graph.outputs}


def read_back(target: Source, options: Options, ends: Counterparts | Names) -> ir.Model:
    """Return the shared graph of a target, with the names of the source's inputs and outputs. Raises `ConvertError`.

    ends: the target's names of them.
    """
    graph = read_model(target, options, Report("locate"))
    restore_io_names(graph, ends.inputs, ends.outputs)
    return graph


def steps_of(graph: ir.Graph) -> list[TraceStep]:
    """Return the top-level nodes of a graph in order; values that their subgraphs read from outside count as inputs."""
    from convert.reference.executor import read_values

    return [
        TraceStep(
            location_of(node),
            tuple(dict.fromkeys(str(v.name) for v in read_values(node))),
            tuple(str(v.name) for v in node.outputs if v.name),
        )
        for node in graph
    ]


def departing_steps(
    trace: Trace, agreed: set[str], expected: Callable[[TraceStep], bool] = lambda step: True
) -> Iterable[TraceStep]:
    """Yield the steps whose floating outputs depart, in order: an output has departed if neither it nor a value
    computed from it is in `agreed`.

    expected: returns whether the other side can have a step's outputs; it cannot if it fused the step into another.
    """
    users: dict[str, list[int]] = {}
    for i, step in enumerate(trace.steps):
        for name in step.inputs:
            users.setdefault(name, []).append(i)
    reached: set[int] = set()
    for i in reversed(range(len(trace.steps))):
        outputs = trace.steps[i].outputs
        if any(name in agreed or any(u in reached for u in users.get(name, ())) for name in outputs):
            reached.add(i)
    for i, step in enumerate(trace.steps):
        floating = any(n in trace.values and trace.values[n].floating for n in step.outputs)
        if i not in reached and floating and expected(step):
            yield step


def agreeing_names(ours: Trace, theirs: Trace, bound: float, *, ordered: bool) -> set[str]:
    """Return the names of floating values of `ours` that equal some value of `theirs`, by their statistics.

    bound: relative to the value's rms. ordered: whether the elements must be in the same order too, which they are not
    if the layouts differ.
    """
    rows = [v for v in theirs.values.values() if v.floating]
    by_size: dict[int, np.ndarray] = {}
    for size in {v.size for v in rows}:
        by_size[size] = np.array([(*v.statistics, v.ordered) for v in rows if v.size == size])
    return {n for n, v in ours.values.items() if v.floating and _has_equal(v, by_size.get(v.size), bound, ordered)}


def _has_equal(value: Summary, found: np.ndarray | None, bound: float, ordered: bool) -> bool:
    if found is None:
        return False
    scale = max(value.rms, np.finfo(np.float64).tiny)
    near = np.abs(found[:, :4] - np.array(value.statistics)).max(axis=1) <= bound * scale
    if ordered:
        # The weights have a mean square of one, so the sum changes by about as much as the elements do.
        near &= np.abs(found[:, 4] - value.ordered) <= 8 * bound * scale
    return bool(near.any())
