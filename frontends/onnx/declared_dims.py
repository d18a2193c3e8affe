"""Checks the names that a file gives to dims of outputs, and of the states of loops.

No runtime enforces such a name, but readers and passes take two dims of one name for equal. Names of inputs are
believed. A name of an output is dropped if ONNX's inference finds another size for it than for the input. Verification
compares sizes that inference does not find, such as the length of a NonZero.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from convert.graph.shape_inference import infer_facts, subgraphs
from convert.graph.values import Dim, known_dims

Declared = Mapping[ir.Value, tuple[Dim, ...] | None]
"""The shapes in the file of the outputs of all graphs, including those of subgraphs."""

_STEPS = ((3, 2), (192, 64))
"""The first size of a dim, and the step from one name to the next. The second set fits networks that halve pictures."""


def false_names(model: ir.Model, declared: Declared) -> dict[ir.Value, set[int]]:
    """Return the axes whose declared names are false, for outputs and states of loops of all graphs.

    model: with inferred shapes, in which the outputs have no declared ones. If these confirm all names, nothing is
    inferred again.
    """
    if not any(_open_axes(y, own) for y, own in declared.items()):
        return {}
    values = _values(model)
    found: dict[ir.Value, set[int]] = {}
    for first, step in _STEPS:
        copy = model.clone()
        theirs = dict(zip(values, _values(copy), strict=True))
        sizes = _give_sizes(copy, first, step)
        infer_facts(copy)
        for value, axes in _refuted(declared, theirs, sizes).items():
            found.setdefault(value, set()).update(axes)
    return found


def _open_axes(value: ir.Value, own: tuple[Dim, ...] | None) -> list[int]:
    """Return the axes of names that inference has not confirmed."""
    found = known_dims(value)
    if own is None or (found is not None and len(found) != len(own)):
        return []
    inferred = found or (None,) * len(own)
    return [a for a, (d, new) in enumerate(zip(own, inferred, strict=True)) if isinstance(d, str) and d != new]


def _values(model: ir.Model) -> list[ir.Value]:
    """Return the inputs and outputs of all graphs, in an order that clones share."""
    graphs = [model.graph]
    for graph in graphs:
        for node in graph:
            for attribute in node.attributes.values():
                graphs += subgraphs(attribute)
    return [value for graph in graphs for value in (*graph.inputs, *graph.outputs)]


def _give_sizes(model: ir.Model, first: int, step: int) -> dict[str, int]:
    """Replace the names of the inputs of all graphs by sizes, one for each name; return them.

    The shapes of all outputs are cleared.
    """
    sizes: dict[str, int] = {}
    for graph in model.graphs():
        for value in graph.outputs:
            if not value.is_graph_input():
                value.shape = None
        for value in graph.inputs:
            own = known_dims(value)
            if own is not None:
                names = [d for d in own if isinstance(d, str)]
                for name in names:
                    sizes.setdefault(name, first + step * len(sizes))
                value.shape = ir.Shape([sizes[d] if isinstance(d, str) else d for d in own])
    return sizes


def _refuted(
    declared: Declared, theirs: Mapping[ir.Value, ir.Value], sizes: dict[str, int]
) -> dict[ir.Value, set[int]]:
    """Return the axes whose sizes differ from those of the name: of inputs, or of the output that has it first."""
    found: dict[ir.Value, set[int]] = {}
    for value, own in declared.items():
        inferred = known_dims(theirs[value])
        if own is None or inferred is None or len(inferred) != len(own):
            continue
        for axis, (name, size) in enumerate(zip(own, inferred, strict=True)):
            if isinstance(name, str) and isinstance(size, int) and sizes.setdefault(name, size) != size:
                found.setdefault(value, set()).add(axis)
    return found
