"""Products and running sums along an axis, for which Caffe2 has no operators, in a logarithmic number of steps."""

from __future__ import annotations

import numpy as np

from convert.errors import Unsupported

from ..blob import Blob
from ..common.padding import slice_axis
from ..common.shapes import concat, full_like
from ..net import Net


def reduce_product(net: Net, x: Blob, axes: list[int], keepdims: int) -> Blob:
    """Return the product over `axes`: halves are multiplied until one element remains."""
    for axis in axes:
        size = net.shape(x)[axis]
        if not isinstance(size, int):
            raise Unsupported("a product along an axis whose size is not fixed")
        if size == 0:
            shape = [1 if i == axis else d for i, d in enumerate(net.shape(x))]
            if not all(isinstance(d, int) for d in shape):
                raise Unsupported("a product of nothing, of dims that are not fixed")
            x = net.const(np.ones([int(str(d)) for d in shape], x.dtype.numpy()))
            continue
        while size > 1:
            half = size // 2
            y = net.Mul(slice_axis(net, x, axis, 0, half), slice_axis(net, x, axis, half, 2 * half))
            if size % 2:
                rest = slice_axis(net, x, axis, size - 1, size)
                y = concat_parts(net, [y, rest], axis)
            x, size = y, half + size % 2
    if keepdims or not axes:
        return x
    shape = [d for i, d in enumerate(net.shape(x)) if i not in axes]
    return net.facts(net.Squeeze(x, dims=sorted(axes)), shape=shape)


def running_total(net: Net, operator: str, x: Blob, axis: int, neutral: float) -> Blob:
    """Return running sums (`Add`) or products (`Mul`): shift by 1, 2, 4 … and combine (Hillis and Steele, 1986)."""
    size = net.shape(x)[axis]
    if not isinstance(size, int):
        raise Unsupported("a running sum or product along an axis whose size is not fixed")
    step = 1
    while step < size:
        x = net.op(operator, [x, shift_axis(net, x, axis, step, neutral)])
        step *= 2
    return x


def shift_axis(net: Net, x: Blob, axis: int, step: int, filling: float) -> Blob:
    """Return `x` shifted by `step` elements along an axis of static size; `filling` takes the free positions."""
    size = net.shape(x)[axis]
    assert isinstance(size, int)
    edge = full_like(net, slice_axis(net, x, axis, 0, min(step, size)), filling, x.dtype)
    return edge if step >= size else concat_parts(net, [edge, slice_axis(net, x, axis, 0, size - step)], axis)


def concat_parts(net: Net, parts: list[Blob], axis: int) -> Blob:
    """Concatenate along `axis`, adding up the dims."""
    y = concat(net, parts, axis)
    sizes = [net.shape(p)[axis] for p in parts]
    total = sum(s for s in sizes if isinstance(s, int)) if all(isinstance(s, int) for s in sizes) else None
    shape = [total if i == axis else d for i, d in enumerate(net.shape(parts[0]))]
    return net.facts(y, parts[0].dtype, shape)


def flip_axis(net: Net, x: Blob, axis: int) -> Blob:
    """Return `x` with an axis of static size reversed."""
    size = net.shape(x)[axis]
    if not isinstance(size, int):
        raise Unsupported("a reversed axis whose size is not fixed")
    order = net.const(np.arange(size, dtype=np.int64)[::-1].copy())
    return net.facts(net.Gather(x, order, axis=axis), x.dtype, net.shape(x))
