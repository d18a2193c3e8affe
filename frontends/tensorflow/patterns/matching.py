"""Helpers of rules that look at the operators before them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph.tensors import dims_of


def inputs_of(value: ir.Value | None, operator: str) -> list[ir.Value]:
    """Return the inputs of the node that computes `value` if it is of that type, else an empty list."""
    maker = value.producer() if value is not None else None
    if maker is None or maker.op_type != operator or maker.domain:
        return []
    return [v for v in maker.inputs if v is not None]


def operand_pairs(value: ir.Value | None, operator: str) -> list[tuple[ir.Value, ir.Value]]:
    """Return the two inputs of a commutative operator, in both orders."""
    found = inputs_of(value, operator)
    return [(found[0], found[1]), (found[1], found[0])] if len(found) == 2 else []


def single_value(values: Sequence[ir.Value]) -> ir.Value | None:
    """Return the single value, or None for none or several."""
    return values[0] if len(values) == 1 else None


def varies_along_last(value: ir.Value, size: int) -> bool:
    """Return whether a constant varies along the last dim only, which has `size` elements."""
    tensor = value.const_value
    return tensor is not None and tensor.size == size and bool(tensor.shape) and dims_of(tensor)[-1] == size


def perm_of(value: ir.Value | None) -> tuple[ir.Value, list[int]] | None:
    """Return the input of a Transpose and its permutation; None for other values."""
    source = single_value(inputs_of(value, "Transpose"))
    maker = value.producer() if value is not None else None
    if source is None or maker is None or "perm" not in maker.attributes:
        return None
    return source, list(maker.attributes["perm"].as_ints())
