"""Rules for normalization."""

from __future__ import annotations

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.values import is_used

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..net import Net
from ..rules import onnx_op


@onnx_op("BatchNormalization")
def batch_normalization(
    net: Net,
    x: Blob,
    scale: Blob,
    bias: Blob,
    mean: Blob,
    variance: Blob,
    *,
    epsilon: float,
    momentum: float,
    training_mode: int,
) -> Blob | list[Blob]:
    """BatchNormalization-15. In training it uses the batch's moments and outputs the running ones second and third."""
    if training_mode:
        return _training_batch_norm(net, x, scale, bias, mean, variance, epsilon, momentum)
    operands = [widen(net, v, FLOAT) for v in (x, scale, bias, mean, variance)]
    return cast(net, net.op("SpatialBN", operands, is_test=1, epsilon=epsilon), x.dtype)


def _training_batch_norm(
    net: Net, x: Blob, scale: Blob, bias: Blob, mean: Blob, variance: Blob, epsilon: float, momentum: float
) -> list[Blob]:
    """Normalize by the batch's (population) moments; the running moments move towards them by 1 − momentum."""
    axes = [0, *range(2, net.rank(x))]
    wide = widen(net, x, FLOAT)
    centered, mean_of_batch = _centered(net, wide, axes)
    spread = net.ReduceMean(net.Mul(centered, centered), axes=axes, keepdims=0)
    flat = net.ReduceMean(mean_of_batch, axes=axes, keepdims=0)
    moments = [net.facts(v, FLOAT[0], scale.shape) for v in (flat, spread)]
    operands = [centered, *(widen(net, v, FLOAT) for v in (scale, bias)), net.Sub(flat, flat), spread]
    y = net.op("SpatialBN", operands, is_test=1, epsilon=epsilon)
    kept, moved = net.const(momentum), net.const(1 - momentum)
    running = [
        cast(net, net.Add(net.Mul(widen(net, old, FLOAT), kept), net.Mul(new, moved)), old.dtype)
        for old, new in zip((mean, variance), moments, strict=True)
    ]
    return [cast(net, y, x.dtype), *running]


@onnx_op("InstanceNormalization")
def instance_normalization(net: Net, x: Blob, scale: Blob, bias: Blob, *, epsilon: float) -> Blob:
    """InstanceNormalization-22. Caffe2's is 4-D: the spatial dims are merged into one, next to one of size 1."""
    rank = net.rank(x)
    wide, _ = _centered(net, widen(net, x, FLOAT), list(range(2, rank)))
    flat = wide if rank == 4 else net.facts(net.Reshape(wide, shape=[0, 0, -1, 1], outputs=2)[0])
    y = net.InstanceNorm(flat, *(widen(net, v, FLOAT) for v in (scale, bias)), epsilon=epsilon)
    return cast(net, y if rank == 4 else _reshape_like(net, y, wide), x.dtype)


@onnx_op("LayerNormalization")
def layer_normalization(
    net: Net, x: Blob, scale: Blob, bias: Blob | None, *, axis: int, epsilon: float, stash_type: int
) -> list[Blob]:
    """LayerNormalization-17: mean and deviation over the dims from `axis` on; scale and bias broadcast.

    Mean and inverse deviation have the rank of `x`, with size 1 from `axis` on.
    """
    if stash_type != ir.DataType.FLOAT:
        raise Unsupported(f"stash_type={stash_type}: Caffe2 computes mean and variance in float32")
    wide = widen(net, x, FLOAT)
    along = net.axis(x, axis)
    centered, mean = _centered(net, wide, list(range(along, net.rank(x))))
    y, left, deviation = net.LayerNorm(centered, axis=along, epsilon=epsilon, outputs=3)
    y = net.Mul(net.facts(y, shape=x.shape), widen(net, scale, FLOAT))
    y = cast(net, y if bias is None else net.Add(y, widen(net, bias, FLOAT)), x.dtype)
    if not any(is_used(v) for v in net.results[1:]):
        return [y]
    return [
        y,
        net.Add(mean, _reshape_statistic(net, left, x, along)),
        net.Div(net.const(1.0), _reshape_statistic(net, deviation, x, along)),
    ]


def _centered(net: Net, x: Blob, axes: list[int]) -> tuple[Blob, Blob]:
    """Return x minus its mean over these axes, and that mean.

    Caffe2's kernels compute the variance as E[x²] − E[x]²: for numbers with mean 100 and deviation 0.1, a layer norm is
    75 % off in float32. After this step the kernels subtract a mean near 0.
    """
    shape = [1 if i in axes else d for i, d in enumerate(net.shape(x))]
    mean = net.facts(net.ReduceMean(x, axes=axes, keepdims=1), x.dtype, shape)
    return net.facts(net.Sub(x, mean), x.dtype, x.shape), mean


def _reshape_statistic(net: Net, y: Blob, x: Blob, axis: int) -> Blob:
    """Return a statistic with one number per element of the dims before `axis`, shaped to broadcast against `x`."""
    shape = [*net.shape(x)[:axis], *[1] * (net.rank(x) - axis)]
    unknown = [d for d in shape if not isinstance(d, int)]
    if len(unknown) > 1:
        raise Unsupported("the mean of LayerNormalization over several dims that are not fixed")
    target = [d if isinstance(d, int) else -1 for d in shape]
    return net.facts(net.Reshape(y, shape=target, outputs=2)[0], FLOAT[0], shape)


@onnx_op("GroupNormalization")
def group_normalization(
    net: Net, x: Blob, scale: Blob, bias: Blob, *, epsilon: float, num_groups: int, stash_type: int
) -> Blob:
    """GroupNormalization-21. The kernel reads the argument `group`, although its schema has another name for it."""
    if stash_type != ir.DataType.FLOAT:
        raise Unsupported(f"stash_type={stash_type}: Caffe2 computes mean and variance in float32")
    wide = widen(net, x, FLOAT)
    grouped = net.Reshape(wide, shape=[0, num_groups, -1], outputs=2)[0]
    grouped = net.facts(grouped, FLOAT[0], [net.shape(x)[0], num_groups, None])
    centered = _reshape_like(net, _centered(net, grouped, [2])[0], wide)
    operands = [centered, *(widen(net, v, FLOAT) for v in (scale, bias))]
    return cast(net, net.op("GroupNorm", operands, group=num_groups, epsilon=epsilon, is_test=1, outputs=3)[0], x.dtype)


@onnx_op("LRN")
def local_response_normalization(net: Net, x: Blob, *, alpha: float, beta: float, bias: float, size: int) -> Blob:
    y = net.LRN(widen(net, x, FLOAT), alpha=alpha, beta=beta, bias=bias, size=size)
    return cast(net, y, x.dtype)


@onnx_op("LpNormalization")
def lp_normalization(net: Net, x: Blob, *, axis: int, p: int) -> Blob:
    wide = widen(net, x, FLOAT)
    if p not in (1, 2):
        raise Unsupported(f"p={p}")
    size = net.op("ReduceL1" if p == 1 else "ReduceL2", [wide], axes=[net.axis(x, axis)], keepdims=1)
    # A zero vector stays zero.
    none = cast(net, net.EQ(size, net.const(0.0)), ir.DataType.FLOAT)
    return cast(net, net.Div(wide, net.Add(size, none)), x.dtype)


def _reshape_like(net: Net, y: Blob, x: Blob) -> Blob:
    """Return `y`, whose first dim is that of `x`, with the dims of `x`.

    If more than one of the other dims is dynamic, the shape is computed at run time.
    """
    shape = net.shape(x)
    if sum(not isinstance(d, int) for d in shape[1:]) <= 1:
        target = [0, *(d if isinstance(d, int) else -1 for d in shape[1:])]
        return net.facts(net.Reshape(y, shape=target, outputs=2)[0], x.dtype, shape)
    return net.facts(net.Reshape(y, net.Shape(x), outputs=2)[0], x.dtype, shape)
