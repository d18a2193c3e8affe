"""Gives the inputs and outputs of a graph the names that they have in a target, and takes them back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from convert.graph.values import nodes_of
from convert.naming import Names, TargetNames
from convert.report import Report


def names_in_target(model: ir.Model, rule: TargetNames) -> Names:
    """What the inputs and outputs of `model` are called in a target of `rule`."""
    sides = model.graph.inputs, model.graph.outputs
    inputs, outputs = ([str(v.name) for v in side] for side in sides)
    input_containers, output_containers = (
        {str(v.name): d for v in side if (d := _container(v, rule))} for side in sides
    )
    return replace(rule.of(inputs, outputs), input_containers=input_containers, output_containers=output_containers)


def _container(value: ir.Value, rule: TargetNames) -> tuple[str, str] | None:
    """The dtype of a tensor, and the one that holds it in a target that lacks it."""
    if not isinstance(value.type, ir.TensorType) or value.dtype in (None, ir.DataType.STRING) or not rule.containers:
        return None
    own = value.dtype.numpy().name
    return (own, rule.containers[own]) if own in rule.containers else None


def rename_ends(model: ir.Model, rule: TargetNames, report: Report) -> None:
    """Call the inputs and outputs of `model` what `rule` allows, in place; the report says what is called otherwise."""
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


def restore_ends(model: ir.Model, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Call the ends of what was read from a target what its source calls them, in place; both map source to target."""
    back = Names({new: old for old, new in inputs.items()}, {new: old for old, new in outputs.items()})
    _rename(model, back)


def _copied(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """A copy of an input under its name, which is to be renamed."""
    node = ir.node("Identity", [value])
    copy = node.outputs[0]
    copy.name, copy.type, copy.shape = value.name, value.type, value.shape
    graph.append(node)
    return copy


def _rename(model: ir.Model, names: Names) -> None:
    """New names for the ends; other values that are called so make way."""
    graph = model.graph
    ends = {v: names.outputs.get(str(v.name), str(v.name)) for v in graph.outputs}
    ends |= {v: names.inputs.get(str(v.name), str(v.name)) for v in graph.inputs}
    if all(v.name == new for v, new in ends.items()):
        return
    inner = [v for v in _values(model) if v not in ends]
    fresh = set(ends.values())
    taken = fresh | {str(v.name) for v in inner}
    for value in [v for v in inner if v.name in fresh]:
        number = 1
        while f"{value.name}_{number}" in taken:
            number += 1
        taken.add(f"{value.name}_{number}")
        _rename_in_gradients(graph, {str(value.name): f"{value.name}_{number}"})
        value.name = f"{value.name}_{number}"
    _rename_in_gradients(graph, {str(v.name): new for v, new in ends.items()})
    # By way of names that nothing has: two may change places.
    for number, value in enumerate(ends):
        value.name = f"\0{number}"
    for value, new in ends.items():
        value.name = new


def _rename_in_gradients(graph: ir.Graph, names: Mapping[str, str]) -> None:
    """Gradient of ONNX's training domain is the one operator that has names of values among its attributes."""
    for node in (n for n in nodes_of(graph) if n.op_type == "Gradient"):
        for attribute in list(node.attributes.values()):
            if attribute.type == ir.AttributeType.STRINGS:
                node.attributes.add(ir.AttrStrings(attribute.name, [names.get(s, s) for s in attribute.as_strings()]))
            elif attribute.name == "y":
                node.attributes.add(ir.AttrString("y", names.get(attribute.as_string(), attribute.as_string())))


def _values(model: ir.Model) -> Sequence[ir.Value]:
    """Every value of the model, those of subgraphs too, once."""
    return list(dict.fromkeys(_each_value(model)))


def _each_value(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.inputs
        yield from graph.initializers.values()
    for node in nodes_of(model.graph):
        yield from (v for v in node.outputs if v.name)
