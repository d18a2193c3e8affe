"""Inlines model-local functions, after counting how many nodes that would make."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.inliner

from convert import limits
from convert.errors import BadInput, Problem, Unsupported

_Key = tuple[str, str, str]


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with every call of a model-local function replaced by its body.

    `check_functions` has to have passed. Raises `Unsupported` where one is written for another opset that cannot be
    converted.
    """
    if not model.functions:
        return model
    try:
        inlined = onnx.inliner.inline_local_functions(model, convert_version=True)
    except Exception as error:  # the binding raises RuntimeError and others
        raise BadInput(
            f"the model's functions cannot be inlined: {' '.join(str(error).split())[:500]}",
            hint="export the model again without functions",
        ) from error
    names = {(f.domain, f.name) for f in model.functions}
    left = sorted({(n.domain, n.op_type) for n in _all_nodes(inlined.graph.node) if (n.domain, n.op_type) in names})
    if left:
        raise Unsupported(
            problems=[
                Problem(
                    f"the function {d}::{n} is written for another opset than the model and cannot be converted to it"
                )
                for d, n in left
            ]
        )
    del inlined.functions[:]
    return inlined


def check_functions(model: onnx.ModelProto) -> None:
    """Raise `BadInput` unless inlining the model's functions ends, with a bearable number of nodes."""
    bodies = {(f.domain, f.name, f.overload): f for f in model.functions}
    if len(bodies) != len(model.functions):
        raise BadInput("the model defines a function twice", hint="export the model again")
    sizes: dict[_Key, tuple[int, int]] = {}
    for key in _callees_first(bodies):
        sizes[key] = _count_and_depth(bodies[key].node, sizes)
    count, depth = _count_and_depth(model.graph.node, sizes)
    if count > limits.ONNX_NODES or depth > limits.ONNX_FUNCTION_DEPTH:
        what = f"{count} nodes" if count > limits.ONNX_NODES else f"functions nested {depth} deep"
        raise BadInput(f"the model's functions would expand to {what}", hint="the file was made to exhaust its reader")


def _count_and_depth(nodes: list[onnx.NodeProto], sizes: dict[_Key, tuple[int, int]]) -> tuple[int, int]:
    count = depth = 0
    for node in _all_nodes(nodes):
        inner, levels = sizes.get((node.domain, node.op_type, node.overload), (1, -1))
        count, depth = count + inner, max(depth, levels + 1)
    return count, depth


def _callees_first(bodies: dict[_Key, onnx.FunctionProto]) -> list[_Key]:
    """The functions in an order in which each comes after those it calls. Raises `BadInput` for a circle."""
    calls = {
        key: {k for n in _all_nodes(f.node) if (k := (n.domain, n.op_type, n.overload)) in bodies}
        for key, f in bodies.items()
    }
    order: list[_Key] = []
    callers: dict[_Key, list[_Key]] = {}
    open_calls = {key: len(callees) for key, callees in calls.items()}
    for key, callees in calls.items():
        for callee in callees:
            callers.setdefault(callee, []).append(key)
    ready = [key for key, count in open_calls.items() if not count]
    while ready:
        key = ready.pop()
        order.append(key)
        for caller in callers.get(key, ()):
            open_calls[caller] -= 1
            if not open_calls[caller]:
                ready.append(caller)
    if len(order) < len(bodies):
        circle = sorted(f"{d}::{n}" for (d, n, _) in set(bodies) - set(order))
        raise BadInput(
            f"the model's functions call each other in a circle: {', '.join(circle[:5])}",
            hint="ONNX functions must not be recursive",
        )
    return order


def _all_nodes(nodes: list[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _all_nodes(graph.node)
