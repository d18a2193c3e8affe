"""Checks of sizes (`convert.graph.size_checks`) in another form, or gone, for targets that have no computed Split."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph import Graph
from convert.graph.metadata import SIZE_CHECK_KEY
from convert.graph.values import dims, nodes_of
from convert.report import Report

_NO_SIZE = -7


def size_checks(model: ir.Model) -> list[ir.Node]:
    """The nodes of a model, behind Ifs too, that fail for sizes outside of its contract."""
    return [node for node in nodes_of(model.graph) if SIZE_CHECK_KEY in node.metadata_props and node.op_type == "Split"]


def write_size_checks_as_reshapes(model: ir.Model, *, by_dims: bool = False) -> bool:
    """Replace checks by a Reshape to the same shape, which is none for sizes outside; whether there were any.

    by_dims: put the shape together, so that a reader sees the dims that are known; TensorFlow Lite needs them. (Where
    one of them is computed, onnxruntime takes that for −1.) Needs Reshape of opset 14.
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
        # The length is left open, so that no rule takes it for the one that x has.
        g.facts(made, x.dtype, [None if i == axis else d for i, d in enumerate(shape)])
        _replace(model, node, made, g)
    return bool(found)


def drop_size_checks(model: ir.Model) -> bool:
    """Take the checks away, for a target that cannot refuse a size; whether there were any."""
    found = size_checks(model)
    for node in found:
        x = node.inputs[0]
        assert x is not None
        _replace(model, node, x, None)
    return bool(found)


def checked_conditions(model: ir.Model) -> list[str]:
    """What the checks of a model ask, each once: `batch >= 4`, `height % 8 == 0`."""
    return list(dict.fromkeys(node.metadata_props[SIZE_CHECK_KEY] for node in size_checks(model)))


def note_lost_checks(lost: Sequence[str], target: str, report: Report) -> None:
    """Tell the user of sizes that the target takes although the model is not made for them."""
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
