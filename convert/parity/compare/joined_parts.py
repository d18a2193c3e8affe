"""Find the parts that a graph joins to one output, such as the boxes and the probabilities of a detector.

In an 8-bit tensor all parts share one scale. Next to boxes of hundreds of pixels, probabilities between 0 and 1 become
one value. The boxes dominate every measure of the whole tensor, so each part is judged by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph.values import MOVES

_ELEMENTWISE = frozenset(
    (
        "Cast", "Clip", "DequantizeLinear", "Exp", "HardSigmoid", "LeakyRelu", "Neg", "QuantizeLinear", "Relu",
        "Sigmoid", "Tanh",
    )
)  # fmt: skip
"""Operators that compute each element from the element of their first input at the same index."""


@dataclass(frozen=True)
class Part:
    """A value that is joined to others, and its number in the labels of `label_parts`."""

    number: int
    value: ir.Value


def find_parts(output: ir.Value) -> list[Part]:
    """Return the distinct values that Concat nodes before `output` join, in the order of the Concat; [] if there is
    none.
    """
    found: list[ir.Value] = []
    _collect(output, found, joined=False)
    return [Part(number, value) for number, value in enumerate(dict.fromkeys(found))]


def _collect(value: ir.Value, found: list[ir.Value], *, joined: bool) -> None:
    node = value.producer()
    operator = node.op_type if node is not None and not node.domain else ""
    if node is not None and operator == "Concat" and len(node.inputs) > 1:
        for part in node.inputs:
            assert part is not None
            _collect(part, found, joined=True)
    elif node is not None and operator in MOVES | _ELEMENTWISE and _has_parts(node.inputs[0]):
        assert node.inputs[0] is not None
        _collect(node.inputs[0], found, joined=joined)
    elif joined:
        found.append(value)


def _has_parts(value: ir.Value | None) -> bool:
    """Return whether a Concat is reached through operators that do not mix elements."""
    while value is not None and (node := value.producer()) is not None and not node.domain:
        if node.op_type == "Concat" and len(node.inputs) > 1:
            return True
        if node.op_type not in MOVES | _ELEMENTWISE:
            return False
        value = node.inputs[0]
    return False


def label_parts(
    model: ir.Model, output: ir.Value, parts: Sequence[Part], arrays: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return, for each element of `output` on these inputs, the number of the part that it comes from.

    The result is int64 in the shape of the output. Raises `ConvertError` if the graph does not run.
    """
    from convert.reference.executor import Executor, run

    asked = {str(part.value.name) for part in parts} | _moving_inputs(output)
    known = {str(v.name) for v in model.graph.inputs} | {str(n) for n in model.graph.initializers}
    values = {**arrays, **(run(model, arrays, outputs=sorted(asked - known)) if asked - known else {})}
    numbers = {part.value: part.number for part in parts}

    def labels(value: ir.Value) -> np.ndarray:
        if value in numbers:
            return np.full(np.shape(values[str(value.name)]), numbers[value], np.int64)
        node = value.producer()
        assert node is not None
        if node.op_type == "Concat":
            axis = node.attributes.get_int("axis")
            return np.concatenate([labels(part) for part in node.inputs if part is not None], axis)
        first = node.inputs[0]
        assert first is not None
        if node.op_type in _ELEMENTWISE:
            return labels(first)
        executor = Executor(set(), False)
        rest = [values[v.name] if v is not None and v.name in values else executor.get(v) for v in node.inputs[1:]]
        return np.asarray(executor.results(node, [labels(first), *rest])[value.index() or 0])

    return labels(output)


def _moving_inputs(value: ir.Value) -> set[str]:
    """Return the names of computed values that control how elements move from parts to `value`, e.g. target shapes."""
    node = value.producer()
    if node is None or node.domain or not _has_parts(value):
        return set()
    if node.op_type == "Concat":
        return {name for part in node.inputs if part is not None for name in _moving_inputs(part)}
    rest = {str(v.name) for v in node.inputs[1:] if v is not None and v.const_value is None}
    first = node.inputs[0]
    assert first is not None
    return (rest if node.op_type in MOVES else set()) | _moving_inputs(first)
