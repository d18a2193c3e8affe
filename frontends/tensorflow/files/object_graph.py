"""Variables of a SavedModel by the objects that hold them, as TensorFlow 2 restores them.

Which variables a function captured is told by its `bound_inputs`, numbers of objects. Where the checkpoint has the
value of an object is told by a graph of the same objects in the checkpoint; both are walked from the root by the names
of attributes. The graph that the saver restores (TensorFlow 1) may hold other handles than the function does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..graph.function_body import FunctionBody


def captured_objects(meta: Any, graph: FunctionBody) -> dict[str, int]:
    """Return the objects that the variables of a graph stand for, by the nodes of their handles."""
    functions = meta.object_graph_def.concrete_functions
    found = dict[str, int]()
    for node in graph.nodes.values():
        name = node.attr["f"].func.name if "f" in node.attr else ""
        if name not in functions:
            continue
        bound = list(functions[name].bound_inputs)
        if 0 < len(bound) <= len(node.inputs):
            found |= {ref.node: number for ref, number in zip(node.inputs[-len(bound) :], bound, strict=True)}
    return found


def checkpoint_keys(objects: Any, tracked: Any) -> dict[int, str]:
    """Return the names of tensors in a checkpoint by the numbers of the SavedModel's objects.

    objects: the SavedObjectGraph. tracked: the TrackableObjectGraph of the checkpoint.
    """
    keys, seen, pending = dict[int, str](), {(0, 0)}, [(0, 0)]
    while pending:
        own, theirs = pending.pop()
        if not (0 <= own < len(objects.nodes) and 0 <= theirs < len(tracked.nodes)):
            continue
        key = next((a.checkpoint_key for a in tracked.nodes[theirs].attributes if a.name == "VARIABLE_VALUE"), "")
        if key:
            keys[own] = key
        named: Mapping[str, int] = {c.local_name: c.node_id for c in tracked.nodes[theirs].children}
        pairs = {(c.node_id, named[c.local_name]) for c in objects.nodes[own].children if c.local_name in named}
        pending += pairs - seen
        seen |= pairs
    return keys
