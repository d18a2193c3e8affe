"""Rules for reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.rules import Rule

from ..blob import Blob
from ..common.dtypes import ARITHMETIC, FLOAT, cast, widen
from ..net import Net
from ..rules import onnx_op
from .product import reduce_product

Reduce = Callable[[Net, Blob, list[int], int], Blob]


def reduction_rule(compute: Reduce, kernels: tuple[ir.DataType, ...]) -> Rule:
    """Return a rule that calls `compute(net, x, axes, keepdims)`, with `x` cast to one of the dtypes `kernels` and
    non-negative axes.
    """

    def rule(net: Net, x: Blob, axes: Blob | None, *, keepdims: int, noop_with_empty_axes: int) -> Blob:
        given = [] if axes is None else [int(a) for a in net.need(axes, "the axes of a reduction").ravel()]
        over = sorted(net.axis(x, a) for a in given)
        if not over and not noop_with_empty_axes:
            over = list(range(net.rank(x)))
        if (empty := _empty_extremum(net, compute, x, over, keepdims)) is not None:
            return empty
        wide = widen(net, x, kernels)
        # If nothing is reduced, the element-wise part (a square, a logarithm) still applies.
        y = compute(net, wide, over, keepdims) if over else _reduce_elementwise(net, compute, wide)
        return cast(net, y, x.dtype)

    return rule


def _reduce_elementwise(net: Net, compute: Reduce, x: Blob) -> Blob:
    """Reduce over a new axis of size 1."""
    wide = net.facts(net.ExpandDims(x, dims=[0]), shape=None if x.shape is None else (1, *x.shape))
    return compute(net, wide, [0], 0)


def native_reduction(operator: str) -> Reduce:
    """Return a reduction by one of Caffe2's own operators."""

    def compute(net: Net, x: Blob, axes: list[int], keepdims: int) -> Blob:
        y = net.op(operator, [x], axes=axes, keepdims=keepdims)
        if x.shape is None:
            return y
        kept = [1 if i in axes else d for i, d in enumerate(x.shape) if keepdims or i not in axes]
        return net.facts(y, shape=kept)

    return compute


_sum, _max, _min = native_reduction("ReduceSum"), native_reduction("ReduceMax"), native_reduction("ReduceMin")


def _empty_extremum(net: Net, compute: Reduce, x: Blob, axes: list[int], keepdims: int) -> Blob | None:
    """Return the extremum of no elements, such as −∞ for a maximum; None if there are elements.

    For no elements, Caffe2 returns float32's last finite number instead.
    """
    shape = x.shape
    if compute not in (_max, _min) or shape is None or not any(shape[a] == 0 for a in axes):
        return None
    kept = [1 if i in axes else d for i, d in enumerate(shape) if keepdims or i not in axes]
    if not all(isinstance(d, int) for d in kept):
        raise Unsupported("the maximum or minimum of no elements, with dims that are not fixed")
    dtype = x.dtype.numpy()
    if x.dtype.is_floating_point():
        value = -np.inf if compute is _max else np.inf
    elif x.dtype == ir.DataType.BOOL:
        value = compute is _min
    else:
        value = np.iinfo(dtype).min if compute is _max else np.iinfo(dtype).max
    return net.const(np.full([int(str(d)) for d in kept], value, dtype))


def _l1(net: Net, x: Blob, axes: list[int], keepdims: int) -> Blob:
    return _sum(net, net.Mul(x, net.Sign(x)), axes, keepdims)


def _sum_square(net: Net, x: Blob, axes: list[int], keepdims: int) -> Blob:
    return _sum(net, net.Mul(x, x), axes, keepdims)


def _l2(net: Net, x: Blob, axes: list[int], keepdims: int) -> Blob:
    return net.Sqrt(_sum_square(net, x, axes, keepdims))


def _log_sum(net: Net, x: Blob, axes: list[int], keepdims: int) -> Blob:
    return net.Log(_sum(net, x, axes, keepdims))


def _log_sum_exp(net: Net, x: Blob, axes: list[int], keepdims: int) -> Blob:
    """Return max + log(sum(exp(x − max))), which does not overflow."""
    largest = _max(net, x, axes, 1)
    total = net.Add(net.Log(_sum(net, net.Exp(net.Sub(x, largest)), axes, 1)), largest)
    return total if keepdims else net.Squeeze(total, dims=axes)


_FLOATING = (ir.DataType.FLOAT, ir.DataType.DOUBLE)

onnx_op("ReduceSum")(reduction_rule(_sum, ARITHMETIC))
onnx_op("ReduceMax")(reduction_rule(_max, ARITHMETIC))
onnx_op("ReduceMin")(reduction_rule(_min, ARITHMETIC))
onnx_op("ReduceMean")(reduction_rule(native_reduction("ReduceMean"), FLOAT))
onnx_op("ReduceL1")(reduction_rule(_l1, ARITHMETIC))
onnx_op("ReduceL2")(reduction_rule(_l2, _FLOATING))
onnx_op("ReduceSumSquare")(reduction_rule(_sum_square, ARITHMETIC))
onnx_op("ReduceLogSum")(reduction_rule(_log_sum, FLOAT))
onnx_op("ReduceProd")(reduction_rule(reduce_product, ARITHMETIC))
onnx_op("ReduceLogSumExp")(reduction_rule(_log_sum_exp, FLOAT))


def arg_extremum_rule(operator: str) -> Rule:
    """Return the rule of ArgMax or ArgMin."""

    def rule(net: Net, x: Blob, *, axis: int, keepdims: int, select_last_index: int) -> Blob:
        over = net.axis(x, axis)
        wide = widen(net, x)
        if not select_last_index:
            return net.op(operator, [wide], axis=over, keepdims=keepdims)
        size = net.shape(x)[over]
        if not isinstance(size, int):
            raise Unsupported("select_last_index=1 along an axis whose size is not fixed")
        backwards = net.Gather(wide, net.const(np.arange(size, dtype=np.int64)[::-1].copy()), axis=over)
        found = net.op(operator, [backwards], axis=over, keepdims=keepdims)
        return net.Sub(net.const(np.array(size - 1, np.int64)), found)

    return rule


onnx_op("ArgMax")(arg_extremum_rule("ArgMax"))
onnx_op("ArgMin")(arg_extremum_rule("ArgMin"))
