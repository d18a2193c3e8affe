"""Renames the inputs and outputs of a graph to their names in a target, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from convert.graph.values import nodes_of
from convert.outcome.report import Report
from convert.request.naming import Names, TargetNames


def names_in_target(model: ir.Model, rule: TargetNames) -> Names:
    """Return the names that the inputs and outputs of `model` get in a target with the naming rule `rule`."""
    sides = model.graph.inputs, model.graph.outputs
    inputs, outputs = ([str(v.name) for v in side] for side in sides)
    input_containers, output_containers = (
        {str(v.name): d for v in side if (d := _container(v, rule))} for side in sides
    )
    return replace(rule.of(inputs, outputs), input_containers=input_containers, output_containers=output_containers)


def _container(value: ir.Value, rule: TargetNames) -> tuple[str, str] | None:
    """Return the dtype of a tensor, and the wider dtype that replaces it in a target which lacks it.

    Returns None if the target has the dtype.
    """
    if not isinstance(value.type, ir.TensorType) or value.dtype in (None, ir.DataType.STRING) or not rule.containers:
        return None
    own = value.dtype.numpy().name
    return (own, rule.containers[own]) if own in rule.containers else None


def rename_io(model: ir.Model, rule: TargetNames, report: Report) -> None:
    """Rename the inputs and outputs of `model` in place as `rule` demands, and note each change in the report."""
    names = names_in_target(model, rule)
    for i, value in enumerate(model.graph.outputs):
        if value.is_graph_input() and names.outputs[str(value.name)] != names.inputs[str(value.name)]:
            model.graph.outputs[i] = _copied(model.graph, value)
    _rename(model, names)
    report.renamed = names.changed()
    for side, changed in report.renamed.items():
        for old, new in changed.items():
            report.note(
                f"the {side[:-1]} {old!r} is called {new!r} in the artefact, where its own name is not legal or taken",
                code="renamed",
            )
    for side, containers in (("input", names.input_containers), ("output", names.output_containers)):
        for name, (own, other) in containers.items():
            report.note(
                f"the {side} {name!r} of {own} is {other} in the artefact, each number in one of its own",
                code="wider-dtype",
            )


def restore_io_names(model: ir.Model, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Rename the inputs and outputs of a graph from a target back to their source names, in place.

    Both maps go from source to target.
    """
    back = Names({new: old for old, new in inputs.items()}, {new: old for old, new in outputs.items()})
    _rename(model, back)


def _copied(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """Return a copy of an input with the input's name; the caller renames it."""
    node = ir.node("Identity", [value])
    copy = node.outputs[0]
    copy.name, copy.type, copy.shape = value.name, value.type, value.shape
    graph.append(node)
    return copy


def _rename(model: ir.Model, names: Names) -> None:
    """Rename the inputs and outputs. Other values that already use one of the new names are renamed too."""
    graph = model.graph
    new_names = {v: names.outputs.get(str(v.name), str(v.name)) for v in graph.outputs}
    new_names |= {v: names.inputs.get(str(v.name), str(v.name)) for v in graph.inputs}
    if all(v.name == new for v, new in new_names.items()):
        return
    inner = [v for v in _values(model) if v not in new_names]
    fresh = set(new_names.values())
    taken = fresh | {str(v.name) for v in inner}
    for value in [v for v in inner if v.name in fresh]:
        number = 1
        while f"{value.name}_{number}" in taken:
            number += 1
        taken.add(f"{value.name}_{number}")
        _rename_in_gradients(graph, {str(value.name): f"{value.name}_{number}"})
        value.name = f"{value.name}_{number}"
    _rename_in_gradients(graph, {str(v.name): new for v, new in new_names.items()})
    # Rename through temporary names: two values may swap their names.
    for number, value in enumerate(new_names):
        value.name = f"\0{number}"
    for value, new in new_names.items():
        value.name = new


def _rename_in_gradients(graph: ir.Graph, names: Mapping[str, str]) -> None:
    """Rename values in Gradient (ONNX's training domain), the only operator with value names among its attributes."""
    for node in (n for n in nodes_of(graph) if n.op_type == "Gradient"):
        for attribute in list(node.attributes.values()):
            if attribute.type == ir.AttributeType.STRINGS:
                node.attributes.add(ir.AttrStrings(attribute.name, [names.get(s, s) for s in attribute.as_strings()]))
            elif attribute.name == "y":
                node.attributes.add(ir.AttrString("y", names.get(attribute.as_string(), attribute.as_string())))


def _values(model: ir.Model) -> Sequence[ir.Value]:
    """Return every value of the model once, including those of subgraphs."""
    return list(dict.fromkeys(_each_value(model)))


def _each_value(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.inputs
        yield from graph.initializers.values()
    for node in nodes_of(model.graph):
        yield from (v for v in node.outputs if v.name)
