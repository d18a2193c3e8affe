"""Reductions: ONNX's own sums, products, maxima and minima; any other function is applied to neighbours repeatedly."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.reductions import reduce_dims
from convert.graph.values import constant, inverse_permutation, known_dims

from ..regions import Region, attribute_of, maker
from ..rules import stablehlo_op, tensor_op
from ..types import FEW_BITS, FLOATS
from ..values import Tensor, shape_vector, whole
from .elementwise import is_bool

REDUCED = {"add": "ReduceSum", "multiply": "ReduceProd", "maximum": "ReduceMax", "minimum": "ReduceMin",
           "or": "ReduceMax", "and": "ReduceMin"}  # fmt: skip
"""ONNX's reductions, by the operator of the region; the last two are for booleans."""

JOINED = {"add": "Add", "multiply": "Mul", "maximum": "Max", "minimum": "Min"}


def neutral(monoid: str, dtype: ir.DataType) -> Any:
    """Return the neutral initial value of a reduction, which does not change the result."""
    kind = dtype.numpy()
    if dtype == ir.DataType.BOOL:
        return np.bool_(monoid in ("and", "multiply", "minimum"))
    if monoid in ("add", "multiply"):
        return kind.type(monoid == "multiply")
    if monoid in ("maximum", "minimum"):
        if dtype in FLOATS:
            return np.array(-np.inf if monoid == "maximum" else np.inf).astype(kind)[()]
        limits = np.iinfo(kind)
        return kind.type(limits.min if monoid == "maximum" else limits.max)
    return None


def is_neutral(start: ir.Value, monoid: str) -> bool:
    """Return whether a reduction starts with its neutral value."""
    known = constant(start)
    least = neutral(monoid, start.dtype) if start.dtype is not None else None
    if known is None or least is None:
        return False
    numbers = np.asarray(known.numpy()).ravel()
    return numbers.size == 1 and bool(numbers[0] == least)


@tensor_op("reduce")
def reduce(g, *operands, dimensions, regions, results):
    """Return the reductions. The inputs are the operands, followed by their initial values."""
    count = len(operands) // 2
    values, starts = [whole(g, t) for t in operands[:count]], [t.value for t in operands[count:]]
    axes = sorted(dimensions)
    region = regions[0]
    found = _known_reduction(g, values, starts, axes, region, results)
    if found is None:
        if not axes:
            return region.apply(g, [*starts, *(t.value for t in values)])
        found = fold_neighbours(g, [t.value for t in values], starts, axes, region)
    kept = [a for a in range(values[0].rank) if a not in axes]
    made = []
    for value, tensor in zip(found, values, strict=True):
        dims = tuple(tensor.dims[a] for a in kept)
        g.facts(value, shape=dims)
        made.append(Tensor(value, dims))
    return made


def _known_reduction(
    g: Graph, values: list[Tensor], starts: list[ir.Value], axes: list[int], region: Region, results: list
) -> list[ir.Value] | None:
    """Return a reduction that ONNX has an operator for; else None."""
    if len(values) == 1:
        found = reduced(g, values[0].value, starts[0], axes, region.monoid())
        return None if found is None else [found]
    direction = extreme_direction(region) if len(values) == 2 and len(axes) == 1 else ""
    if not direction or not is_counter(values[1].value, axes[0]):
        return None
    operator = "ArgMax" if direction in ("GT", "GE") else "ArgMin"
    x = values[0].value
    if x.dtype in FEW_BITS:
        x = g.Cast(x, to=ir.DataType.INT32)
    place = g.node(operator, [x], {"axis": axes[0], "keepdims": 0})
    extreme = reduce_dims(g, "ReduceMax" if operator == "ArgMax" else "ReduceMin", x, axes, keepdims=0)
    if extreme.dtype != values[0].value.dtype:
        extreme = g.Cast(extreme, to=g.dtype(values[0].value))
    return [extreme, g.Cast(place, to=results[1].dtype)]


def reduced(g: Graph, x: ir.Value, start: ir.Value, axes: list[int], monoid: str) -> ir.Value | None:
    """Return the reduction of one tensor by a function that ONNX has; else None."""
    of_booleans = is_bool(x)
    if of_booleans:
        monoid = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}.get(monoid, monoid)
    if monoid not in REDUCED or (monoid in ("or", "and") and not of_booleans):
        return None
    wide = g.dtype(x) in FEW_BITS
    found = reduce_dims(g, REDUCED[monoid], g.Cast(x, to=ir.DataType.INT32) if wide else x, axes, keepdims=0)
    if of_booleans:  # the maximum and minimum of no elements are the limits of int32
        found = g.Greater(found, g.const(0, ir.DataType.INT32))
    elif wide:
        found = g.Cast(found, to=g.dtype(x))
    if is_neutral(start, monoid):
        return found
    if of_booleans:
        return g.Or(found, start) if monoid == "or" else g.And(found, start)
    return g.node(JOINED[monoid], [found, start])


def is_counter(value: ir.Value, axis: int) -> bool:
    """Return whether a tensor holds only 0, 1, 2 … along an axis."""
    if (node := value.producer()) is not None and node.op_type == "Expand":
        inner = node.inputs[0]
        rank, own = len(known_dims(value) or ()), len(known_dims(inner) or ()) if inner is not None else 0
        return inner is not None and axis >= rank - own and is_counter(inner, axis - (rank - own))
    if node is not None and node.op_type in ("Unsqueeze", "Cast", "Range"):
        return _is_range(value, axis)
    known = constant(value)
    if known is None:
        return False
    array = known.numpy()
    shape = [1] * array.ndim
    if axis >= array.ndim:
        return False
    shape[axis] = array.shape[axis]
    return bool((array == np.arange(array.shape[axis]).reshape(shape)).all())


def _is_range(value: ir.Value, axis: int) -> bool:
    """Return whether a value is a Range from 0 in steps of 1 along an axis."""
    node = value.producer()
    dims = known_dims(value)
    if dims is None or any(d != 1 for a, d in enumerate(dims) if a != axis):
        return False
    while node is not None and node.op_type in ("Unsqueeze", "Cast"):
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node is None or node.op_type != "Range":
        return False
    start, step = constant(node.inputs[0]), constant(node.inputs[2])
    return start is not None and step is not None and (int(start.numpy()), int(step.numpy())) == (0, 1)


def extreme_direction(region: Region) -> str:
    """Return `GT` or `LT` for JAX's argmax and argmin: the extreme element with its index; ties take the first, NaN
    comes first.
    """
    returned = region.returned()
    if len(returned) != 2:
        return ""
    value, place = (maker(v) for v in returned)
    a, i, b, j = region.block.arguments  # an element and its index, and those of another element
    if value is None or place is None or {value.name, place.name} != {"stablehlo.select"}:
        return ""
    if list(value.operands)[1:] != [a, b] or list(place.operands)[1:] != [i, j]:
        return ""
    by_pair: dict[tuple[int, int], list[str]] = {}
    for op in region.operations():
        if op.name == "stablehlo.compare":
            pair = (hash(op.operands[0]), hash(op.operands[1]))
            by_pair.setdefault(pair, []).append(attribute_of(op, "comparison_direction"))
    values, places = by_pair.get((hash(a), hash(b)), []), by_pair.get((hash(i), hash(j)), [])
    others = {op.name for op in region.operations()} - _EXTREME
    direction = next((d for d in values if d in ("GT", "LT")), "")
    known = set(by_pair) <= {(hash(a), hash(b)), (hash(i), hash(j)), (hash(a), hash(a))}
    if others or not known or places != ["LT"] or set(values) - {direction, "EQ"}:
        return ""
    return direction


_EXTREME = {"stablehlo.compare", "stablehlo.or", "stablehlo.and", "stablehlo.select", "stablehlo.return"}


def fold_neighbours(
    g: Graph, values: list[ir.Value], starts: list[ir.Value], axes: list[int], region: Region
) -> list[ir.Value]:
    """Reduce by any function: combine each element with its neighbour until one is left, along one axis after the
    other.

    StableHLO does not define how elements are grouped, nor how often the initial value is used, but keeps their order.
    """
    if any(g.shape(values[0])[axis] == 0 for axis in axes):
        kept = shape_vector(g, [d for a, d in enumerate(g.shape(values[0])) if a not in axes])
        if kept is None:
            raise Unsupported("a reduction of no elements to a shape that is computed nowhere")
        return [g.Expand(s, kept) for s in starts]
    for axis in reversed(axes):
        length = g.shape(values[0])[axis]
        if not isinstance(length, int):
            raise Unsupported("a reduction by a function that ONNX has none for, over an axis of dynamic size")
        while length > 1:
            even = length // 2 * 2
            parts = [[g.Slice(v, [k], [even], [axis], [2]) for v in values] for k in (0, 1)]
            joined = region.apply(g, [*parts[0], *parts[1]])
            if length % 2:
                rest = [g.Slice(v, [length - 1], [length], [axis]) for v in values]
                joined = [g.Concat(v, r, axis=axis) for v, r in zip(joined, rest, strict=True)]
            values, length = joined, (length + 1) // 2
        values = [g.Squeeze(v, [axis]) for v in values]
    return region.apply(g, [*starts, *values])


@stablehlo_op("batch_norm_inference")
def batch_norm_inference(g, x, scale, offset, mean, variance, *, epsilon, feature_index):
    """Return a BatchNormalization, with the channels moved to ONNX's axis."""
    if feature_index == 0:
        raise Unsupported("features in the first axis")
    order = [0, feature_index, *(a for a in range(1, g.rank(x)) if a != feature_index)]
    moved = g.Transpose(x, perm=order) if order != sorted(order) else x
    found = g.BatchNormalization(moved, scale, offset, mean, variance, epsilon=epsilon)
    return g.Transpose(found, perm=list(inverse_permutation(order))) if order != sorted(order) else found
