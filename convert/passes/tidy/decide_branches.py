"""Inlines branches with constant conditions; repeats folding and inference as long as that decides more.

PyTorch's exporter writes `squeeze` and packed sequences as Ifs on the size of a dim. If the dims of the input are
known, or an input is fixed, most of them are decided. Computed sizes (pads, shapes of Reshapes) are hidden from
inference until they are folded, so folding, inlining and inference alternate.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from convert.graph import register_initializer
from convert.graph.shape_inference import infer_facts
from convert.graph.values import constant, known_dims
from convert.passes.tidy.clean import drop_identities, drop_unused, lift_constants
from convert.passes.tidy.fold import fold_constants

_ROUNDS = 32
"""More rounds than any observed chain of decisions needed; the rest is decided at run time."""


def decide_branches(model: ir.Model) -> bool:
    """Replace each If with a constant condition by the taken branch, and infer shapes again.

    Returns whether any was replaced.

    A model without an If, and with only known or named dims, is left unchanged. Only small weights are read.
    """
    modified = False
    for _ in range(_ROUNDS):
        if not _is_open(model):
            break
        lift_constants(model)
        folded = drop_identities(model) | fold_constants(model, sizes_only=True)
        inlined = [_inline(model, node) for node in list(model.graph.all_nodes()) if _is_decided(node)]
        if not folded and not inlined:
            break
        drop_unused(model)
        infer_facts(model)
        modified = True
    return modified


def _is_open(model: ir.Model) -> bool:
    """Return whether something is undecided: an If, or a tensor with an unknown dim."""
    nodes = list(model.graph.all_nodes())
    if any(node.op_type == "If" and not node.domain for node in nodes):
        return True
    shapes = (known_dims(v) for node in nodes for v in node.outputs if not isinstance(v.type, ir.SequenceType))
    return any(shape is None or None in shape for shape in shapes)


def _is_decided(node: ir.Node) -> bool:
    if node.op_type != "If" or node.domain or node.graph is None:
        return False
    condition = constant(node.inputs[0])
    return condition is not None and condition.size == 1


def _inline(model: ir.Model, node: ir.Node) -> bool:
    """Replace an If by the nodes of the branch that is taken."""
    graph = node.graph
    condition = constant(node.inputs[0])
    assert graph is not None
    assert condition is not None
    branch = node.attributes["then_branch" if condition.numpy().item() else "else_branch"].as_graph()
    taken = Counter(_names(model))
    for value in list(branch.initializers.values()):
        assert value.const_value is not None
        kept = register_initializer(model.graph, value.name or "const", value.const_value)
        value.replace_all_uses_with(kept, replace_graph_outputs=True)
    inner = list(branch)
    results = list(branch.outputs)
    branch.outputs.clear()
    branch.remove(inner)
    for value in (v for made in inner for v in made.outputs):
        value.name = _free(value.name or "value", taken)
    ties = []
    for old, result in zip(node.outputs, results, strict=True):
        if old.is_graph_output():  # the output keeps its name
            tie = ir.Node("", "Identity", [result], num_outputs=1, name=f"{node.name}_{old.name}")
            made, name = tie.outputs[0], old.name
            old.replace_all_uses_with(made, replace_graph_outputs=True)
            old.name, made.name, made.type, made.shape = None, name, old.type, old.shape
            ties.append(tie)
        else:
            old.replace_all_uses_with(result)
    graph.insert_before(node, [*inner, *ties])
    graph.remove(node, safe=True)
    return True


def _names(model: ir.Model) -> Iterator[str]:
    """Yield the names of all values, including those of subgraphs."""
    for graph in model.graphs():
        outputs = (value for node in graph for value in node.outputs)
        yield from (v.name for v in (*graph.inputs, *graph.initializers.values(), *outputs) if v.name)


def _free(name: str, taken: Counter[str]) -> str:
    """Return `name` if it is unique, else the first of `name_1`, … that no value has; mark the result as taken.

    A value in a branch may share its name with a value in another branch.
    """
    if taken[name] > 1:
        taken[name] -= 1
        name = next(n for n in (f"{name}_{i}" for i in itertools.count(1)) if n not in taken)
        taken[name] = 1
    return name
