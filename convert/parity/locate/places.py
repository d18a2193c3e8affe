"""Find the operator where two sides diverge, in float64, where rounding hides nothing.

Each side is run once with a summary of every value. Two forward passes therefore suffice for any number of operators.
Values are paired by content, not by name, because readers and writers rename and fuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph import location_of
from convert.graph.metadata import MODULE_KEY, OPERATOR_KEY
from convert.graph.tensors import holds_floats
from convert.outcome.verdict import Divergence
from convert.parity.compare.randomness import random_values
from convert.parity.inputs.feeds import Feed
from convert.parity.locate.pairing import agreeing_names, departing_steps, read_back, steps_of, trace_graph
from convert.parity.pairing.counterparts import Counterparts
from convert.processes.run_here import Limits
from convert.processes.trace_run import trace
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import Summary, Trace, TraceStep

# Two values are equal if their statistics differ by less than this share of the error at the outputs. Weights that were
# folded and rounded to float32 move values by up to 1e-7.
_SHARE, _LEAST, _MOST = 0.03, 2e-7, 1e-5
# When the graph is compared with the source, nothing was folded. So values agree to float64, or to float32 if the
# source has no float64. The share is small because operators may shrink an error, and a value that agrees exonerates
# everything before it.
_SOURCE_SHARE, _EXACT, _ROUNDED = 1e-3, (3e-9, 1e-6), (2e-6, 1e-3)


def locate(
    graph: ir.Model, target: Source, feed: Feed, options: Options, ends: Counterparts | Names
) -> Divergence | str:
    """Return the first place where the target computes something else than `graph`, or why it cannot be found.

    The target is read back by its own frontend. A node that a backend fused with later ones stands for the group.
    ends: the target's names of the graph's inputs and outputs.
    """
    try:
        other = read_back(target, options, ends)
        (theirs, their_outputs), (ours, our_outputs) = trace_graph(other, feed.arrays), trace_graph(graph, feed.arrays)
    except ConvertError as error:
        return f"the target cannot be read back to find the place: {error.sentence}"
    distance = _distance(our_outputs, their_outputs)
    if distance <= _LEAST:
        return "in float64 the artefact computes what the graph does: its runtime is at fault, or its float32 kernels"
    # The layout of a target may differ from the graph's, so the order of elements cannot be compared.
    agreed = agreeing_names(ours, theirs, min(max(distance * _SHARE, _LEAST), _MOST), ordered=False)
    random = {str(v.name) for v in random_values(graph)}
    for step in departing_steps(ours, agreed, lambda step: not random.intersection(step.outputs)):
        return _divergence(step, ours)
    return "every value of the graph is found in the target, and its outputs are not: are they in another order?"


def locate_source(
    graph: ir.Model, source: Source, feed: Feed, distance: float, options: Options, limits: Limits
) -> Divergence | str:
    """Return the first operator of the source whose value the graph lacks, and the graph's counterpart; or why not.

    The source is run operator by operator in its own framework. distance: how far the outputs are from each other.
    """
    try:
        theirs = trace(source, feed.arrays, options, limits)
        ours, _ = trace_graph(graph, feed.arrays)
    except ConvertError as error:
        return f"the source cannot be run operator by operator to find the place: {error.sentence}"
    least, most = _EXACT if theirs.precision == "float64" else _ROUNDED
    bound = min(max(distance * _SOURCE_SHARE, least), most)
    # The graph has the layout of its source, so elements must be in the same places.
    agreed = agreeing_names(theirs, _without_inner_values(graph, ours), bound, ordered=True)
    placed = any(step.at.module or step.at.source for step in theirs.steps)
    lowered = _lowered_operators(graph) if placed else set()
    drawn = _random_operators(graph)
    for step in departing_steps(
        theirs, agreed, lambda step: (not lowered or _step_key(step) in lowered) and _step_key(step) not in drawn
    ):
        found = _divergence(step, theirs)
        found.instead = _describe_counterpart(graph, step, theirs, ours)
        return _locate_in_graph(found, agreeing_names(ours, theirs, bound, ordered=True), ours)
    for step in departing_steps(theirs, agreed, lambda step: _step_key(step) not in drawn):
        return _locate_in_graph(_divergence(step, theirs), agreeing_names(ours, theirs, bound, ordered=True), ours)
    return "every value of the source is found in the graph, and its outputs are not: are they in another order?"


def _locate_in_graph(found: Divergence, agreed: set[str], ours: Trace) -> Divergence:
    """Return the divergence with the module of the graph's first diverging node, if the source's kernel knows no
    module.
    """
    if found.module or found.source:
        return found
    step = next(iter(departing_steps(ours, agreed)), None)
    if step is not None:
        found.node, found.module, found.source = found.node or step.at.node, step.at.module, step.at.source
        found.instead = f"{step.at.operator}, {ours.describe_value(step.outputs[0])}"
    return found


def _without_inner_values(graph: ir.Model, ours: Trace) -> Trace:
    """Return the trace without values that only other nodes of the same source operator read.

    A rule may compute a right value and then spoil it, so only the results of a rule are compared.
    """
    inside = set()
    for node in graph.graph:
        at = replace(location_of(node), operator="", node="")
        for value in node.outputs:
            users = [user for user, _ in value.uses()]
            own = all(replace(location_of(u), operator="", node="") == at for u in users)
            same = own and all(_source_operator(u) == _source_operator(node) != "" for u in users)
            if users and same and not value.is_graph_output():
                inside.add(str(value.name))
    return Trace(ours.steps, {n: v for n, v in ours.values.items() if n not in inside}, ours.precision)


def _source_operator(node: ir.Node) -> str:
    return node.metadata_props.get(OPERATOR_KEY, "")


def _step_key(step: TraceStep) -> tuple[str, str]:
    return step.at.operator.rpartition("::")[2].partition(".")[0], step.at.module


def _lowered_operators(graph: ir.Model) -> set[tuple[str, str]]:
    """Return the operators and modules that nodes of the graph name as origins; other operators were fused away."""
    return _origins(graph.graph)


def _random_operators(graph: ir.Model) -> set[tuple[str, str]]:
    """Return the operators and modules of nodes that depend on random numbers, whose values never agree."""
    found = random_values(graph)
    return _origins(node for node in graph.graph if any(v in found for v in node.outputs))


def _origins(nodes: Iterable[ir.Node]) -> set[tuple[str, str]]:
    return {
        (props[OPERATOR_KEY].rpartition("::")[2].partition(".")[0], props.get(MODULE_KEY, ""))
        for props in (node.metadata_props for node in nodes)
        if OPERATOR_KEY in props
    }


def _describe_counterpart(graph: ir.Model, step: TraceStep, theirs: Trace, ours: Trace) -> str:
    """Describe the graph's counterpart of a source operator: the last node of its module, line and size; '' if none."""
    wanted = theirs.values[step.outputs[0]]
    nodes = [
        (node, own)
        for node, own in zip(graph.graph, steps_of(graph.graph), strict=True)
        if (own.at.module, own.at.source) == (step.at.module, step.at.source)
        and node.metadata_props.get(OPERATOR_KEY, "").endswith(_step_key(step)[0])
        and any(ours.values[n].size == wanted.size for n in own.outputs if n in ours.values)
    ]
    if not nodes:
        return ""
    own = nodes[-1][1]
    return f"{own.at.operator}, {ours.describe_value(own.outputs[0])}"


def _distance(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    """Return the largest distance of an element of an output, relative to the output's rms; inf for other shapes."""
    worst = 0.0
    for name, a in ours.items():
        b: Any = theirs.get(name)
        if not holds_floats(a):
            continue
        if not holds_floats(b) or not np.array_equal(np.isfinite(a), np.isfinite(b)):  # also if the shapes differ
            return np.inf
        mask = np.isfinite(a)
        if mask.any():
            scale = max(float(np.sqrt(np.mean(a[mask] ** 2))), np.finfo(np.float64).tiny)
            worst = max(worst, float(np.abs(a[mask] - b[mask]).max()) / scale)
    return worst


def _divergence(step: TraceStep, trace: Trace) -> Divergence:
    at = step.at
    output = next((n for n in step.outputs if isinstance(trace.values.get(n), Summary)), step.outputs[0])
    inputs = [trace.describe_value(n) for n in step.inputs]
    return Divergence(at.operator, at.node, at.module, at.source, inputs, trace.describe_value(output))
