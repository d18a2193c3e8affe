"""Rewrites or drops size checks (`convert.graph.size_checks`), for targets without a computed Split."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph import Graph
from convert.graph.metadata import SIZE_CHECK_KEY
from convert.graph.values import dims, nodes_of
from convert.outcome.report import Report

_NO_SIZE = -7


def size_checks(model: ir.Model) -> list[ir.Node]:
    """Return the nodes, including those in Ifs, that fail for sizes that the model does not support."""
    return [node for node in nodes_of(model.graph) if SIZE_CHECK_KEY in node.metadata_props and node.op_type == "Split"]


def write_size_checks_as_reshapes(model: ir.Model, *, by_dims: bool = False) -> bool:
    """Replace size checks by Reshapes that fail for unsupported sizes; return whether there were any.

    With `by_dims`, the shape is a Concat of dims, so that TensorFlow Lite sees the known ones. In onnxruntime, a
    computed dim in such a Concat counts as −1. Requires Reshape of opset 14.
    """
    found = size_checks(model)
    for node in found:
        x, sizes = node.inputs
        assert x is not None
        assert sizes is not None
        g = Graph(opset=model.opset_imports[""])
        axis, shape = node.attributes.get_int("axis", 0), dims(x)
        first = g.Slice(sizes, [0], [1], [0])
        if by_dims:
            pieces = [
                g.const([d]) if isinstance(d, int) else g.Shape(x, start=i, end=i + 1) for i, d in enumerate(shape)
            ]
            pieces[axis] = first
            made = g.Reshape(x, g.Concat(*pieces, axis=0), allowzero=1)
        else:
            made = g.Reshape(x, g.Where(g.Less(first, [0]), [_NO_SIZE] * len(shape), g.Shape(x)))
        # The length stays unknown, so that no rule takes the length of x instead.
        g.facts(made, x.dtype, [None if i == axis else d for i, d in enumerate(shape)])
        _replace(model, node, made, g)
    return bool(found)


def drop_size_checks(model: ir.Model) -> bool:
    """Remove the size checks, for a target that cannot reject a size; return whether there were any."""
    found = size_checks(model)
    for node in found:
        x = node.inputs[0]
        assert x is not None
        _replace(model, node, x, None)
    return bool(found)


def checked_conditions(model: ir.Model) -> list[str]:
    """Return the conditions of a model's size checks, each once: `batch >= 4`, `height % 8 == 0`."""
    return list(dict.fromkeys(node.metadata_props[SIZE_CHECK_KEY] for node in size_checks(model)))


def note_lost_checks(lost: Sequence[str], target: str, report: Report) -> None:
    """Add a note about sizes that the target accepts although the model does not support them."""
    if lost:
        report.note(
            f"{target} cannot refuse sizes: give it only such as meet {' and '.join(lost)}", code="unchecked-sizes"
        )


def _replace(model: ir.Model, node: ir.Node, value: ir.Value, g: Graph | None) -> None:
    old, graph = node.outputs[0], node.graph
    assert isinstance(graph, ir.Graph)
    if g is not None:
        for name, constant in list(g.graph.initializers.items()):
            g.graph.initializers.pop(name)
            constant.name = f"{node.name}.{name}"
            model.graph.register_initializer(constant)
        made = list(g.graph)
        g.graph.remove(made)
        for i, new in enumerate(made):
            new.name = node.name if new.op_type == "Reshape" else f"{node.name}.{i}"
            for output in new.outputs:
                output.name = f"{node.name}.value{i}"
        graph.insert_before(node, made)
    elif old.is_graph_output():
        identity = ir.Node("", "Identity", [value], num_outputs=1, name=f"{node.name}.same")
        identity.outputs[0].type, identity.outputs[0].shape = value.type, value.shape
        identity.outputs[0].name = f"{node.name}.same"
        graph.insert_before(node, [identity])
        value = identity.outputs[0]
    if old.is_graph_output():
        old.name, value.name = None, old.name
    ir.convenience.replace_all_uses_with(old, value, replace_graph_outputs=True)
    graph.remove(node, safe=True)
