"""Booleans and integers that were decided by comparing or rounding numbers: which of them rounding may flip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph.tensors import widened_array
from convert.parity.inputs import Feed
from convert.parity.magnitudes import noise_beside

_COMPARING = frozenset({"Greater", "Less", "GreaterOrEqual", "LessOrEqual"})
# Where the result jumps: at whole numbers, or half way between them.
_ROUNDING = {"Floor": 0.0, "Ceil": 0.0, "Round": 0.5}
# Operators that leave the elements in their order.
_PASSING = frozenset({"Identity", "Not", "Squeeze", "Unsqueeze", "Reshape", "Flatten"})


def is_within_noise(
    graph: ir.Model,
    name: str,
    feeds: Sequence[Feed],
    references: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    factor: float,
) -> bool:
    """Whether every element that differs was decided by a margin that rounding can cross.

    Output `name` has to come from a comparison, or from the rounding of floating numbers. What was compared or rounded
    is evaluated in float64, where it may be at most `factor` times the float32 error that the graph has on numbers of
    its magnitude away from the place at which the result changes.
    """
    value = next((v for v in graph.graph.outputs if v.name == name), None)
    node = _deciding_node(value.producer() if value is not None else None)
    if node is None:
        return False
    try:
        return all(
            r.shape == t.shape
            and _is_near_tie(graph, node, feed, np.ravel(r != t), factor)
            and _is_one_step_apart(r, t)
            for feed, r, t in zip(feeds, references, targets, strict=True)
        )
    except ConvertError:
        return False


def _deciding_node(node: ir.Node | None) -> ir.Node | None:
    while node is not None and node.op_type not in _COMPARING:
        source = node.inputs[0] if node.inputs else None
        if source is None or node.op_type not in _PASSING | {"Cast"}:
            return None
        if node.op_type == "Cast" and source.dtype is not None and source.dtype.is_floating_point():
            return node
        node = source.producer()
    return node


def _is_near_tie(graph: ir.Model, node: ir.Node, feed: Feed, differs: np.ndarray, factor: float) -> bool:
    if not differs.any():
        return True
    from convert.passes.to_float64 import widen_model

    exact, rounded = (_deciding_margin(model, node, feed.arrays) for model in (widen_model(graph), graph))
    noise = noise_beside(exact, rounded)
    if node.op_type == "Cast":
        jump = _rounding_error(node)
        exact = exact - jump - np.rint(exact - jump)
    if exact.size != differs.size:
        return False
    # What is equal in float64 was no matter of rounding: which way it goes then is what the operator says.
    margins = np.abs(exact.ravel()[differs])
    return bool(((margins > 0) & (margins <= factor * noise.ravel()[differs])).all())


def _is_one_step_apart(reference: np.ndarray, target: np.ndarray) -> bool:
    return bool((np.abs(reference.astype(np.float64) - target.astype(np.float64)) <= 1).all())


def _rounding_error(node: ir.Node) -> float:
    source = node.inputs[0]
    before = source.producer() if source is not None else None
    return _ROUNDING.get(before.op_type, 0.0) if before is not None else 0.0


def _deciding_margin(model: ir.Model, node: ir.Node, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The difference of what is compared, or what is rounded, in float64."""
    values = list(node.inputs[: 2 if node.op_type in _COMPARING else 1])
    before = values[0].producer() if values[0] is not None else None
    if node.op_type == "Cast" and before is not None and before.op_type in _ROUNDING:
        values = [before.inputs[0]]
    found = [_array(model, v, arrays) for v in values]
    return found[0] - found[1] if len(found) == 2 else found[0]


def _array(model: ir.Model, value: ir.Value | None, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    from convert.reference.executor import run

    assert value is not None
    if value.const_value is not None:
        return widened_array(value.const_value.numpy()).astype(np.float64)
    name = str(value.name)
    return widened_array(run(model, arrays, outputs=[name])[name]).astype(np.float64)


def quantizes(graph: ir.Model) -> bool:
    """Whether a rounding may come out as a whole step, which no move by a unit in the last place need show."""
    return any("Quantize" in n.op_type or n.op_type.endswith("Integer") for n in graph.graph.all_nodes())
