"""Sorts by TopK over all elements, which is stable; several keys are sorted one by one, starting with the last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..regions import Region, attribute_of, maker
from ..rules import tensor_op
from ..values import join_pairs, part_owners, plain, split_pairs, whole

Key = tuple[int, str]
"""What a comparator compares: an operand, by its index, or the `real` or `imag` part of one."""


@tensor_op("sort")
def sort(g, *operands, dimension, regions, results, is_stable=False):
    """Return the sorted operands. The comparator must compare keys that are operands; the first key that differs
    decides.
    """
    axis = dimension % results[0].rank
    keys = sort_keys(regions[0])
    if keys is None:
        raise Unsupported("an order that is not that of one or several operands")
    order: ir.Value | None = None
    parts = [whole(g, t).value for t in split_pairs(operands)]
    for (number, part), descending in reversed(keys):
        key = whole(g, getattr(operands[number], part) if part else operands[number]).value
        if order is not None:
            key = g.GatherElements(key, order, axis=axis)
        values, places = sorted_places(g, key, axis, descending)
        if len(parts) == 1:
            same = values.dtype == key.dtype
            return [values if same else g.GatherElements(key, places, axis=axis)]
        order = places if order is None else g.GatherElements(order, places, axis=axis)
    found = []
    for x, owner in zip(parts, part_owners(results), strict=True):
        tensor = plain(g.GatherElements(x, order, axis=axis), results[owner].dims)
        found.append(replace(tensor, value=g.facts(tensor.value, x.dtype, tensor.dims)))
    return join_pairs(found, results)


def sorted_places(g: Graph, key: ir.Value, axis: int, descending: bool) -> tuple[ir.Value, ir.Value]:
    """Return the sorted elements and their former indices."""
    key = sortable(g, key)
    length = g.shape(key)[axis]
    count = g.const(np.array([length], np.int64)) if isinstance(length, int) else g.Shape(key, start=axis, end=axis + 1)
    values, places = g.TopK(key, count, axis=axis, largest=int(descending), sorted=1, outputs=2)
    return values, places


def sortable(g: Graph, key: ir.Value) -> ir.Value:
    """Return numbers in the same order, in a dtype that runtimes can sort."""
    if key.dtype in _COUNTED_WIDER:
        return g.Cast(key, to=_COUNTED_WIDER[key.dtype])
    if key.dtype == ir.DataType.UINT64:  # shifted by 2^63, unsigned numbers become signed ones in the same order
        return g.Cast(g.Add(key, g.const(2**63, key.dtype)), to=ir.DataType.INT64)
    return key


_COUNTED_WIDER = {
    ir.DataType.BOOL: ir.DataType.INT32, ir.DataType.INT8: ir.DataType.INT32, ir.DataType.INT16: ir.DataType.INT32,
    ir.DataType.UINT8: ir.DataType.INT32, ir.DataType.UINT16: ir.DataType.INT32, ir.DataType.UINT32: ir.DataType.INT64,
    ir.DataType.BFLOAT16: ir.DataType.FLOAT,
}  # fmt: skip
"""Dtypes that onnxruntime sorts in the same order, by dtypes that it does not sort."""


def sort_keys(region: Region) -> list[tuple[Key, bool]] | None:
    """Return the compared operands, the deciding one first, and whether the largest comes first.

    A comparator is `a < b`, or for several keys `a₁ < b₁ or (a₁ = b₁ and a₂ < b₂)`, as jax.lax.sort writes it.
    """
    return _keys(region, region.returned()[0], 0)


def _keys(region: Region, value: Any, depth: int) -> list[tuple[Key, bool]] | None:
    op = maker(value)
    if op is None or depth > 64:
        return None
    if op.name == "stablehlo.compare":
        pair = _compared_pair(region, op)
        direction = attribute_of(op, "comparison_direction")
        if pair is None or direction not in ("LT", "GT"):
            return None
        number, swapped = pair
        return [(number, (direction == "GT") != swapped)]
    if op.name == "stablehlo.or":  # compare the first key; if the first keys are equal, compare the others
        for first, second in (op.operands, reversed(list(op.operands))):
            found = _first_and_rest(region, first, second, depth)
            if found is not None:
                return found
    if op.name == "stablehlo.select":  # select(equal, others, first)
        equal, others, first = op.operands
        return _joined_keys(region, equal, first, others, depth)
    return None


def _first_and_rest(region: Region, first: Any, second: Any, depth: int) -> list[tuple[Key, bool]] | None:
    both = maker(second)
    if both is None or both.name != "stablehlo.and":
        return None
    for equal, others in (both.operands, reversed(list(both.operands))):
        found = _joined_keys(region, equal, first, others, depth)
        if found is not None:
            return found
    return None


def _joined_keys(region: Region, equal: Any, first: Any, others: Any, depth: int) -> list[tuple[Key, bool]] | None:
    same = maker(equal)
    if same is None or same.name != "stablehlo.compare" or attribute_of(same, "comparison_direction") != "EQ":
        return None
    head, pair, rest = _keys(region, first, depth + 1), _compared_pair(region, same), _keys(region, others, depth + 1)
    if head is None or rest is None or pair is None or len(head) != 1 or head[0][0] != pair[0]:
        return None
    return [*head, *rest]


def _compared_pair(region: Region, op: Any) -> tuple[Key, bool] | None:
    """Return the key that is compared, and whether the second element comes first."""
    places = [_argument_behind(region, v) for v in op.operands]
    if None in places:
        return None
    (one, part), (other, other_part) = (place for place in places if place is not None)
    if one // 2 != other // 2 or one == other or part != other_part:
        return None
    return (one // 2, part), one % 2 == 1


def _argument_behind(region: Region, value: Any, depth: int = 0) -> tuple[int, str] | None:
    """Return the argument that a value has the order of, and which part of it if it is complex: before comparing, JAX
    makes -0 equal to 0, and all NaNs equal.
    """
    arguments = list(region.block.arguments)
    for number, argument in enumerate(arguments):
        if argument == value:
            return number, ""
    op = maker(value)
    if op is None or depth > 4:
        return None
    if op.name in ("stablehlo.real", "stablehlo.imag") and op.operands[0] in arguments:
        return arguments.index(op.operands[0]), op.name.removeprefix("stablehlo.")
    if op.name == "stablehlo.select":
        test = maker(op.operands[0])
        if test is not None and test.name == "stablehlo.compare":
            one, other = test.operands
            direction = attribute_of(test, "comparison_direction")
            if (direction, _is_zero(other)) == ("EQ", True) or (direction == "NE" and one == other):
                found = _argument_behind(region, op.operands[2], depth + 1)
                return found if found is not None and found == _argument_behind(region, one, depth + 1) else None
    return None


def _is_zero(value: Any) -> bool:
    op = maker(value)
    return op is not None and op.name == "stablehlo.constant" and not np.asarray(attribute_of(op, "value")).any()
