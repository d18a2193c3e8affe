"""Runs a TensorFlow graph once in float64, and fetches every floating-point tensor that its outputs need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from convert.errors import Location
from convert.runtimes.trace import Trace, TraceStep, summarize

from .complex_pairs import fed_array

# TensorFlow 1 control flow has no value to fetch in a branch that is not taken.
_DEAD = frozenset({"Switch", "RefSwitch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"})
_ENDS = frozenset({"Const", "Placeholder", "NoOp"})


def trace_graph(frozen: Any, feed: Mapping[str, np.ndarray]) -> Trace:
    """Return the trace of one run of a frozen, widened graph (`tensorflow_graph.Frozen`), by tensor name."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph, config=config) as session:
        tf.import_graph_def(frozen.graph, name="")
        given = {}
        for name, value in feed.items():
            tensor = graph.get_tensor_by_name(frozen.inputs[name])
            given[tensor] = fed_array(value, tensor.dtype)
        needed = _ancestors([graph.get_tensor_by_name(name).op for name in frozen.outputs.values()])
        operations = [op for op in graph.get_operations() if op in needed and op.type not in _ENDS]
        tensors = [t for op in operations for t in op.outputs if _can_be_fetched(graph, op, t)]
        values = {t.name: summarize(v) for t, v in zip(tensors, session.run(tensors, given), strict=True)}
        steps = [
            TraceStep(
                Location(op.type, op.name, op.name.rpartition("/")[0]),
                tuple(t.name for t in op.inputs),
                tuple(t.name for t in op.outputs),
            )
            for op in operations
        ]
    return Trace([s for s in steps if s.outputs], values)


def _ancestors(ends: list[Any]) -> set[Any]:
    found: set[Any] = set()
    queue = list(ends)
    while queue:
        op = queue.pop()
        if op not in found:
            found.add(op)
            queue.extend(t.op for t in op.inputs)
    return found


def _can_be_fetched(graph: Any, op: Any, tensor: Any) -> bool:
    inside = op._get_control_flow_context() is not None
    return tensor.dtype.is_floating and op.type not in _DEAD and not inside and graph.is_fetchable(tensor)
