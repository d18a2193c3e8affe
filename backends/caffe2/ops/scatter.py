"""Rules that read and write elements by coordinates, which become indices into the flat tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import ARITHMETIC, cast, widen
from ..common.indexing import fixed_dims, flatten_to_vector, linear_elements, linear_nd, wrap_negative
from ..common.shapes import expand, full_like, reshape_fixed
from ..net import Net, Op
from ..rules import onnx_op
from .math import maximum, minimum
from .product import reduce_product

_ASSIGNED = (ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64)


@onnx_op("GatherND")
def gather_nd(net: Net, x: Blob, indices: Blob, *, batch_dims: int) -> Blob:
    """GatherND-13: gather slices of the tensor with its indexed dims flattened into one."""
    shape, places = fixed_dims(net, x, "GatherND"), fixed_dims(net, indices, "GatherND")
    depth = batch_dims + places[-1]
    rows = reshape_fixed(net, x, [int(np.prod(shape[:depth])), *shape[depth:]])
    linear = linear_nd(net, indices, shape, places, batch_dims)
    return net.facts(net.Gather(rows, linear), shape=[*places[:-1], *shape[depth:]])


@onnx_op("ScatterElements")
def scatter_elements(net: Net, x: Blob, indices: Blob, updates: Blob, *, axis: int, reduction: str) -> Blob:
    shape, places = fixed_dims(net, x, "ScatterElements"), fixed_dims(net, indices, "ScatterElements")
    along = net.axis(x, axis)
    linear = linear_elements(net, wrap_negative(net, x, indices, along), shape, places, along)
    return _scatter(net, x, flatten_to_vector(net, linear), flatten_to_vector(net, updates), reduction, shape)


@onnx_op("ScatterND")
def scatter_nd(net: Net, x: Blob, indices: Blob, updates: Blob, *, reduction: str) -> Blob:
    """ScatterND-18: slices are scattered element by element."""
    shape, places = fixed_dims(net, x, "ScatterND"), fixed_dims(net, indices, "ScatterND")
    depth = places[-1]
    size = int(np.prod(shape[depth:]))
    linear = linear_nd(net, indices, shape, places, 0)
    cells = net.Mul(reshape_fixed(net, linear, [int(np.prod(places[:-1])), 1]), net.const(np.array(size)))
    cells = net.Add(cells, net.const(np.arange(size, dtype=np.int64).reshape(1, size)))
    return _scatter(net, x, flatten_to_vector(net, cells), flatten_to_vector(net, updates), reduction, shape)


def _scatter(net: Net, x: Blob, cells: Blob, updates: Blob, reduction: str, shape: list[int]) -> Blob:
    """Return `x` with `updates` (flat) at the flat indices `cells`, with the dims `shape`."""
    data = flatten_to_vector(net, x)
    if reduction == "none":
        return reshape_fixed(net, _assign_cells(net, data, cells, updates), shape)
    return reshape_fixed(net, _reduce_updates(net, data, cells, updates, reduction), shape)


def _assign_cells(net: Net, data: Blob, cells: Blob, updates: Blob) -> Blob:
    """Return a copy of `data` with `updates` at `cells`, by ScatterAssign.

    For a dtype that ScatterAssign lacks, it assigns indices instead, and a Gather takes the elements from both tensors.
    """
    if data.dtype in _ASSIGNED:
        return _assign_in_place(net, data, cells, updates)
    count, size = net.shape(updates)[0], net.shape(data)[0]
    assert isinstance(count, int)
    assert isinstance(size, int)
    pick = net.const(np.arange(count, count + size, dtype=np.int64))
    pick = _assign_in_place(net, pick, cells, net.const(np.arange(count, dtype=np.int64)))
    return net.Gather(net.op("Concat", [updates, data], axis=0, outputs=2)[0], pick)


def _assign_in_place(net: Net, data: Blob, cells: Blob, updates: Blob) -> Blob:
    copy = net.facts(net.Copy(data), shape=data.shape)
    net.ops.append(Op("ScatterAssign", [copy, cells, updates], [copy], {}))
    return copy


_COMBINED: dict[str, Callable[..., Blob]] = {
    "add": lambda net, a, b: net.Add(a, b),
    "mul": lambda net, a, b: net.Mul(a, b),
    "max": maximum,
    "min": minimum,
}


def _reduce_updates(net: Net, data: Blob, cells: Blob, updates: Blob, reduction: str) -> Blob:
    """Combine updates by a matrix [elements, updates]. Each update is in its element's row; the other entries are the
    neutral element.
    """
    wide, more = widen(net, data, ARITHMETIC), widen(net, updates, ARITHMETIC)
    size, count = net.shape(data)[0], net.shape(updates)[0]
    assert isinstance(size, int)
    assert isinstance(count, int)
    if size * count > 1 << 26:
        raise Unsupported(f"a scatter of {count} updates to {size} cells with a reduction")
    grid = np.array([size, count], np.int64)
    rows = net.EQ(net.const(np.arange(size, dtype=np.int64).reshape(size, 1)), reshape_fixed(net, cells, [1, count]))
    spread = expand(net, reshape_fixed(net, more, [1, count]), net.const(grid), (size, count))
    neutral = full_like(net, spread, _neutral_element(reduction, wide.dtype), wide.dtype)
    picked = net.facts(net.Where(net.facts(rows, shape=(size, count)), spread, neutral), wide.dtype, (size, count))
    if reduction == "mul":
        combined = reduce_product(net, picked, [1], 0)
    else:
        operator = {"add": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}[reduction]
        combined = net.op(operator, [picked], axes=[1], keepdims=0)
    return cast(net, _COMBINED[reduction](net, wide, net.facts(combined, wide.dtype, (size,))), data.dtype)


def _neutral_element(reduction: str, dtype: ir.DataType) -> float:
    if reduction in ("add", "mul"):
        return float(reduction == "mul")
    if dtype.is_floating_point():
        return -np.inf if reduction == "max" else np.inf
    bounds = np.iinfo(dtype.numpy())
    return int(bounds.min if reduction == "max" else bounds.max)
