"""Coordinates as indices into the flat tensor, for static dims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..net import Net
from .dtypes import cast
from .shapes import dim, reshape_fixed


def fixed_dims(net: Net, x: Blob, what: str) -> list[int]:
    """Return the dims of `x`. Raises `Unsupported`, naming what needs them, if some dims are not static."""
    sizes = [d for d in net.shape(x) if isinstance(d, int)]
    if len(sizes) < net.rank(x):
        raise Unsupported(f"{what} with dims that are not fixed")
    return sizes


def flatten_to_vector(net: Net, x: Blob) -> Blob:
    """Return `x` as a vector."""
    if net.rank(x) == 1:
        return x
    size = int(np.prod(fixed_dims(net, x, "a flat index")))
    return reshape_fixed(net, x, [size])


def wrap_negative(net: Net, x: Blob, indices: Blob, axis: int) -> Blob:
    """Return indices along an axis of `x`; negative ones count from the end."""
    content = net.static(indices)
    size = net.shape(x)[axis]
    if content is not None and (np.all(content >= 0) or isinstance(size, int)):
        if np.all(content >= 0):
            return indices
        return net.const(np.where(content < 0, content + size, content).astype(content.dtype))
    zero = net.const(np.zeros((), indices.dtype.numpy()))
    negative = cast(net, net.LT(indices, zero), indices.dtype)
    return net.Add(indices, net.Mul(negative, net.Squeeze(cast(net, dim(net, x, axis), indices.dtype), dims=[0])))


def strides_of(shape: Sequence[int]) -> list[int]:
    """Return, for each axis, the distance in the flat tensor between neighbours along that axis."""
    return [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]


def linear_elements(net: Net, indices: Blob, shape: Sequence[int], places: Sequence[int], axis: int) -> Blob:
    """Return flat indices of elements: `indices` along `axis`, and the element's own coordinates along the other axes.

    `places` are the dims of `indices`.
    """
    strides = strides_of(shape)
    grid = np.indices(places)
    others = sum((grid[i] * s for i, s in enumerate(strides) if i != axis), np.zeros(places, np.int64))
    scaled = net.Mul(cast(net, indices, ir.DataType.INT64), net.const(np.array(strides[axis])))
    return net.facts(net.Add(scaled, net.const(others.astype(np.int64))), shape=places)


def linear_nd(net: Net, indices: Blob, shape: Sequence[int], places: Sequence[int], batch: int) -> Blob:
    """Return flat indices of the slices at the coordinates in the last dim of `indices`, after `batch` common dims.

    The indices refer to the tensor whose first dims (batch and indexed ones) are flattened into one.
    """
    depth = places[-1]
    indexed = shape[batch : batch + depth]
    strides = np.array(strides_of(indexed), np.int64)
    given = cast(net, indices, ir.DataType.INT64)
    sizes = net.const(np.array(indexed, np.int64))
    if (content := net.static(given)) is not None:
        given = net.const(np.where(content < 0, content + np.array(indexed), content).astype(np.int64))
    else:
        negative = cast(net, net.LT(given, net.const(np.array(0))), ir.DataType.INT64)
        given = net.Add(given, net.Mul(negative, sizes))
    scaled = net.facts(net.Mul(given, net.const(strides)), shape=places)
    linear = net.op("ReduceSum", [scaled], axes=[len(places) - 1], keepdims=0)
    linear = net.facts(linear, ir.DataType.INT64, places[:-1])
    if batch:
        count = int(np.prod(indexed))
        first = np.arange(int(np.prod(shape[:batch]))).reshape([*shape[:batch], *[1] * (len(places) - 1 - batch)])
        linear = net.facts(net.Add(linear, net.const((first * count).astype(np.int64))), shape=places[:-1])
    return linear
