"""Splits inputs that are sequences or optionals into separate tensors, if the user has named those."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph.values import is_used
from convert.request.options import Options


def flatten_inputs(model: ir.Model, options: Options) -> None:
    """Replace nested inputs by the tensors that `options.inputs` names, in place.

    The elements of a sequence `x` are `x_0`, `x_1` …, as many as are named. An optional input is absent if none of it
    is named. Without specs nothing changes.
    """
    named = {spec.name for spec in options.inputs if spec.name}
    if not named:
        return
    graph = model.graph
    inputs: list[ir.Value] = []
    nodes: list[ir.Node] = []
    for value in list(graph.inputs):
        if value.type is None or isinstance(value.type, (ir.TensorType, ir.SparseTensorType)):
            inputs.append(value)
            continue
        made = _build_nested(str(value.name), value.type, value.shape, named, inputs, nodes)
        value.replace_all_uses_with(made, replace_graph_outputs=True)
        taken = any(x.name == value.name for x in inputs)
        made.name, value.name = f"{value.name}_optional" if taken else value.name, None
        maker = made.producer()
        if maker is not None and not is_used(made):
            nodes.remove(maker)
    graph.inputs.clear()
    graph.inputs.extend(inputs)
    first = next(iter(graph), None)
    if first is None:
        graph.extend(nodes)
    else:
        graph.insert_before(first, nodes)


def _build_nested(
    name: str,
    kind: ir.TypeProtocol,
    shape: ir.Shape | None,
    named: set[str],
    inputs: list[ir.Value],
    nodes: list[ir.Node],
) -> ir.Value:
    """Return the value `name` of a nested type, built by new nodes from new inputs."""
    if isinstance(kind, ir.TensorType):
        inputs.append(ir.Value(name=name, type=kind, shape=shape))
        return inputs[-1]
    if isinstance(kind, ir.SequenceType):
        parts: list[ir.Value] = []
        while _is_named(f"{name}_{len(parts)}", kind.elem_type, named):
            parts.append(_build_nested(f"{name}_{len(parts)}", kind.elem_type, shape, named, inputs, nodes))
        attributes = [] if parts else [ir.AttrInt64("dtype", int(kind.dtype))]
        return _add_node("SequenceConstruct" if parts else "SequenceEmpty", parts, attributes, kind, nodes)
    assert isinstance(kind, ir.OptionalType)
    if not _is_named(name, kind.elem_type, named):
        empty = ir.AttrTypeProto("type", ir.TypeAndShape(kind.elem_type, shape))
        return _add_node("Optional", [], [empty], kind, nodes)
    inner = _build_nested(name, kind.elem_type, shape, named, inputs, nodes)
    if inner.producer() is not None:
        inner.name = f"{name}_element"
    return _add_node("Optional", [inner], [], kind, nodes)


def _is_named(name: str, kind: ir.TypeProtocol, named: set[str]) -> bool:
    """Return whether any part of a value of that name and type is named."""
    if isinstance(kind, ir.TensorType):
        return name in named
    assert isinstance(kind, (ir.SequenceType, ir.OptionalType))
    return _is_named(f"{name}_0" if isinstance(kind, ir.SequenceType) else name, kind.elem_type, named)


def _add_node(
    operator: str, inputs: list[ir.Value], attributes: list[ir.Attr], kind: ir.TypeProtocol, nodes: list[ir.Node]
) -> ir.Value:
    node = ir.Node("", operator, inputs, attributes, num_outputs=1)
    nodes.append(node)
    node.outputs[0].type = kind
    return node.outputs[0]
