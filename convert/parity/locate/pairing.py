"""What a run left behind: its operators in order, with where they came from, and a summary of every value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import location_of
from convert.runners.trace import Summary, Trace, TraceStep, summarize


def trace_graph(model: ir.Model, feed: Mapping[str, np.ndarray]) -> tuple[Trace, dict[str, Any]]:
    """Run a shared graph in float64 by the reference executor, once: its trace, and its outputs as arrays."""
    from convert.passes.to_float64 import widen_model
    from convert.reference.executor import run

    found = run(widen_model(model), feed, every=True, keep=summarize)
    values = {n: v if isinstance(v, Summary) else summarize(v) for n, v in found.items()}
    for value in model.graph.initializers.values():
        if value.const_value is not None and value.const_value.dtype != ir.DataType.STRING and value.name:
            values[value.name] = summarize(value.const_value.numpy())
    return Trace(steps_of(model.graph), values), {str(v.name): found[str(v.name)] for v in model.graph.outputs}


def steps_of(graph: ir.Graph) -> list[TraceStep]:
    """The nodes of a graph, outermost level, in order; what their subgraphs read from outside counts as inputs."""
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
    """Steps in order of which no floating output has `agreed`, nor anything that is computed from one.

    expected: whether the other side can be asked to hold a step's outputs; one that it fused into another cannot.
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
    """Names of the floating values of `ours` that some value of `theirs` equals, by their statistics.

    bound: relative to the value's root mean square. ordered: elements have to be in the same order as well, which a
    target whose layout differs cannot be asked for.
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
        # The weights have a mean square of one: the sum moves by about as much as the elements do.
        near &= np.abs(found[:, 4] - value.ordered) <= 8 * bound * scale
    return bool(near.any())
