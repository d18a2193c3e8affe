"""Kernels of layers: convolutions, pools, products, normalization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.reference.kernels import nn, pool

from .table import FLOAT, Array, ExecutorRun, kernel


@kernel("Conv")
def conv(
    run: ExecutorRun, x: Array, w: Array, b: Array = None, *, kernels: Any, strides: Any = None, pads: Any = None,
    dilations: Any = None, group: int = 1, order: str = "NCHW",
) -> Array:  # fmt: skip
    run.takes(FLOAT, x, w, *([] if b is None else [b]))
    _check_order(order)
    if list(w.shape[2:]) != list(kernels) or w.shape[1] * group != x.shape[1]:
        raise Unsupported(f"a weight of shape {w.shape} for kernels={list(kernels)} and an input of {x.shape}")
    return nn.conv(
        1, x, w, b, auto_pad="NOTSET", dilations=dilations, group=group, kernel_shape=kernels, pads=pads,
        strides=strides,
    )  # fmt: skip


@kernel("ConvFusion")
def conv_fusion(
    run: ExecutorRun, x: Array, w: Array, *rest: Array, kernels: Any, strides: Any = None, pads: Any = None,
    dilations: Any = None, group: int = 1, fusion_type: int = 0,
) -> Array:  # fmt: skip
    """IDEEP's ConvFusion: a convolution, followed by (1) a ReLU, (2) the sum with the last input, (3) both."""
    added = rest[-1] if fusion_type in (2, 3) else None
    bias = rest[: len(rest) - (added is not None)]
    y = conv(run, x, w, *bias, kernels=kernels, strides=strides, pads=pads, dilations=dilations, group=group)
    if added is not None:
        run.check_same_shape(y, added)
        y = y + added
    return np.maximum(y, 0) if fusion_type in (1, 3) else y


@kernel("ConvTranspose")
def conv_transpose(
    run: ExecutorRun, x: Array, w: Array, b: Array = None, *, kernels: Any, strides: Any = None, pads: Any = None,
    adjs: Any = None, dilations: Any = None, group: int = 1, order: str = "NCHW",
) -> Array:  # fmt: skip
    run.takes(FLOAT, x, w, *([] if b is None else [b]))
    _check_order(order)
    if x.ndim != 4 or any(d != 1 for d in dilations or ()):
        raise Unsupported("a ConvTranspose that is not 2-D, or with dilations, which the runtime ignores")
    return nn.conv_transpose(
        1, x, w, b, auto_pad="NOTSET", dilations=None, group=group, kernel_shape=kernels, output_padding=adjs,
        output_shape=None, pads=pads, strides=strides,
    )  # fmt: skip


@kernel("MaxPool")
def max_pool(
    run: ExecutorRun, x: Array, *, kernels: Any = None, strides: Any = None, pads: Any = None, global_pooling: int = 0,
    order: str = "NCHW",
) -> Array:  # fmt: skip
    """Max pool. There is no argument for dilations, because the runtime ignores them."""
    run.takes(FLOAT, x)
    _check_order(order)
    if global_pooling:
        return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)
    _check_pads(kernels, pads)
    return pool.max_pool(
        1, x, auto_pad="NOTSET", ceil_mode=0, dilations=None, kernel_shape=kernels, pads=pads, storage_order=0,
        strides=strides,
    )  # fmt: skip


@kernel("AveragePool")
def average_pool(
    run: ExecutorRun, x: Array, *, kernels: Any = None, strides: Any = None, pads: Any = None, global_pooling: int = 0,
    count_include_pad: int = 0, order: str = "NCHW",
) -> Array:  # fmt: skip
    run.takes(FLOAT, x)
    _check_order(order)
    if global_pooling:
        return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)
    _check_pads(kernels, pads)
    return pool.average_pool(
        1, x, auto_pad="NOTSET", ceil_mode=0, count_include_pad=count_include_pad, dilations=None,
        kernel_shape=kernels, pads=pads, strides=strides,
    )  # fmt: skip


def _check_order(order: str) -> None:
    if order != "NCHW":
        raise Unsupported(f"order={order!r}: the executor is channels first")


def _check_pads(kernels: Any, pads: Any) -> None:
    """Raise `Unsupported` for windows that may contain padding only; the runtime refuses them too."""
    if any(p >= k for p, k in zip(pads or (), [*kernels] * 2, strict=False)):
        raise Unsupported(f"pads={list(pads)} as wide as kernels={list(kernels)}")


@kernel("FC")
def fully_connected(run: ExecutorRun, x: Array, w: Array, b: Array, *, axis: int = 1, axis_w: int = 1) -> Array:
    """Return x·Wᵀ + b, with the dims of `x` from `axis` on, and of `w` from `axis_w` on, merged."""
    run.takes(FLOAT, x, w, b)
    axis, axis_w = axis % x.ndim, axis_w % w.ndim
    rows, matrix = _as_matrix(x, axis), _as_matrix(w, axis_w)
    return (rows @ matrix.T + b).reshape(*x.shape[:axis], len(matrix))


@kernel("MatMul")
def matmul(
    run: ExecutorRun, a: Array, b: Array, *, axis_a: int = 1, axis_b: int = 1, trans_a: int = 0, trans_b: int = 0
) -> Array:
    run.takes(FLOAT, a, b)
    flat = [_as_matrix(a, axis_a), _as_matrix(b, axis_b)]
    return np.matmul(*(m.T if t else m for m, t in zip(flat, (trans_a, trans_b), strict=True)))


def _as_matrix(x: Array, axis: int) -> Array:
    """Return `x` as a matrix: the dims before `axis` are merged, and those from `axis` on; `x` may be empty."""
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@kernel("BatchMatMul")
def batch_matmul(
    run: ExecutorRun, a: Array, b: Array, *, trans_a: int = 0, trans_b: int = 0, broadcast: int = 0
) -> Array:
    """Batched matrix product; two vectors give a vector of one number."""
    run.takes(FLOAT, a, b)
    if not broadcast and a.shape[:-2] != b.shape[:-2]:
        raise Unsupported(f"batches of {a.shape} and {b.shape} without broadcast=1")
    y = np.matmul(np.swapaxes(a, -1, -2) if trans_a else a, np.swapaxes(b, -1, -2) if trans_b else b)
    return y.reshape(1) if a.ndim == b.ndim == 1 else y


@kernel("Softmax")
def softmax(run: ExecutorRun, x: Array, *, axis: int = 1) -> Array:
    """Softmax over all dims from `axis` on, merged."""
    run.takes(FLOAT, x)
    axes = tuple(range(axis % x.ndim, x.ndim))
    shifted = np.exp(x - x.max(axis=axes, keepdims=True)) if x.size else x
    return shifted / shifted.sum(axis=axes, keepdims=True)


@kernel("SpatialBN")
def spatial_bn(
    run: ExecutorRun, x: Array, scale: Array, bias: Array, mean: Array, variance: Array, *, is_test: int = 0,
    epsilon: float = 1e-5, order: str = "NCHW",
) -> Array:  # fmt: skip
    run.takes(FLOAT, x, scale, bias, mean, variance)
    _check_order(order)
    if not is_test:
        raise Unsupported("is_test=0: the net changes its own weights")
    factor = scale / np.sqrt(variance + x.dtype.type(epsilon))
    shape = (-1, *[1] * (x.ndim - 2))
    return x * factor.reshape(shape) + (bias - mean * factor).reshape(shape)


@kernel("InstanceNorm")
def instance_norm(
    run: ExecutorRun, x: Array, scale: Array, bias: Array, *, epsilon: float = 1e-5, order: str = "NCHW"
) -> Array:
    run.takes(FLOAT, x, scale, bias)
    _check_order(order)
    if x.ndim != 4:
        raise Unsupported(f"an InstanceNorm of {x.ndim} dims: Caffe2's has four")
    return nn.instance_normalization(1, x, scale, bias, epsilon=epsilon)


@kernel("GroupNorm")
def group_norm(
    run: ExecutorRun, x: Array, scale: Array, bias: Array, *, group: int = 32, epsilon: float = 1e-5,
    order: str = "NCHW", is_test: int = 0, outputs: int = 1,
) -> list[Array]:  # fmt: skip
    """Return the group norm, and the mean and 1 / deviation of each group."""
    run.takes(FLOAT, x, scale, bias)
    _check_order(order)
    grouped = x.reshape(x.shape[0], group, -1)
    mean = grouped.mean(axis=2)
    inverse = 1 / np.sqrt(grouped.var(axis=2) + x.dtype.type(epsilon))
    y = ((grouped - mean[..., None]) * inverse[..., None]).reshape(x.shape)
    shape = (-1, *[1] * (x.ndim - 2))
    return [y * scale.reshape(shape) + bias.reshape(shape), mean, inverse]


@kernel("LayerNorm")
def layer_norm(run: ExecutorRun, x: Array, *, axis: int = 1, epsilon: float = 1e-5) -> list[Array]:
    """Return the layer norm, mean and deviation; both statistics have one dim of size 1 for the dims from `axis` on."""
    run.takes(FLOAT, x)
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    deviation = np.sqrt(x.var(axis=axes, keepdims=True) + x.dtype.type(epsilon))
    return [(x - mean) / deviation, *(v.reshape(*x.shape[: axes[0]], 1) for v in (mean, deviation))]


@kernel("LRN")
def local_response_normalization(
    run: ExecutorRun, x: Array, *, size: int, alpha: float, beta: float, bias: float = 1.0, order: str = "NCHW"
) -> Array:
    run.takes(FLOAT, x)
    _check_order(order)
    return nn.lrn(1, x, alpha=alpha, beta=beta, bias=bias, size=size)


@kernel("ResizeNearest")
def resize_nearest(
    run: ExecutorRun, x: Array, *, width_scale: float = 1.0, height_scale: float = 1.0, order: str = "NCHW"
) -> Array:
    """Return the element at floor(i / scale)."""
    run.takes(FLOAT, x)
    _check_order(order)
    for axis, factor in ((2, height_scale), (3, width_scale)):
        size = x.shape[axis]
        cells = np.arange(int(size * np.float32(factor))) / np.float32(factor)
        x = np.take(x, np.minimum(cells.astype(np.int64), size - 1), axis=axis)
    return x


@kernel("UpsampleBilinear")
def upsample_bilinear(
    run: ExecutorRun, x: Array, *, width_scale: float = 1.0, height_scale: float = 1.0, order: str = "NCHW"
) -> Array:
    """Bilinear upsampling with aligned corners."""
    run.takes(FLOAT, x)
    _check_order(order)
    for axis, factor in ((2, height_scale), (3, width_scale)):
        size = x.shape[axis]
        wanted = int(size * np.float32(factor))
        place = np.arange(wanted, dtype=x.dtype) * x.dtype.type((size - 1) / (wanted - 1) if wanted > 1 else 0)
        low = place.astype(np.int64)
        share = (place - low).reshape(-1, *[1] * (3 - axis))
        high = np.minimum(low + 1, size - 1)
        x = np.take(x, low, axis=axis) * (1 - share) + np.take(x, high, axis=axis) * share
    return x
