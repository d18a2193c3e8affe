"""Inlines model-local functions, after counting the resulting nodes.

onnx's inliner ignores the defaults that a function declares for attributes missing in a call (`attribute_proto`). An
operator inside would get its own schema's default instead. So the defaults are first written into the calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx
import onnx.inliner

from convert import limits
from convert.errors import BadInput, Problem, Unsupported

_Key = tuple[str, str, str]


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with every call of a model-local function replaced by its body.

    `check_functions` must have passed. Raises `Unsupported` if a function has another opset that cannot be converted.
    """
    if not model.functions:
        return model
    try:
        inlined = _inline_by_steps(model) if _passes_missing_attribute(model) else _inline_at_once(model)
    except Exception as error:  # the binding raises RuntimeError and others
        raise BadInput(
            f"the model's functions cannot be inlined: {' '.join(str(error).split())[:500]}",
            hint="export the model again without functions",
            doubtful=True,
        ) from error
    names = {(f.domain, f.name) for f in model.functions}
    left = sorted({(n.domain, n.op_type) for n in all_nodes(inlined.graph.node) if (n.domain, n.op_type) in names})
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


def _inline_at_once(model: onnx.ModelProto) -> onnx.ModelProto:
    model = _copy_of(model)
    bodies = {(f.domain, f.name, f.overload): f for f in model.functions}
    for nodes in (model.graph.node, *(f.node for f in model.functions)):
        _fill_defaults(nodes, bodies)
    return onnx.inliner.inline_local_functions(model, convert_version=True)


def _inline_by_steps(model: onnx.ModelProto) -> onnx.ModelProto:
    """Inline one function name at a time, callers before their callees.

    An attribute of an inner call may refer to an attribute of the outer function that one call has and another lacks.
    Only after the outer function is inlined is it known whether the inner default applies.
    """
    model = _copy_of(model)
    bodies = {(f.domain, f.name, f.overload): f for f in model.functions}
    for domain, name, _ in dict.fromkeys((d, n, "") for d, n, _ in reversed(_callees_first(bodies))):
        _fill_defaults(model.graph.node, bodies)
        model = onnx.inliner.inline_selected_functions(model, [(domain, name)])
    return onnx.inliner.inline_local_functions(model, convert_version=True)


def _copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which no function returns an input unchanged, because the inliner loses such an output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for function in copy.functions:
        for place, name in enumerate(function.output):
            if name in function.input:
                made = f"{name}_handed_through_{place}"
                function.node.append(onnx.helper.make_node("Identity", [name], [made]))
                function.output[place] = made
    return copy


def _fill_defaults(nodes: Iterable[onnx.NodeProto], bodies: Mapping[_Key, onnx.FunctionProto]) -> None:
    """Add the function's defaults to each call that leaves attributes out, in place."""
    for node in all_nodes(nodes):
        body = bodies.get((node.domain, node.op_type, node.overload))
        if body is not None:
            given = {a.name for a in node.attribute}
            node.attribute.extend(a for a in body.attribute_proto if a.name not in given)


def _passes_missing_attribute(model: onnx.ModelProto) -> bool:
    """Return whether a function passes an attribute that may be missing to a function that has a default for it."""
    bodies = {(f.domain, f.name, f.overload): f for f in model.functions}
    for function in model.functions:
        known = {a.name for a in function.attribute_proto}
        for node in all_nodes(function.node):
            body = bodies.get((node.domain, node.op_type, node.overload))
            with_value = {a.name for a in body.attribute_proto} if body is not None else set()
            if any(a.ref_attr_name and a.ref_attr_name not in known and a.name in with_value for a in node.attribute):
                return True
    return False


def drop_overruled_functions(model: onnx.ModelProto) -> list[str]:
    """Remove the functions that have the name of an operator of ONNX, in place; return their names.

    The standard leaves the meaning of such a call to the runtime (onnx.proto, `ModelProto.functions`); onnxruntime and
    ONNX's reference implementation run the operator.
    """
    versions = {entry.domain: entry.version for entry in model.opset_import}
    kept: list[onnx.FunctionProto] = []
    dropped: list[onnx.FunctionProto] = []
    for function in model.functions:
        version = versions.get(function.domain, 0)
        known = function.domain in ("", "ai.onnx.ml") and onnx.defs.has(function.name, version, function.domain)
        (dropped if known else kept).append(function)
    if dropped:
        del model.functions[:]
        model.functions.extend(kept)
    return [f.name for f in dropped]


def check_functions(model: onnx.ModelProto) -> None:
    """Raise `BadInput` unless inlining the model's functions terminates with an acceptable number of nodes."""
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
    for node in all_nodes(nodes):
        inner, levels = sizes.get((node.domain, node.op_type, node.overload), (1, -1))
        count, depth = count + inner, max(depth, levels + 1)
    return count, depth


def _callees_first(bodies: dict[_Key, onnx.FunctionProto]) -> list[_Key]:
    """Return the functions so that each comes after its callees. Raises `BadInput` if there is a cycle."""
    calls = {
        key: {k for n in all_nodes(f.node) if (k := (n.domain, n.op_type, n.overload)) in bodies}
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
            f"the model's functions call each other in a cycle: {', '.join(circle[:5])}",
            hint="ONNX functions must not be recursive",
        )
    return order


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes and those of all nested subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from all_nodes(graph.node)
