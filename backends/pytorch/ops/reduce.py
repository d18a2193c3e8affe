"""Reductions. If the axes are known at run time only, each axis is either reduced or kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from convert.errors import Unsupported

from ..common import in_float32, wide
from ..rules import host, onnx_op
from ..torch_internals import check, statically_known_true

Fold = Callable[..., torch.Tensor]


def _reduced(
    fold: Fold, before: Any = None, after: Any = None, over_data: str = "sum", of_floats: Fold | None = None
) -> Callable[..., Any]:
    """Return the rule of a reduction: `after(fold(before(x), axes, keepdim))`.

    over_data: the same reduction as a scatter mode. of_floats: a single PyTorch function that computes all three, for
    floats and known axes.
    """

    @host("axes")
    def rule(t, data, axes=None, *, keepdims, noop_with_empty_axes):
        dtype, keep = data.dtype, bool(keepdims)
        if axes is not None and t.static(axes) is None:
            # PyTorch sums halves in float32, but squares them and sums them by index in half precision.
            x = in_float32(wide(data))
            y = _at_run_time(
                t, fold, x if before is None else before(x), axes, keep, bool(noop_with_empty_axes), over_data
            )
            return (y if after is None else after(y)).to(dtype)
        chosen = [] if axes is None else [int(a) for a in t.static(axes).ravel()]
        folded = bool(chosen) or not noop_with_empty_axes
        if of_floats is not None and folded and dtype.is_floating_point:
            return _folded(of_floats, data, chosen, keep).to(dtype)
        x = wide(data) if before is None and after is None else in_float32(wide(data))
        x = x if before is None else before(x)
        y = _folded(fold, x, chosen, keep) if folded else x
        return (y if after is None else after(y)).to(dtype)

    return rule


def _folded(fold: Fold, x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """Reduce x along these axes; along all axes if there are none."""
    return fold(x, axes or list(range(x.dim())), keep) if x.dim() else fold(x[None], [0], False)


def _at_run_time(t: Any, fold: Any, x: Any, axes: Any, keep: Any, noop: Any, scatter: Any) -> torch.Tensor:
    """Reduce along axes that are known at run time only. Raises `Unsupported` unless the output's rank is known."""
    count = axes.shape[0]
    if count == 0:
        return x if noop else fold(x, list(range(x.dim())), keep)
    if count == x.dim():
        return fold(x, list(range(x.dim())), keep)
    if not isinstance(count, int):
        raise Unsupported("a reduction whose number of axes is computed at run time")
    along = _Axes(x, axes)
    if scatter == "logsumexp":
        y = _log_sum_exp_along(along, x)
    else:
        dtype = x.dtype
        y = along.fold(x.to(torch.uint8) if dtype == torch.bool else x, "sum" if scatter == "mean" else scatter)
        y = y.to(dtype) if dtype == torch.bool else y
        y = y / along.count() if scatter == "mean" else y
    return y if keep else along.squeeze(y)


class _Axes:
    """Axes of a tensor that are known at run time only; each is reduced to length 1 or kept."""

    def __init__(self, x: Any, axes: Any) -> None:
        self.dims, self.number = list(x.shape), axes.shape[0]
        rank = x.dim()
        self.folded = (torch.remainder(axes, rank)[:, None] == torch.arange(rank)[None]).any(0)
        self.places, self.sizes = [], []
        for axis, n in enumerate(self.dims):
            self.places.append(torch.arange(n) * torch.logical_not(self.folded[axis]).to(torch.int64))
            size: Any = torch.where(self.folded[axis], 1, n).item()
            check(size >= 0)
            self.sizes.append(size)

    def fold(self, x: Any, how: str) -> Any:
        """Reduce x; a reduced axis has length 1."""
        start = {"prod": lambda d: 1, "amax": _lowest, "amin": _highest}.get(how, lambda d: 0)(x.dtype)
        for axis, (places, size) in enumerate(zip(self.places, self.sizes, strict=True)):
            y = torch.full([size if i == axis else n for i, n in enumerate(x.shape)], start, dtype=x.dtype)
            x = y.index_add(axis, places, x) if how == "sum" else y.index_reduce(axis, places, x, how)
        return x

    def spread(self, y: Any) -> Any:
        """Expand a reduced tensor to the original shape: PyTorch could not tell which axes broadcast."""
        for axis, places in enumerate(self.places):
            y = torch.index_select(y, axis, places)
        return y

    def count(self) -> Any:
        """Return the number of elements per result."""
        own = torch.stack([torch.scalar_tensor(n, dtype=torch.int64) for n in self.dims])
        return torch.prod(torch.where(self.folded, own, 1))

    def squeeze(self, y: Any) -> Any:
        """Remove the reduced axes."""
        order = torch.sort(self.folded.to(torch.int64), stable=True)[1]
        left = torch.sort(order[: len(self.dims) - self.number])[0]
        sizes = torch.stack([torch.scalar_tensor(n, dtype=torch.int64) for n in self.sizes])
        return y.reshape(sizes[left].tolist())


def _log_sum_exp_along(along: _Axes, x: Any) -> Any:
    """Return m + log ∑ exp(x − m), where m is the maximum, or 0 where that is infinite."""
    x = x if x.dtype.is_floating_point else x.to(torch.float64)
    largest = along.fold(x, "amax")
    largest = torch.where(torch.isfinite(largest), largest, torch.zeros_like(largest))
    return torch.log(along.fold(torch.exp(x - along.spread(largest)), "sum")) + largest


def _sum(x: Any, axes: Any, keep: Any) -> Any:
    return torch.sum(x, axes, keep)


def _prod(x: Any, axes: Any, keep: Any) -> Any:
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = torch.prod(x, axis, keep)
    return x


def _mean(x: Any, axes: Any, keep: Any) -> Any:
    if x.dtype.is_floating_point:
        return torch.mean(x, axes, keep)
    return torch.mean(x.to(torch.float64), axes, keep)


def _extreme(function: Fold, empty: Callable[[torch.dtype], Any]) -> Fold:
    def fold(x: Any, axes: Any, keep: Any) -> Any:
        if any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in axes):
            whole = [a % x.dim() for a in axes]
            shape = [1 if i in whole else n for i, n in enumerate(x.shape) if keep or i not in whole]
            return torch.full(shape, empty(x.dtype), dtype=x.dtype)
        for axis in axes:
            if _may_be_empty(x.shape[axis]):
                row = [1 if i == axis % x.dim() else n for i, n in enumerate(x.shape)]
                x = torch.cat([x, torch.full(row, empty(x.dtype), dtype=x.dtype)], axis)
        return function(x, axes, keep)

    return fold


def _may_be_empty(size: Any) -> bool:
    """Return whether a derived size, such as a slice's, can be 0; PyTorch would exclude the inputs that make it 0."""
    if not isinstance(size, torch.SymInt) or size.node.expr.is_Symbol:
        return False
    return not statically_known_true(size > 0)


def _lowest(dtype: torch.dtype) -> Any:
    if dtype == torch.bool:
        return False
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> Any:
    if dtype == torch.bool:
        return True
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def _log_sum_exp(x: Any, axes: Any, keep: Any) -> Any:
    return torch.logsumexp(x if x.dtype.is_floating_point else x.to(torch.float64), axes, keep)


def _root(x: Any) -> Any:
    return torch.sqrt(x if x.dtype.is_floating_point else x.to(torch.float64))


_SHORT = 1024
"""Maximum length for PyTorch's norm, which adds sequentially: so far it is as exact as a root; for 1e6 elements its
error is 9e-6.
"""


def _length(x: Any, axes: Any, keep: Any) -> Any:
    """Return the L2 norm with a gradient of zero at zero; that of a root would be NaN.

    PyTorch's norm has this gradient, and is used for short vectors.
    """
    sizes = [x.shape[a] for a in axes]
    if all(isinstance(n, int) for n in sizes) and math.prod(sizes) <= _SHORT:
        return torch.linalg.vector_norm(x, 2, axes, keep)
    squares = torch.sum(torch.square(in_float32(x)), axes, keep)
    nothing = squares == 0
    root = torch.sqrt(torch.where(nothing, torch.ones_like(squares), squares))
    return torch.where(nothing, torch.zeros_like(squares), root)


def _log(x: Any) -> Any:
    return torch.log(x if x.dtype.is_floating_point else x.to(torch.float64))


onnx_op("ReduceSum")(_reduced(_sum, over_data="sum"))
onnx_op("ReduceSumSquare")(_reduced(_sum, before=torch.square, over_data="sum"))
onnx_op("ReduceL1")(_reduced(_sum, before=torch.abs, over_data="sum"))
onnx_op("ReduceL2")(_reduced(_sum, before=torch.square, after=_root, over_data="sum", of_floats=_length))
onnx_op("ReduceLogSum")(_reduced(_sum, after=_log, over_data="sum"))
onnx_op("ReduceLogSumExp")(_reduced(_log_sum_exp, over_data="logsumexp"))
onnx_op("ReduceMean")(_reduced(_mean, over_data="mean"))
onnx_op("ReduceProd")(_reduced(_prod, over_data="prod"))
onnx_op("ReduceMax")(_reduced(_extreme(torch.amax, _lowest), over_data="amax"))
onnx_op("ReduceMin")(_reduced(_extreme(torch.amin, _highest), over_data="amin"))


@onnx_op("ArgMax")
def arg_max(t, x, *, axis, keepdims, select_last_index):
    return _argument(torch.argmax, x, axis, keepdims, select_last_index)


@onnx_op("ArgMin")
def arg_min(t, x, *, axis, keepdims, select_last_index):
    return _argument(torch.argmin, x, axis, keepdims, select_last_index)


def _argument(function: Any, x: Any, axis: Any, keepdims: Any, last: Any) -> Any:
    x = wide(x)
    if not last:
        return function(x, axis, bool(keepdims))
    return x.shape[axis] - 1 - function(x.flip(axis), axis, bool(keepdims))
