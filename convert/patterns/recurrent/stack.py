"""Stacked cells in one iteration of a loop: the lowest reads the sequence, each other the output of the one below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from convert.graph import Graph
from convert.patterns.recurrent.cells import RecurrentCell, match_gru, match_lstm, match_simple_rnn


@dataclass(frozen=True)
class RecurrentLayer:
    """A cell, its input in an iteration, and its own states among the loop's, in ONNX's order."""

    cell: RecurrentCell
    x: ir.Value
    states: tuple[int, ...]


def match_layers(element: ir.Value, inner: Sequence[ir.Value], results: Sequence[ir.Value]) -> list[RecurrentLayer]:
    """Return the layers whose states are `inner` before and `results` after, lowest first; `element` is the
    sequence's.
    """
    layers: list[RecurrentLayer] = []
    left = [k for k, state in enumerate(inner) if any(node.op_type != "Where" for node, _ in state.uses())]
    inputs = [element]
    while left:
        found = _next_layer(inputs, inner, results, left)
        if found is None:
            break
        layers.append(found)
        left = [k for k in left if k not in found.states]
        inputs += [found.cell.hidden, *_residual_sums(found.cell.hidden, inputs)]
    return layers


def lift_to_sequence(g: Graph, value: ir.Value, known: Mapping[ir.Value, ir.Value]) -> ir.Value | None:
    """Return the sequence of a value over all iterations. `known` maps values to their sequences; sums of such values
    are found too.
    """
    if value in known:
        return known[value]
    maker = value.producer()
    if maker is None or maker.op_type != "Add" or maker.domain or None in maker.inputs:
        return None
    parts = [lift_to_sequence(g, x, known) for x in maker.inputs if x is not None]
    return None if None in parts else g.Add(*parts)


def _next_layer(
    inputs: Sequence[ir.Value], inner: Sequence[ir.Value], results: Sequence[ir.Value], left: Sequence[int]
) -> RecurrentLayer | None:
    """Return a layer over one of `inputs` whose states are in `left`."""
    for x in reversed(inputs):
        for h in left:
            for c in left:
                cell = match_lstm(x, inner[h], inner[c], results[h], results[c]) if c != h else None
                if cell is not None:
                    return RecurrentLayer(cell, x, (h, c))
        for h in left:
            single: Sequence[Callable[..., RecurrentCell | None]] = (match_gru, match_simple_rnn)
            for recognize in single:
                cell = recognize(x, inner[h], results[h])
                if cell is not None:
                    return RecurrentLayer(cell, x, (h,))
    return None


def _residual_sums(hidden: ir.Value, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the sums of a layer's output and its input, as in a residual connection."""
    found = []
    for node, _ in hidden.uses():
        if node.op_type == "Add" and not node.domain and all(x is hidden or x in inputs for x in node.inputs):
            found.append(node.outputs[0])
    return found
