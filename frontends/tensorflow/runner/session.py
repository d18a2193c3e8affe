"""A GraphDef without variables, and how a session runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.errors import UsageError

from .complex_pairs import fed_array, with_pairs
from .optimizer import session_config

Feeds = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class FrozenGraph:
    """A GraphDef without variables, and its input and output tensors by name.

    `first` are the operations that fill its tables.
    """

    graph: Any
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    first: Sequence[str] = ()


def disable_optimizer(graph: Any) -> None:
    """Disable the optimizer in calls too, which have their own configuration, independent of the session's.

    For example, the optimizer divides by multiplying with a reciprocal in float32, which can change a FakeQuant level.
    """
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    for node in (*graph.node, *(n for f in graph.library.function for n in f.node_def)):
        if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
            node.attr["config_proto"].s = config.SerializeToString()


def run_graph(frozen: FrozenGraph, feeds: Feeds, *, precision: str) -> list[dict[str, np.ndarray]]:
    """Run a graph in its own session; in float64 without optimizations that know float32 only."""
    import tensorflow as tf

    config = session_config()
    if precision == "float64":
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph, config=config) as session:
        tf.import_graph_def(frozen.graph, name="")
        session.run([graph.get_operation_by_name(name) for name in frozen.first])
        found = []
        for feed in feeds:
            values = {}
            for name, value in feed.items():
                if name not in frozen.inputs:
                    raise UsageError(f"the model has no input {name!r}", hint=f"inputs: {', '.join(frozen.inputs)}")
                tensor = graph.get_tensor_by_name(frozen.inputs[name])
                values[tensor] = fed_array(value, tensor.dtype)
            results = session.run(list(frozen.outputs.values()), values)
            found.append(with_pairs(dict(zip(frozen.outputs, map(np.asarray, results), strict=True))))
    return found
