"""Known content of small integer tensors during lowering, such as the shape `[batch, 7, 7, 64]`.

The known content of a tensor is an array of objects: ints, names of dynamic dims, or None for run-time elements. So the
shape arithmetic around Reshape ends in constants, and the batch stays dynamic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from .dims import broadcast_name, dim_product, new_dim_name
from .strided_slice import subscript

_KEY = "convert.tensorflow.known"
LARGEST = 1024
_INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)

Content = np.ndarray
"""dtype object: int, str or None."""


def content(value: Any) -> Content | None:
    """Return the known content of an int32 or int64 tensor, or None if nothing is known."""
    if not isinstance(value, ir.Value) or value.dtype not in _INTEGERS:
        return None
    if value.const_value is not None:
        array = value.const_value.numpy() if value.const_value.size <= LARGEST else None
        return None if array is None else array.astype(object)
    return value.meta.get(_KEY)


def set_content(value: ir.Value, known: Content) -> None:
    """Set the known content of `value`."""
    if value.dtype in _INTEGERS and value.const_value is None:
        value.meta[_KEY] = wrap_integers(known, value.dtype)


def wrap_integers(content: Content, dtype: ir.DataType | None) -> Content:
    """Return integers wrapped to 32 or 64 bits, as sums and products may overflow; other elements unchanged."""
    half = 1 << (31 if dtype == ir.DataType.INT32 else 63)

    def one(item: Any) -> Any:
        return (item + half) % (2 * half) - half if isinstance(item, int) and not -half <= item < half else item

    return content if dtype not in _INTEGERS else np.asarray(np.frompyfunc(one, 1, 1)(content), dtype=object)


def ints(value: ir.Value, what: str) -> list[int]:
    """Return the content of an integer tensor as a list. Raises `Unsupported` if it depends on data."""
    known = content(value)
    if known is None or not is_known(value):
        raise Unsupported(f"{what} depends on data; it has to be constant")
    return [int(k) for k in known.ravel()]


def is_known(value: ir.Value) -> bool:
    """Return whether the content of an integer tensor does not depend on data."""
    known = content(value)
    return known is not None and all(isinstance(k, int) for k in known.ravel())


def integer(value: ir.Value, what: str) -> int:
    """Return the content of an integer scalar. Raises `Unsupported` if it depends on data."""
    (only,) = ints(value, what)
    return only


def evaluate(g: Graph, operator: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> list[Content] | None:
    """Return the known content of the outputs of `operator`, or None; also None for many elements, because Concat
    doubles them.
    """
    try:
        found = _TABLE[operator](g, args, attributes) if operator in _TABLE else None
    except (IndexError, ValueError, TypeError, ArithmeticError):
        return None  # content that does not fit, which the operator's rule reports in a better way
    if found is None:
        return None
    found = found if isinstance(found, list) else [found]
    arrays = [np.asarray(f, dtype=object) for f in found]
    return arrays if all(f.size <= LARGEST for f in arrays) else None


def named_dims(g: Graph, value: ir.Value) -> Content | None:
    """Return the dims of `value`; unnamed ones get a name, so that they are recognized as equal later."""
    if value.shape is None:
        return None
    named = [d if isinstance(d, int) else d.value or new_dim_name(g, value, i) for i, d in enumerate(value.shape)]
    if any(not isinstance(d, int) and d.value is None for d in value.shape):
        g.facts(value, shape=named)
    return np.array(named, dtype=object)


def _binary_rule(compute: Callable[[int, int], int], neutral: int | None, *, commutes: bool = False) -> Any:
    def one(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return compute(a, b)
        if neutral is not None and isinstance(b, int) and b == neutral:
            return a
        if commutes and isinstance(a, int) and a == neutral:
            return b
        return dim_product([a, b]) if neutral == 1 and commutes else None

    def rule(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        a, b = map(content, args)
        return None if a is None or b is None else np.asarray(np.frompyfunc(one, 2, 1)(a, b), dtype=object)

    return rule


def _minimum(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Simplify min(n, max(n, m)) to n."""
    for size, other in (args, args[::-1]):
        maker, found = other.producer(), content(size)
        among = map(content, maker.inputs) if maker is not None and maker.op_type == "Max" else ()
        if found is not None and found.tolist() in [c.tolist() for c in among if c is not None and c.tolist()]:
            return _broadcast_to(found, other)
    return _LEAST(g, args, attributes)


def _broadcast_to(known: Content, other: ir.Value) -> Content | None:
    """Return `known` broadcast with `other`; None if unknown or has many elements."""
    if other.shape is None or not other.shape.is_static():
        return None
    shape = np.broadcast_shapes(known.shape, tuple(int(d) for d in other.shape.numpy()))
    return np.broadcast_to(known, shape) if math.prod(shape) <= LARGEST else None


_LEAST = _binary_rule(min, None)


def _unary_rule(compute: Callable[[Content, Mapping[str, Any]], Any]) -> Any:
    def rule(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        known = content(args[0])
        return None if known is None else compute(known, attributes)

    return rule


def _rule_with_constants(count: int, compute: Callable[..., Any]) -> Any:
    """Return a rule over a known first input and `count` further inputs that must be fully known."""

    def rule(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        known = content(args[0])
        rest = [content(a) for a in args[1 : 1 + count]]
        if known is None or any(r is None or not all(isinstance(i, int) for i in r.ravel()) for r in rest):
            return None
        return compute(known, *(r.astype(np.int64) for r in rest if r is not None), attributes=attributes)

    return rule


def _shape(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    return named_dims(g, args[0]) if isinstance(args[0], ir.Value) else None


def _shape_n(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    found = [named_dims(g, value) for value in args[0]]
    return None if any(f is None for f in found) else found


def _size(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    found = named_dims(g, args[0])
    return None if found is None else np.array(dim_product(found.tolist()), dtype=object)


def _rank(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    return None if args[0].shape is None else np.array(len(args[0].shape), dtype=object)


def _partial_contents(values: Sequence[Any]) -> list[Content] | None:
    """Return the content of each value, with None for every unknown element."""
    found = []
    for value in values:
        known = content(value)
        if known is None:
            if value.dtype not in _INTEGERS or value.shape is None or not value.shape.is_static():
                return None
            shape = tuple(int(d) for d in value.shape.numpy())
            if math.prod(shape) > LARGEST:
                return None
            known = np.full(shape, None, dtype=object)
        found.append(known)
    return found if any(i is not None for f in found for i in f.ravel()) else None


def _pack(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    found = _partial_contents(args[0])
    return None if found is None else np.stack(found, attributes.get("axis", 0))


def _concat(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    found, axis = _partial_contents(args[0]), content(args[1])
    return None if found is None or axis is None else np.concatenate(found, int(axis))


def _concat_old(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    return _concat(g, (args[1], args[0]), attributes)


def _unpack(known: Content, attributes: Mapping[str, Any]) -> list[Content]:
    axis = attributes.get("axis", 0)
    return [np.take(known, i, axis) for i in range(known.shape[axis])]


def _split(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    axis, known = content(args[0]), content(args[1])
    return None if axis is None or known is None else np.split(known, attributes["num_split"], int(axis))


def _strided_slice(known: Content, begin: Any, end: Any, strides: Any, *, attributes: Mapping[str, Any]) -> Any:
    return known[subscript(begin.tolist(), end.tolist(), strides.tolist(), attributes)]


def _slice(known: Content, begin: Any, size: Any, *, attributes: Mapping[str, Any]) -> Any:
    return known[tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin.tolist(), size.tolist(), strict=True))]


def _gather(known: Content, indices: Any, axis: Any = 0, *, attributes: Mapping[str, Any]) -> Any:
    return None if attributes.get("batch_dims") else np.take(known, indices, int(axis))


def _reduce_rule(compute: Callable[[Sequence[Any]], Any]) -> Any:
    def one(known: Content, axes: Any, *, attributes: Mapping[str, Any]) -> Any:
        if known.ndim != 1 or np.size(axes) != 1:
            return None
        result = compute(list(known))
        return np.array([result] if attributes.get("keep_dims") else result, dtype=object)

    return _rule_with_constants(1, one)


def _segment_products(known: Content, ids: Any, count: Any, *, attributes: Mapping[str, Any]) -> Any:
    return np.array([dim_product(list(known[ids == n])) for n in range(int(count))], dtype=object)


def _if_all_ints(compute: Callable[[Sequence[int]], int]) -> Callable[[Sequence[Any]], Any]:
    return lambda items: compute(items) if all(isinstance(i, int) for i in items) and items else None


def _cast(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    if attributes["DstT"] not in _INTEGERS:
        return None
    truth = g.static(args[0]) if args[0].dtype == ir.DataType.BOOL else None
    if truth is not None and truth.size <= LARGEST:
        return truth.astype(np.int64).astype(object)
    return content(args[0])


def _range(start: Content, limit: Any, delta: Any, *, attributes: Mapping[str, Any]) -> Any:
    return np.arange(int(start), int(limit), int(delta)) if isinstance(start.item(), int) else None


def _fill(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    size, item = content(args[0]), content(args[1])
    if size is None or item is None or not all(isinstance(s, int) for s in size) or math.prod(size) > LARGEST:
        return None
    return np.full(tuple(size), item.item(), dtype=object)


def _broadcast_args(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    both = [content(a) for a in args]
    if both[0] is None or both[1] is None:
        return None
    rank = max(len(b) for b in both if b is not None)
    padded = [[1] * (rank - len(b)) + b.tolist() for b in both if b is not None]
    return [np.array([_broadcast_dim(a, b) for a, b in zip(*padded, strict=True)], dtype=object)]


def _broadcast_dim(a: Any, b: Any) -> Any:
    """Return the broadcast of two dims; None if it is known at run time only."""
    if isinstance(a, str) and isinstance(b, str):
        return broadcast_name(a, b)
    if a == b or b == 1:
        return a
    return b if a == 1 else a if isinstance(a, int) and b is not None else b if isinstance(b, int) else None


def _squeeze(known: Content, attributes: Mapping[str, Any]) -> Any:
    return np.squeeze(known, tuple(attributes.get("squeeze_dims") or ()) or None)


def _compare(compute: Callable[[int, int], bool]) -> Any:
    def rule(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        a, b = map(content, args)
        if a is None or b is None or not all(isinstance(i, int) for c in (a, b) for i in c.ravel()):
            return None
        return np.asarray(np.frompyfunc(compute, 2, 1)(a, b), dtype=object)

    return rule


def _select(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Return the operand that a known condition selects, or for a vector the selected elements.

    None if the condition or an operand is unknown.
    """
    here, a, b = g.static(args[0]), content(args[1]), content(args[2])
    if here is None or here.size > LARGEST:
        return None
    if here.ndim == 0:
        taken, other = (a, args[2]) if here.item() else (b, args[1])
        return None if taken is None else _broadcast_to(taken, other)
    return None if a is None or b is None else np.where(here, a, b)


def _select_rows(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Return None for a vector condition of the old Select, which selects rows; its rule handles that."""
    condition, t = args[0].shape, args[1].shape
    by_rows = condition is None or t is None or 0 < len(condition) != len(t)
    return None if by_rows else _select(g, args, attributes)


def _list_diff(g: Graph, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    a, b = map(content, args)
    if a is None or b is None or not all(isinstance(i, int) for c in (a, b) for i in c):
        return None
    left = [(i, item) for i, item in enumerate(a.tolist()) if item not in b.tolist()]
    return [np.array([part[k] for part in left], dtype=object) for k in (1, 0)]


_TABLE: dict[str, Callable[..., Any]] = {
    "Shape": _shape,
    "ShapeN": _shape_n,
    "Size": _size,
    "Rank": _rank,
    "Pack": _pack,
    "ConcatV2": _concat,
    "Concat": _concat_old,
    "Unpack": _unary_rule(_unpack),
    "Split": _split,
    "StridedSlice": _rule_with_constants(3, _strided_slice),
    "Slice": _rule_with_constants(2, _slice),
    "Gather": _rule_with_constants(1, _gather),
    "GatherV2": _rule_with_constants(2, _gather),
    "BroadcastArgs": _broadcast_args,
    "Reshape": _rule_with_constants(1, lambda known, shape, attributes: known.reshape(shape.tolist())),
    "ExpandDims": _rule_with_constants(1, lambda known, axis, attributes: np.expand_dims(known, int(axis))),
    "Squeeze": _unary_rule(_squeeze),
    "Cast": _cast,
    "Range": _rule_with_constants(2, _range),
    "Fill": _fill,
    "Add": _binary_rule(lambda a, b: a + b, 0, commutes=True),
    "AddV2": _binary_rule(lambda a, b: a + b, 0, commutes=True),
    "Sub": _binary_rule(lambda a, b: a - b, 0),
    "Mul": _binary_rule(lambda a, b: a * b, 1, commutes=True),
    "FloorDiv": _binary_rule(lambda a, b: a // b, 1),
    "FloorMod": _binary_rule(lambda a, b: a % b, None),
    "Maximum": _binary_rule(max, None),
    "Minimum": _minimum,
    "Equal": _compare(lambda a, b: a == b),
    "NotEqual": _compare(lambda a, b: a != b),
    "Less": _compare(lambda a, b: a < b),
    "LessEqual": _compare(lambda a, b: a <= b),
    "Greater": _compare(lambda a, b: a > b),
    "GreaterEqual": _compare(lambda a, b: a >= b),
    "Select": _select_rows,
    "SelectV2": _select,
    "ListDiff": _list_diff,
    "Prod": _reduce_rule(dim_product),
    # TensorFlow Lite merges dims for an Einsum this way
    "UnsortedSegmentProd": _rule_with_constants(2, _segment_products),
    "Sum": _reduce_rule(_if_all_ints(sum)),
    "Max": _reduce_rule(_if_all_ints(max)),
    "Min": _reduce_rule(_if_all_ints(min)),
}
