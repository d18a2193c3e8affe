"""Lifts Scan-8, which has a batch axis and a length for each sequence, to two nested Scans of later opsets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.values import known_dims

_FIRST = np.zeros(1, np.int64)
"""The first axis, and the index 0."""


def lift_scan(g: Graph, node: ir.Node, target: int) -> Sequence[ir.Value]:
    """Return a Scan over the batch around a Scan over the steps; outputs beyond the length of a sequence are zero."""
    lengths, *rest = node.inputs
    count = node.attributes.get_int("num_scan_inputs", 0)
    given = [x for x in (lengths, *rest) if x is not None]
    one = g.body("one_of_the_batch")
    rows = [one.input("row", x.dtype or ir.DataType.FLOAT, _row_shape(x)) for x in given]
    length = rows.pop(0) if lengths is not None else None
    states, sequences = rows[: len(rows) - count], rows[len(rows) - count :]
    steps = one.Shape(sequences[0], start=0, end=1)
    if length is not None:
        length = one.Reshape(length, np.ones(1, np.int64))
        sequences = [one.Slice(x, _FIRST, length, _FIRST) for x in sequences]
    attributes = {"num_scan_inputs": count, "scan_input_directions": node.attributes.get_ints("directions")}
    made = _as_list(one.node("Scan", [*states, *sequences], {"body": node.attributes["body"], **attributes},
                            outputs=len(node.outputs)))  # fmt: skip
    if length is not None:
        widths = one.Concat(_FIRST, one.Sub(steps, length), axis=0)
        made[len(states) :] = [one.Pad(y, widths, None, _FIRST) for y in made[len(states) :]]
    for y in made:
        one.output(y)
    return _as_list(g.node("Scan", given, {"body": one, "num_scan_inputs": len(given)}, outputs=len(made)))


def _row_shape(x: ir.Value) -> list[int | str | None] | None:
    """Return the dims of one element of a batch."""
    found = known_dims(x)
    return None if found is None else list(found[1:])


def _as_list(made: ir.Value | list[ir.Value]) -> list[ir.Value]:
    return made if isinstance(made, list) else [made]
