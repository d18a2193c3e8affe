"""Rules for pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.values import is_used
from convert.semantics.windows import Window

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.padding import pad_constant
from ..common.pool_windows import gather_taps, restore_spatial
from ..common.windows import pads_of_all_dims, window, window_counts
from ..net import Net
from ..rules import onnx_op
from .conv import window_arguments


@onnx_op("MaxPool")
def max_pool(
    net: Net,
    x: Blob,
    *,
    auto_pad: str,
    dilations: Sequence[int] | None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None,
    storage_order: int,
    strides: Sequence[int] | None,
) -> Blob | list[Blob]:
    """MaxPool-22. Dilated pools and pools with indices gather their windows: Caffe2 lacks dilated pools, and has
    indices on CUDA only.
    """
    made = window(net, x, kernel_shape, strides, dilations, pads, auto_pad)
    wide = widen(net, x, FLOAT)
    indexed = any(is_used(v) for v in net.results[1:])
    if indexed or any(d > 1 for d in made.dilations):
        values, indices = _max_by_gather(net, wide, made, storage_order, indexed)
        return [cast(net, values, x.dtype), *indices]
    if any(p >= k for p, k in zip(made.pads, made.kernel * 2, strict=True)):
        wide, made = pad_constant(net, wide, pads_of_all_dims(made), -3.4028234663852886e38), made.unpadded
    return cast(net, net.MaxPool(wide, **window_arguments(made)), x.dtype)


@onnx_op("AveragePool")
def average_pool(
    net: Net,
    x: Blob,
    *,
    auto_pad: str,
    count_include_pad: int,
    dilations: Sequence[int] | None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None,
    strides: Sequence[int] | None,
) -> Blob:
    """AveragePool-22. Dilated pools gather their windows."""
    made = window(net, x, kernel_shape, strides, dilations, pads, auto_pad)
    wide = widen(net, x, FLOAT)
    counted = bool(count_include_pad) and any(made.pads)
    if any(d > 1 for d in made.dilations):
        return cast(net, _mean_by_gather(net, wide, made, counted), x.dtype)
    y = net.AveragePool(wide, **window_arguments(made), count_include_pad=int(counted))
    return cast(net, y, x.dtype)


@onnx_op("GlobalAveragePool")
def global_average_pool(net: Net, x: Blob) -> Blob:
    return _global_pool(net, "AveragePool", x)


@onnx_op("GlobalMaxPool")
def global_max_pool(net: Net, x: Blob) -> Blob:
    return _global_pool(net, "MaxPool", x)


def _max_by_gather(net: Net, x: Blob, made: Window, storage_order: int, indexed: bool) -> tuple[Blob, list[Blob]]:
    """Return maxima of gathered windows, and their flat indices in row-major or column-major order."""
    found = gather_taps(net, x, made, -np.inf, window_counts(net, x, made))
    values = net.op("ReduceMax", [found.cells], axes=[3], keepdims=0)
    made_values = restore_spatial(net, values, found, x.dtype)
    if not indexed:
        return made_values, []
    sizes = [int(str(d)) for d in net.shape(x)[2:]]
    places = found.places
    if storage_order:
        coordinates = np.unravel_index(np.clip(places, 0, int(np.prod(sizes)) - 1), sizes)
        places = np.asarray(np.ravel_multi_index(coordinates[::-1], sizes[::-1]))
    batch, channels = net.shape(x)[:2]
    if not isinstance(batch, int) or not isinstance(channels, int):
        raise Unsupported("the indices of MaxPool over a batch that is not fixed")
    best = net.facts(net.ArgMax(found.cells, axis=3, keepdims=0), ir.DataType.INT64, net.shape(found.cells)[:3])
    windows, cells = places.shape
    rows = net.const(np.arange(windows, dtype=np.int64) * cells)
    cell = net.Gather(net.const(places.reshape(-1).astype(np.int64)), net.Add(best, rows))
    net.facts(cell, ir.DataType.INT64, net.shape(found.cells)[:3])
    planes = np.arange(batch * channels, dtype=np.int64).reshape(batch, channels, 1) * int(np.prod(sizes))
    return made_values, [restore_spatial(net, net.Add(cell, net.const(planes)), found, ir.DataType.INT64)]


def _mean_by_gather(net: Net, x: Blob, made: Window, counted: bool) -> Blob:
    """Return means of gathered windows. Elements in the padding count only if `counted`."""
    found = gather_taps(net, x, made, 0.0, window_counts(net, x, made))
    total = net.op("ReduceSum", [found.cells], axes=[3], keepdims=0)
    number = np.full(len(found.inside), np.prod(made.kernel)) if counted else found.inside.sum(axis=1)
    size = net.const(number.astype(np.float32))
    return restore_spatial(net, net.Div(net.facts(total, FLOAT[0], net.shape(found.cells)[:3]), size), found, FLOAT[0])


def _global_pool(net: Net, operator: str, x: Blob) -> Blob:
    return cast(net, net.op(operator, [widen(net, x, FLOAT)], global_pooling=1), x.dtype)
