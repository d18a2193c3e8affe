"""Pooling: maximum and average, adaptive, with ceil_mode, dilation and divisor_override."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.semantics.windows import Window

from ..common.places import Length, multiply_axis, places_in_plane
from ..common.sizes import arange, dim_name_of, plus, quotient, reshape, size, times, vector
from ..common.values import constant_like, is_float
from ..rules import torch_op
from .conv import ensure_batch_dim, per_spatial_dim
from .integer_conv import average_pool_integers, max_pool_integers


def _end_pads(
    g: Graph, x: ir.Value, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Return padding at the end with which floor mode gives ceil_mode's result, for every length if it is unknown."""
    window = Window.of(kernel, strides, dilations, [*pads, *pads])
    return list(window.with_ceil_mode([n if isinstance(n, int) else None for n in g.shape(x)[2:]]).after)


def _without_whole_dims(
    g: Graph, x: ir.Value, kernel: list[Any], strides: list[Any], others: Sequence[int], reduction: str
) -> tuple[ir.Value, list[Any], list[Any]]:
    """Reduce dims over which a window is as long as the dim; return x and the rest of the window.

    others: pads, and dilations minus one, which must then be zero.
    """
    whole = [i for i, k in enumerate(kernel) if isinstance(k, ir.Value)]
    if not whole:
        return x, kernel, strides
    first = g.rank(x) - len(kernel)
    is_mean_of_integers = reduction == "mean" and not is_float(g, x)
    if any(others) or is_mean_of_integers or any(dim_name_of(g, kernel[i]) != g.shape(x)[first + i] for i in whole):
        raise Unsupported("a pool with windows of a size that is computed")
    axes = [first + i for i in whole]
    y = g.ReduceMax(x, axes) if reduction == "max" else g.ReduceMean(x, axes)
    left = ([1 if i in whole else n for i, n in enumerate(numbers)] for numbers in (kernel, strides))
    return y, *left


def _is_each_element(kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]) -> bool:
    return set(kernel) == set(strides) == {1} and not any(pads)


def _max_pool(dims: int, indices: bool = False) -> Any:
    def rule(
        g: Graph,
        x: ir.Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        x, lone = ensure_batch_dim(g, x, dims)
        kernel, pads, dilations = (
            per_spatial_dim(kernel_size, dims),
            per_spatial_dim(padding, dims),
            per_spatial_dim(dilation, dims),
        )
        strides = per_spatial_dim(stride, dims) if stride or isinstance(stride, int) else kernel
        if indices and any(isinstance(k, ir.Value) for k in kernel):
            raise Unsupported("the places of maxima in windows of a size that is computed")
        x, kernel, strides = _without_whole_dims(g, x, kernel, strides, [*pads, *(d - 1 for d in dilations)], "max")
        if not indices and _is_each_element(kernel, strides, pads):
            return g.Squeeze(x, [0]) if lone else x
        ends = _end_pads(g, x, kernel, strides, pads, dilations) if ceil_mode else pads
        # Runtimes reject padding as long as the kernel.
        if not is_float(g, x) or any(end >= k for end, k in zip(ends, kernel, strict=True)):
            pair = max_pool_integers(g, x, Window.of(kernel, strides, dilations, [*pads, *ends]))
            found = [g.Squeeze(v, [0]) if lone else v for v in pair]
            return found if indices else found[0]
        out = g.MaxPool(
            x,
            kernel_shape=kernel,
            strides=strides,
            pads=[*pads, *ends],
            dilations=dilations,
            outputs=2 if indices else 1,
        )
        found = [out] if not indices else [out[0], _index_in_plane(g, x, out[1], dims)]
        found = [g.Squeeze(v, [0]) if lone else v for v in found]
        return found if indices else found[0]

    return rule


def _index_in_plane(g: Graph, x: ir.Value, index: ir.Value, dims: int) -> ir.Value:
    """Return indices per channel; ONNX counts over the whole tensor, PyTorch inside each channel."""
    return g.Mod(index, g.ReduceProd(vector(g, [size(g, x, i + 2) for i in range(dims)]), keepdims=0))


torch_op.same(_max_pool, max_pool1d=1, max_pool2d=2, max_pool3d=3)
torch_op.same(
    lambda dims: _max_pool(dims, True), max_pool1d_with_indices=1, max_pool2d_with_indices=2, max_pool3d_with_indices=3
)


def _avg_pool(dims: int) -> Any:
    def rule(
        g: Graph,
        x: ir.Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> ir.Value:
        """Return the average pool. Padding that ceil_mode adds at the end is never counted; counted padding is then
        written as zeros.
        """
        x, lone = ensure_batch_dim(g, x, dims)
        kernel, pads = per_spatial_dim(kernel_size, dims), per_spatial_dim(padding, dims)
        strides = per_spatial_dim(stride, dims) if stride or isinstance(stride, int) else kernel
        if divisor_override is None:
            x, kernel, strides = _without_whole_dims(g, x, kernel, strides, pads, "mean")
            if _is_each_element(kernel, strides, pads):
                return g.Squeeze(x, [0]) if lone else x
        ends = _end_pads(g, x, kernel, strides, pads, [1] * dims) if ceil_mode else pads
        if not is_float(g, x):
            how = Window.of(kernel, strides, None, [*pads, *ends])
            out = average_pool_integers(g, x, how, pads if count_include_pad else [0] * dims, divisor_override)
            return g.Squeeze(out, [0]) if lone else out
        attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
        if divisor_override is not None:
            x = _padded(g, x, [0, 0, *pads, 0, 0, *ends])
        elif count_include_pad and any(pads) and ends != pads:
            x = _padded(g, x, [0, 0, *pads, 0, 0, *pads])
            attributes["pads"] = [*[0] * dims, *(e - o for e, o in zip(ends, pads, strict=True))]
        else:
            attributes["pads"] = [*pads, *ends]
            attributes["count_include_pad"] = int(count_include_pad and any(pads)) or None
        out = g.node("AveragePool", [x], attributes)
        if divisor_override is not None:
            out = g.Mul(out, constant_like(g, math.prod(kernel) / divisor_override, out))
        return g.Squeeze(out, [0]) if lone else out

    return rule


def _padded(g: Graph, x: ir.Value, zeros: Sequence[int]) -> ir.Value:
    return g.Pad(x, list(zeros), constant_like(g, 0, x)) if any(zeros) else x


torch_op.same(_avg_pool, avg_pool1d=1, avg_pool2d=2, avg_pool3d=3)


# -- adaptive ---------------------------------------------------------------------------------------------------------


def adaptive_windows(length: int, out: int) -> list[tuple[int, int]]:
    """Return the adaptive windows: from floor(i · length / out) to ceil((i + 1) · length / out)."""
    return [(i * length // out, -(-(i + 1) * length // out)) for i in range(out)]


def _computed_windows(g: Graph, length: Length, out: Length) -> tuple[ir.Value, ir.Value]:
    """Return starts and ends of the adaptive windows, int64[out] each, for run-time lengths."""
    i, out = arange(g, out), g.Max(out, 1)  # if there are no windows, do not divide by their number
    return g.Div(g.Mul(i, length), out), g.Div(g.Add(g.Mul(g.Add(i, 1), length), plus(g, out, -1)), out)


def _target_sizes(g: Graph, x: ir.Value, output_size: Any, dims: int) -> list[Length]:
    """Return the requested sizes; None keeps the axis's."""
    return [size(g, x, i + 2) if n is None else n for i, n in enumerate(per_spatial_dim(output_size, dims))]


def _keeps_length(g: Graph, x: ir.Value, axis: int, out: Length) -> bool:
    known = g.shape(x)[axis]
    return known is not None and known == (dim_name_of(g, out) if isinstance(out, ir.Value) else out)


def _adaptive_pool(dims: int, operator: str) -> Any:
    def rule(g: Graph, x: ir.Value, output_size: Any) -> ir.Value:
        x, lone = ensure_batch_dim(g, x, dims)
        target = _target_sizes(g, x, output_size, dims)
        if all(n == 1 for n in target) and operator == "AveragePool" and 0 in g.shape(x)[2:]:
            none = constant_like(g, math.nan, x)
            out = g.Expand(none, vector(g, [size(g, x, 0), size(g, x, 1), *target]))
        elif all(n == 1 for n in target):
            out = g.node(f"Global{operator}", [x])
        elif all(_keeps_length(g, x, axis, n) for axis, n in enumerate(target, 2)):
            out = x
        elif 0 in (*g.shape(x), *target):
            out = g.Expand(constant_like(g, 0, x), vector(g, [size(g, x, 0), size(g, x, 1), *target]))
        else:
            out = _emit_adaptive_pool(g, x, target, operator)
        return g.Squeeze(out, [0]) if lone else out

    return rule


def _emit_adaptive_pool(g: Graph, x: ir.Value, target: list[Length], operator: str) -> ir.Value:
    """Emit one pool if the windows are equal, else pool axis by axis."""
    kernel = _equal_windows(g, x, target)
    if kernel is not None:
        return g.node(operator, [x], {"kernel_shape": kernel, "strides": kernel})
    for axis, out in enumerate(target, 2):
        if _keeps_length(g, x, axis, out):
            continue
        if out == 1:
            x = g.node("ReduceMean" if operator == "AveragePool" else "ReduceMax", [x, [axis]])
        elif operator == "AveragePool":
            x = multiply_axis(g, x, axis, adaptive_matrix(g, size(g, x, axis), out, weights_dtype(g, x)))
        else:
            rows = g.Gather(x, _window_places(g, size(g, x, axis), out), axis=axis)
            x = g.ReduceMax(rows, [axis + 1], keepdims=0)
    return x


def _equal_windows(g: Graph, x: ir.Value, target: Sequence[Length]) -> list[int] | None:
    """Return the length of the adaptive windows of each axis if all are known to be equal, else None."""
    pairs = [(n, t) for n, t in zip(g.shape(x)[2:], target, strict=True) if isinstance(n, int) and isinstance(t, int)]
    return [n // t for n, t in pairs] if len(pairs) == len(target) and all(n % t == 0 for n, t in pairs) else None


def adaptive_matrix(g: Graph, length: Length, out: Length, dtype: ir.DataType) -> np.ndarray | ir.Value:
    """Return the matrix [length, windows] whose product is the mean of each adaptive window.

    It is float64 if lengths are known, else of `dtype`.
    """
    if isinstance(length, int) and isinstance(out, int):
        return mean_matrix(adaptive_windows(length, out), length)
    starts, ends = _computed_windows(g, length, out)
    return g.Div(window_mask(g, starts, ends, length, dtype), g.Cast(g.Sub(ends, starts), to=dtype))


def weights_dtype(g: Graph, x: ir.Value) -> ir.DataType:
    """Return the dtype for weights: float64 for float64 only, which TensorFlow Lite does not support."""
    return ir.DataType.DOUBLE if g.dtype(x) == ir.DataType.DOUBLE else ir.DataType.FLOAT


def window_mask(g: Graph, starts: ir.Value, ends: ir.Value, length: Length, dtype: ir.DataType) -> ir.Value:
    """Return [length, windows] of `dtype` with 1 where an index is inside a window, else 0."""
    place = g.Unsqueeze(arange(g, length), [1])
    return g.Cast(g.And(g.GreaterOrEqual(place, starts), g.Less(place, ends)), to=dtype)


def _window_places(g: Graph, length: Length, out: Length) -> np.ndarray | ir.Value:
    """Return the indices int64[out, width] of each adaptive window; shorter windows repeat their last index."""
    if isinstance(length, int) and isinstance(out, int):
        windows = adaptive_windows(length, out)
        width = max(b - a for a, b in windows)
        return np.array([[min(a + j, b - 1) for j in range(width)] for a, b in windows], dtype=np.int64)
    starts, ends = (g.Unsqueeze(v, [1]) for v in _computed_windows(g, length, out))
    longest = plus(g, quotient(g, plus(g, length, -1), out if isinstance(out, int) else g.Max(out, 1)), 2)
    return g.Min(g.Add(starts, arange(g, longest)), g.Sub(ends, 1))


def mean_matrix(windows: list[tuple[int, int]], length: int) -> np.ndarray:
    """Return the matrix [length, windows] whose product is the mean of each window."""
    matrix = np.zeros((length, len(windows)))
    for i, (a, b) in enumerate(windows):
        matrix[a:b, i] = 1 / (b - a)
    return matrix


for _dims in (1, 2, 3):
    torch_op(f"adaptive_avg_pool{_dims}d")(_adaptive_pool(_dims, "AveragePool"))
torch_op("_adaptive_avg_pool2d")(_adaptive_pool(2, "AveragePool"))
torch_op("_adaptive_avg_pool3d")(_adaptive_pool(3, "AveragePool"))


def _adaptive_max_pool(dims: int) -> Any:
    def rule(g: Graph, x: ir.Value, output_size: Any) -> list[ir.Value]:
        """Return the maxima, and their indices within each channel if ONNX can compute them."""
        x, lone = ensure_batch_dim(g, x, dims)
        target = _target_sizes(g, x, output_size, dims)
        if 0 in target:
            shape = vector(g, [size(g, x, 0), size(g, x, 1), *target])
            pair = [g.Expand(constant_like(g, 0, x), shape), g.Expand(0, shape)]
            return [g.Squeeze(v, [0]) if lone else v for v in pair]
        kernel = _equal_windows(g, x, target)
        if kernel is not None:
            pair = _max_pool(dims, True)(g, x, kernel)
            return [g.Squeeze(v, [0]) if lone else v for v in pair]
        pair = _greatest(g, x) if target == [1] * dims else _max_with_indices(g, x, target)
        return [g.Squeeze(v, [0]) if lone else v for v in pair]

    return rule


def _greatest(g: Graph, x: ir.Value) -> list[ir.Value]:
    """Return the maximum of each channel, of any size, and its flat index in the plane."""
    axes = list(range(2, g.rank(x)))
    flat = reshape(g, x, [size(g, x, 0), size(g, x, 1), -1])
    place = g.ArgMax(flat, axis=2, keepdims=1)
    return [g.ReduceMax(x, axes), g.Unsqueeze(place, axes[1:]) if axes[1:] else place]


torch_op.same(_adaptive_max_pool, adaptive_max_pool1d=1, adaptive_max_pool2d=2, adaptive_max_pool3d=3)


def _max_with_indices(g: Graph, x: ir.Value, target: list[Length]) -> list[ir.Value]:
    """Return maxima over windows of any size, and their flat indices in the plane; short windows repeat their end."""
    lengths, last = [size(g, x, i + 2) for i in range(len(target))], len(target) + 2
    rows = [_window_places(g, length, out) for length, out in zip(lengths, target, strict=True)]
    table = places_in_plane(g, rows, lengths, target)
    outer = [size(g, x, 0), size(g, x, 1)]
    windows = g.Gather(reshape(g, x, [*outer, times(g, *lengths)]), table, axis=2)
    best = g.Unsqueeze(g.ArgMax(windows, axis=last, keepdims=0), [last])
    index = g.GatherElements(g.Expand(g.Unsqueeze(table, [0, 1]), g.dims(windows)), best, axis=last)
    return [g.ReduceMax(windows, [last], keepdims=0), g.Squeeze(index, [last])]
