"""Rules that compare element indices along axes with numbers: triangular and unit matrices, one-hot vectors, running
sums.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import ARITHMETIC, COMPARED, FLOAT, cast, widen
from ..common.shapes import broadcast, dim, move_axis_last, transpose, zeros_like
from ..net import Net
from ..rules import onnx_op
from .linear import fully_connected
from .product import flip_axis, running_total, shift_axis


def axis_positions(net: Net, x: Blob, axis: int) -> Blob:
    """Return 0, 1, 2 … along `axis` of `x`, shaped to broadcast against it; a constant if the size is static."""
    rank, size = net.rank(x), net.shape(x)[axis]
    shape = [size if i == axis else 1 for i in range(rank)]
    if isinstance(size, int):
        return net.const(np.arange(size, dtype=np.int64).reshape(shape))
    counted = net.facts(net.Range(dim(net, x, axis)), ir.DataType.INT64, [None])
    others = [i for i in range(rank) if i != axis]
    return net.facts(net.ExpandDims(counted, dims=others) if others else counted, shape=shape)


_FAR = 1 << 62
"""A distance from the diagonal beyond every element; its sum with a position does not overflow."""


@onnx_op("Trilu")
def trilu(net: Net, x: Blob, k: Blob | None, *, upper: int) -> Blob:
    """Trilu-14: keep what is on or above (below) the diagonal `k`."""
    if 0 in net.shape(x):
        return x
    diagonal = 0 if k is None else int(net.need(k, "k of Trilu").ravel()[0])
    diagonal = max(-_FAR, min(diagonal, _FAR))
    rank = net.rank(x)
    rows = net.Add(axis_positions(net, x, rank - 2), net.const(np.array(diagonal)))
    columns = axis_positions(net, x, rank - 1)
    wide = widen(net, x, COMPARED)
    kept, a, b = broadcast(net, net.op("GE" if upper else "LE", [columns, rows]), wide, zeros_like(net, wide))
    return cast(net, net.Where(kept, a, b), x.dtype)


@onnx_op("EyeLike")
def eye_like(net: Net, x: Blob, *, dtype: int | None, k: int) -> Blob:
    rows = net.Add(axis_positions(net, x, 0), net.const(np.array(k)))
    return cast(net, net.EQ(axis_positions(net, x, 1), rows), x.dtype if dtype is None else ir.DataType(dtype))


@onnx_op("OneHot")
def one_hot(net: Net, indices: Blob, depth: Blob, values: Blob, *, axis: int) -> Blob:
    """OneHot-11. `values` holds the value for all other positions, then the value at the index; negative indices count
    from the end.
    """
    size = int(net.need(depth, "the depth of OneHot").ravel()[0])
    off, on = (net.Slice(values, starts=[i], ends=[i + 1]) for i in (0, 1))
    rank = net.rank(indices) + 1
    along = axis % rank
    number = net.facts(net.ExpandDims(cast(net, indices, ir.DataType.INT64), dims=[along]), shape=[None] * rank)
    zero, whole = net.const(np.array(0)), net.const(np.array(size))
    wrapped = net.Add(number, net.Mul(cast(net, net.LT(number, zero), ir.DataType.INT64), whole))
    classes = net.const(np.arange(size, dtype=np.int64).reshape([size if i == along else 1 for i in range(rank)]))
    dtypes = [net.facts(widen(net, v, COMPARED), shape=(1,)) for v in (on, off)]
    return cast(net, net.Where(*broadcast(net, net.EQ(wrapped, classes), *dtypes)), values.dtype)


@onnx_op("Hardmax")
def hardmax(net: Net, x: Blob, *, axis: int) -> Blob:
    """Hardmax-13: 1 at the first largest element along `axis`, 0 elsewhere."""
    along = net.axis(x, axis)
    largest = net.ArgMax(widen(net, x), axis=along, keepdims=1)
    return cast(net, net.EQ(axis_positions(net, x, along), net.facts(largest, ir.DataType.INT64)), x.dtype)


@onnx_op("CumSum")
def cumsum(net: Net, x: Blob, axis: Blob, *, exclusive: int, reverse: int) -> Blob:
    """CumSum-14 as a product with a triangle of ones in float32, else as sums of shifted copies."""
    along = net.axis(x, int(net.need(axis, "the axis of CumSum").ravel()[0]))
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        return _accumulate(net, "Add", x, along, exclusive, reverse, 0)
    if net.root.aten and not exclusive and not reverse:
        y = net.ATen(widen(net, x, FLOAT), operator="cumsum", dim=along)
        return cast(net, net.facts(y, FLOAT[0], net.shape(x)), x.dtype)
    moved, back = move_axis_last(net, widen(net, x, FLOAT), along)
    size = net.shape(moved)[-1]
    if not isinstance(size, int):
        raise Unsupported("a CumSum along an axis whose size is not fixed")
    ones = np.tri(size, k=-1 if exclusive else 0, dtype=np.float32)
    y = fully_connected(net, moved, net.const(ones.T.copy() if reverse else ones), None)
    return cast(net, transpose(net, y, back) if back else y, x.dtype)


@onnx_op("CumProd")
def cumprod(net: Net, x: Blob, axis: Blob, *, exclusive: int, reverse: int) -> Blob:
    along = net.axis(x, int(net.need(axis, "the axis of CumProd").ravel()[0]))
    return _accumulate(net, "Mul", x, along, exclusive, reverse, 1)


def _accumulate(net: Net, operator: str, x: Blob, axis: int, exclusive: int, reverse: int, neutral: float) -> Blob:
    wide = widen(net, x, ARITHMETIC)
    wide = flip_axis(net, wide, axis) if reverse else wide
    wide = shift_axis(net, wide, axis, 1, neutral) if exclusive else wide
    y = running_total(net, operator, wide, axis, neutral)
    return cast(net, flip_axis(net, y, axis) if reverse else y, x.dtype)


@onnx_op("TopK")
def top_k(net: Net, x: Blob, k: Blob, *, axis: int, largest: int, sorted: int) -> list[Blob]:
    """TopK-11: the largest elements in order (`sorted=0` allows any); the smallest are the largest of the negated
    input.
    """
    count = int(net.need(k, "k of TopK").ravel()[0])
    moved, back = move_axis_last(net, widen(net, x, FLOAT), axis)
    values, indices = net.TopK(moved if largest else net.Negative(moved), k=count, outputs=2)
    net.facts(indices, ir.DataType.INT64)
    values = values if largest else net.Negative(values)
    if back:
        values, indices = transpose(net, values, back), transpose(net, indices, back)
    return [cast(net, values, x.dtype), indices]
