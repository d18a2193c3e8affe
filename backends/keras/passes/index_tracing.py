"""Traces elements through nodes that only move them, by applying the nodes to an array of indices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.movements import move
from convert.graph.values import Dim, dims, input_at

# Maximum number of elements to trace.
_LARGEST = 1 << 24

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23)


class PrimeSizes:
    """Numbers for dims that have only names: primes, so that no two products of them are equal."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def bind(self, value: ir.Value) -> tuple[int, ...] | None:
        """Return the shape of a value with numbers for all names; None if it is unknown or too large."""
        shape = dims(value) if value.shape is not None else (None,)
        for d in shape:
            if isinstance(d, str) and d not in self._of and len(self._of) < len(_PRIMES):
                self._of[d] = _PRIMES[len(self._of)]
        found = self.of(shape)
        return None if -1 in found or math.prod(found) > _LARGEST else found

    def of(self, shape: Sequence[Dim]) -> tuple[int, ...]:
        """Return dims as numbers, -1 for those without one."""
        return tuple(d if isinstance(d, int) else self._of.get(d or "", -1) for d in shape)


def moved_places(node: ir.Node, output: int, places: np.ndarray, sizes: PrimeSizes) -> np.ndarray | None:
    """Return the indices of a node's output, or None if the node does more than move elements of its first input.

    places: the index of each element of the first input.
    """
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    return None if rule is None or node.outputs[output].shape is None else rule(node, output, places, sizes)


def is_movement(node: ir.Node | None) -> bool:
    """Return whether `moved_places` can trace the node."""
    return node is not None and node.domain == "" and node.op_type in _RULES


def _reshape_places(node: ir.Node, output: int, places: np.ndarray, sizes: PrimeSizes) -> np.ndarray | None:
    shape = sizes.of(dims(node.outputs[output]))
    rest = math.prod(n for n in shape if n != -1)
    if shape.count(-1) > 1 or rest == 0 or places.size % rest or (-1 not in shape and rest != places.size):
        return None
    return places.reshape(shape)


def _moved_places(node: ir.Node, output: int, places: np.ndarray, sizes: PrimeSizes) -> np.ndarray | None:
    constants = [_constant_input(node, i) for i in range(1, len(node.inputs))]
    if any(c is None and v is not None for c, v in zip(constants, node.inputs[1:], strict=True)):
        return None
    attributes = {a.name: a.value for a in node.attributes.values()}
    axes = [] if node.op_type == "Transpose" else [attributes.get("axis", 0)]
    if node.op_type == "Slice":
        starts, _, given, steps = [*constants, None, None][:4]
        assert starts is not None
        axes = given.tolist() if given is not None else list(range(len(starts)))
        if steps is not None and (steps < 1).any():
            return None
    if not all(_is_known_length(node, axis) for axis in axes):
        return None
    try:
        return move(node.op_type, places, *constants, **attributes)[output]
    except (ValueError, IndexError):
        return None


def _constant_input(node: ir.Node, index: int) -> np.ndarray | None:
    value = input_at(node, index)
    return None if value is None or value.const_value is None else value.const_value.numpy()


def _is_known_length(node: ir.Node, axis: int) -> bool:
    """Return whether the first input's length along an axis is known; otherwise which elements are picked depends on
    it.
    """
    x = node.inputs[0]
    return x is not None and x.shape is not None and isinstance(dims(x)[axis], int)


_RULES = {
    "Flatten": _reshape_places,
    "Gather": _moved_places,
    "Identity": _reshape_places,
    "Reshape": _reshape_places,
    "Slice": _moved_places,
    "Split": _moved_places,
    "Squeeze": _reshape_places,
    "Transpose": _moved_places,
    "Unsqueeze": _reshape_places,
}
