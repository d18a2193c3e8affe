"""Follows what a module computes from sizes: `reshape(get_dimension_size(x))` is the name of a dim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from jaxlib.mlir import ir as mlir

from . import sizes
from .regions import attribute_of
from .sizes import Size, number
from .values import Tensor

_MOST = 64
"""Largest number of elements of a tensor whose content is followed; shapes have fewer dims."""

_OF_MATRICES = frozenset({"reshape", "concatenate"})
"""Operators whose results are followed with two dims, too: the amounts of padding before and after each axis."""


def folded_sizes(name: str, operands: Sequence[Any], op: mlir.Operation, types: Sequence[Any]) -> np.ndarray | None:
    """Return the content of an operator's only result as sizes; None if the operator is no arithmetic on sizes."""
    follow = _FOLLOWED.get(name)
    if follow is None or len(types) != 1 or types[0] is None or None in types[0].dims:
        return None
    if types[0].rank > (2 if name in _OF_MATRICES else 1):
        return None
    if not types[0].dtype.is_integer() and types[0].dtype.name != "BOOL":
        return None
    shape = types[0].dims
    if any(d > _MOST for d in shape):
        return None
    if name == "get_dimension_size":
        size = sizes.of_dim(operands[0].dims[attribute_of(op, "dimension")])
        return None if size is None else _array([size], ())
    known = [t.sizes if isinstance(t, Tensor) else None for t in operands]
    if any(content is None for content in known) and name != "and":
        return None
    found = follow(op, shape, *known)
    return found if found is not None and _fits(found, types[0].dtype) else None


def _fits(content: np.ndarray, dtype: ir.DataType) -> bool:
    """Return whether every number is known and lies in the range of its dtype; others would wrap around."""
    sizes_ = content.ravel().tolist()
    if any(size is None for size in sizes_):
        return False
    low, high = (0, 1) if dtype == ir.DataType.BOOL else (dtype.min, dtype.max)
    return all(size.number is None or low <= size.number <= high for size in sizes_)


def _array(items: Sequence[Size | None], shape: tuple[int, ...]) -> np.ndarray:
    found = np.empty(len(items), object)
    found[:] = items
    return found.reshape(shape)


def _elementwise(compute: Callable[..., Size | None]) -> Callable[..., np.ndarray]:
    def follow(op: mlir.Operation, shape: tuple[int, ...], *operands: np.ndarray) -> np.ndarray:
        rows = zip(*(np.broadcast_to(o, shape).ravel().tolist() for o in operands), strict=True)
        return _array([compute(*row) for row in rows], shape)

    return follow


def _truncated(quotient: Callable[[Size, Size], Size]) -> Callable[[Size, Size], Size | None]:
    """Return the quotient of non-negative numbers, for which rounding down and truncating are the same."""

    def compute(one: Size, other: Size) -> Size | None:
        least, divisor = one.least(), other.least()
        return quotient(one, other) if least is not None and least >= 0 and divisor and divisor > 0 else None

    return compute


def _compared(op: mlir.Operation, shape: tuple[int, ...], one: np.ndarray, other: np.ndarray) -> np.ndarray:
    direction = attribute_of(op, "comparison_direction")

    def compute(a: Size, b: Size) -> Size | None:
        gap = (a - b).number
        if gap is not None:
            return number({"EQ": gap == 0, "NE": gap != 0, "LT": gap < 0, "LE": gap <= 0, "GT": gap > 0,
                           "GE": gap >= 0}[direction])  # fmt: skip
        order = sizes.compare(a, b)  # a comparison that also holds for equal sides
        if order is not None and direction in ("GE", "LT") and order > 0:
            return number(direction == "GE")
        if order is not None and direction in ("LE", "GT") and order < 0:
            return number(direction == "LE")
        return None

    return _elementwise(compute)(op, shape, one, other)


def _selected(
    op: mlir.Operation, shape: tuple[int, ...], which: np.ndarray, one: np.ndarray, other: np.ndarray
) -> np.ndarray:
    def compute(chosen: Size, a: Size, b: Size) -> Size | None:
        return None if chosen.number is None else a if chosen.number else b

    return _elementwise(compute)(op, shape, which, one, other)


def _sign(size: Size) -> Size | None:
    if size.number is not None:
        return number((size.number > 0) - (size.number < 0))
    return number(1) if (size.least() or 0) > 0 else None


def _both(op: mlir.Operation, shape: tuple[int, ...], *parts: np.ndarray | None) -> np.ndarray | None:
    """Return False if one side is False and the other one is not known; a division rounds down by such conditions."""
    known = [[size.number for size in part.ravel().tolist()] for part in parts if part is not None]
    if any(set(numbers) == {0} for numbers in known):
        return _array([number(0)] * int(np.prod(shape)), shape)
    if len(known) == len(parts) and all(set(numbers) == {1} for numbers in known):
        return _array([number(1)] * int(np.prod(shape)), shape)
    return None


def _reshaped(op: mlir.Operation, shape: tuple[int, ...], content: np.ndarray) -> np.ndarray:
    return content.reshape(shape)


def _spread(op: mlir.Operation, shape: tuple[int, ...], content: np.ndarray) -> np.ndarray:
    return np.broadcast_to(content, shape).copy()


def _joined(op: mlir.Operation, shape: tuple[int, ...], *parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts, axis=attribute_of(op, "dimension"))


def _sliced(op: mlir.Operation, shape: tuple[int, ...], content: np.ndarray) -> np.ndarray:
    if not shape:
        return content
    start, stop, step = (attribute_of(op, n)[0] for n in ("start_indices", "limit_indices", "strides"))
    return content[start:stop:step]


_FOLLOWED: Mapping[str, Callable[..., np.ndarray | None]] = {
    "get_dimension_size": _reshaped,
    "add": _elementwise(lambda a, b: a + b),
    "subtract": _elementwise(lambda a, b: a - b),
    "multiply": _elementwise(lambda a, b: a * b),
    "divide": _elementwise(_truncated(sizes.floor_divide)),
    "remainder": _elementwise(_truncated(sizes.modulo)),
    "maximum": _elementwise(sizes.largest),
    "minimum": _elementwise(sizes.smallest),
    "clamp": _elementwise(lambda low, x, high: sizes.largest(low, sizes.smallest(x, high))),
    "sign": _elementwise(_sign),
    "and": _both,
    "negate": _elementwise(lambda a: a * -1),
    "convert": _elementwise(lambda a: a),
    "compare": _compared,
    "select": _selected,
    "reshape": _reshaped,
    "broadcast_in_dim": _spread,
    "concatenate": _joined,
    "slice": _sliced,
}
