"""Finds a SavedModel's variables by the objects that hold them, as TensorFlow 2 does when it restores them.

The `bound_inputs` of a function (numbers of objects) say which variables it captured. A graph of the same objects in
the checkpoint says where their values are. Both graphs are walked from the root by attribute names. The graph that the
saver restores (TensorFlow 1) may have other handles than the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..graph.function_body import FunctionBody


def captured_objects(meta: Any, graph: FunctionBody) -> dict[str, int]:
    """Return the object numbers of a graph's variables, by the nodes of their handles."""
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
    """Return the checkpoint keys by the numbers of the SavedModel's objects.

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


def named_functions(objects: Any) -> list[str]:
    """Return the attributes of the root object that are functions: `__call__` first, then by name."""
    children = objects.nodes[0].children if objects.nodes else ()
    known = range(len(objects.nodes))
    found = {c.local_name for c in children if c.node_id in known and _is_function(objects.nodes[c.node_id])}
    return sorted(found, key=lambda name: (name != "__call__", name))


def _is_function(node: Any) -> bool:
    return bool(node.WhichOneof("kind") == "function")
