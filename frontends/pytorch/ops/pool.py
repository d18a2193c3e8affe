"""Pooling: maximum and average, adaptive, with ceil_mode, dilation and divisor_override."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import rounded_tensor

from ..common.sizes import dim_name_of, reshape, size, static_sizes, vector
from ..common.values import constant_like, is_float
from ..rules import torch_op
from .conv import ensure_batch_dim, per_spatial_dim
from .integer_conv import SlidingWindow, average_pool_integers, max_pool_integers


def _end_pads(
    g: Graph,
    x: ir.Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil_mode: bool,
) -> tuple[list[int], bool]:
    """Padding at the end that makes floor mode give what ceil_mode gives, and whether ceil_mode has to stay.

    PyTorch rounds the number of windows up, but drops a last window that would start in the padding at the end. It
    stays where a length is not known.
    """
    if not ceil_mode:
        return list(pads), False
    ends = []
    for i, (k, s, p, d) in enumerate(zip(kernel, strides, pads, dilations, strict=True)):
        length = g.shape(x)[i + 2]
        if not isinstance(length, int):
            return list(pads), True
        reach = d * (k - 1) + 1
        windows = -(-(length + 2 * p - reach) // s) + 1
        if (windows - 1) * s >= length + p:
            windows -= 1
        ends.append(max((windows - 1) * s + reach - length - p, p))
    return ends, False


def _without_whole_dims(
    g: Graph, x: ir.Value, kernel: list[Any], strides: list[Any], others: Sequence[int], reduction: str
) -> tuple[ir.Value, list[Any], list[Any]]:
    """Dims over which a window is as long as the dim, however long that is, as reductions; the rest of the window.

    others: pads, and dilations less one, which have to be nothing then.
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
        ends, ceil = _end_pads(g, x, kernel, strides, pads, dilations, ceil_mode)
        # Runtimes refuse padding that is as long as the kernel.
        if not is_float(g, x) or any(end >= k for end, k in zip(ends, kernel, strict=True)):
            pair = max_pool_integers(g, x, SlidingWindow(kernel, strides, [*pads, *ends], dilations))
            found = [g.Squeeze(v, [0]) if lone else v for v in pair]
            return found if indices else found[0]
        out = g.MaxPool(
            x,
            kernel_shape=kernel,
            strides=strides,
            pads=[*pads, *ends],
            dilations=dilations,
            ceil_mode=int(ceil) or None,
            outputs=2 if indices else 1,
        )
        found = [out] if not indices else [out[0], _index_in_plane(g, x, out[1], dims)]
        found = [g.Squeeze(v, [0]) if lone else v for v in found]
        return found if indices else found[0]

    return rule


def _index_in_plane(g: Graph, x: ir.Value, index: ir.Value, dims: int) -> ir.Value:
    """ONNX counts over the whole tensor, PyTorch inside each channel."""
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
        """Padding that counts is written as zeros; padding that ceil_mode adds at the end never counts.

        Where a length is not known, a window that starts in zeros at the end is one too many.
        """
        x, lone = ensure_batch_dim(g, x, dims)
        kernel, pads = per_spatial_dim(kernel_size, dims), per_spatial_dim(padding, dims)
        strides = per_spatial_dim(stride, dims) if stride or isinstance(stride, int) else kernel
        if divisor_override is None:
            x, kernel, strides = _without_whole_dims(g, x, kernel, strides, pads, "mean")
            if _is_each_element(kernel, strides, pads):
                return g.Squeeze(x, [0]) if lone else x
        ends, ceil = _end_pads(g, x, kernel, strides, pads, [1] * dims, ceil_mode)
        if not is_float(g, x):
            how = SlidingWindow(kernel, strides, [*pads, *ends], [1] * dims)
            out = average_pool_integers(g, x, how, pads if count_include_pad else [0] * dims, divisor_override)
            return g.Squeeze(out, [0]) if lone else out
        attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
        counts: dict[int, int | ir.Value] = {}
        if divisor_override is not None or (count_include_pad and ceil_mode and any(pads)):
            own = ends if divisor_override is not None else pads
            rest = [e - o for e, o in zip(ends, own, strict=True)]
            zeros = [0, 0, *pads, 0, 0, *own]
            if ceil:
                counts = _window_counts(g, x, kernel, strides, pads)
            x = g.Pad(x, zeros, constant_like(g, 0, x)) if any(zeros) else x
            attributes |= {"pads": [*[0] * dims, *rest], "ceil_mode": int(ceil) or None}
            if ceil and divisor_override is not None:
                raise Unsupported("avg_pool with divisor_override and ceil_mode over dims of unknown length")
        else:
            attributes |= {"pads": [*pads, *ends], "ceil_mode": int(ceil) or None}
            attributes["count_include_pad"] = int(count_include_pad and any(pads)) or None
        out = g.node("AveragePool", [x], attributes)
        if counts:
            out = g.Slice(out, [0] * len(counts), vector(g, list(counts.values())), list(counts))
        if divisor_override is not None:
            out = g.Mul(out, constant_like(g, math.prod(kernel) / divisor_override, out))
        return g.Squeeze(out, [0]) if lone else out

    return rule


def _window_counts(
    g: Graph, x: ir.Value, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> dict[int, int | ir.Value]:
    """How many windows of ceil_mode start before the padding at the end, of the axes where others may start in it."""
    counts: dict[int, int | ir.Value] = {}
    for axis, (k, s, p) in enumerate(zip(kernel, strides, pads, strict=True), 2):
        length = size(g, x, axis)
        if p and s + p > k:
            counts[axis] = -(-(length + p) // s) if isinstance(length, int) else g.Div(g.Add(length, p + s - 1), s)
    return counts


torch_op.same(_avg_pool, avg_pool1d=1, avg_pool2d=2, avg_pool3d=3)


# -- adaptive ---------------------------------------------------------------------------------------------------------


def adaptive_windows(length: int, out: int) -> list[tuple[int, int]]:
    """The adaptive windows: from floor(i · length / out) to ceil((i + 1) · length / out)."""
    return [(i * length // out, -(-(i + 1) * length // out)) for i in range(out)]


def _target_sizes(g: Graph, x: ir.Value, output_size: Any, dims: int) -> list[Any]:
    """The sizes that are asked for; an axis of unknown length that keeps it has its name."""
    wanted = per_spatial_dim(output_size, dims)
    target = [size(g, x, i + 2) if n is None else n for i, n in enumerate(wanted)]
    return [dim_name_of(g, n) if isinstance(n, ir.Value) else n for n in target]


def _spatial_lengths(g: Graph, x: ir.Value, what: str) -> list[int]:
    return static_sizes(g.shape(x)[2:], f"{what} to more than one element from dims of unknown length")


def _adaptive_pool(dims: int, operator: str) -> Any:
    def rule(g: Graph, x: ir.Value, output_size: Any) -> ir.Value:
        x, lone = ensure_batch_dim(g, x, dims)
        target = _target_sizes(g, x, output_size, dims)
        if all(n == 1 for n in target) and operator == "AveragePool" and 0 in g.shape(x)[2:]:
            none = constant_like(g, math.nan, x)
            out = g.Expand(none, vector(g, [size(g, x, 0), size(g, x, 1), *target]))
        elif all(n == 1 for n in target):
            out = g.node(f"Global{operator}", [x])
        elif target == list(g.shape(x)[2:]):
            out = x
        elif 0 in g.shape(x):
            known = static_sizes(target, "adaptive pool of nothing to a size that is not known")
            out = g.Expand(constant_like(g, 0, x), vector(g, [size(g, x, 0), size(g, x, 1), *known]))
        else:
            out = _emit_adaptive_pool(g, x, target, operator)
        return g.Squeeze(out, [0]) if lone else out

    return rule


def _emit_adaptive_pool(g: Graph, x: ir.Value, target: list[Any], operator: str) -> ir.Value:
    """One pool where it has equal windows, else axis by axis."""
    lengths = list(g.shape(x)[2:])
    what = f"adaptive {operator} to more than one element from dims of unknown length"
    pairs = list(zip(lengths, target, strict=True))
    if all(isinstance(n, int) and isinstance(t, int) and n % t == 0 for n, t in pairs):
        kernel = [n // t for n, t in zip(lengths, target, strict=True)]
        return g.node(operator, [x], {"kernel_shape": kernel, "strides": kernel})
    for i, (length, out) in enumerate(pairs):
        if length == out is not None:
            continue
        if out == 1:
            x = g.node("ReduceMean" if operator == "AveragePool" else "ReduceMax", [x, [i + 2]])
            continue
        windows = adaptive_windows(*static_sizes([length, out], what))
        x = (_average_axis if operator == "AveragePool" else _max_axis)(g, x, i + 2, windows)
    return x


def _average_axis(g: Graph, x: ir.Value, axis: int, windows: list[tuple[int, int]]) -> ir.Value:
    """Means over windows of one axis, as a product with a constant matrix (averages over boxes factor by axis)."""
    return multiply_axis(g, x, axis, mean_matrix(windows, windows[-1][1]))


def mean_matrix(windows: list[tuple[int, int]], length: int) -> np.ndarray:
    """The matrix [length, windows] whose product is the mean of each window."""
    matrix = np.zeros((length, len(windows)))
    for i, (a, b) in enumerate(windows):
        matrix[a:b, i] = 1 / (b - a)
    return matrix


def multiply_axis(g: Graph, x: ir.Value, axis: int, matrix: np.ndarray) -> ir.Value:
    """The product of one axis with a constant matrix, which has as many rows as the axis is long."""
    last = g.rank(x) - 1
    if axis == last:
        return g.MatMul(x, rounded_tensor(matrix, g.dtype(x)))
    if axis == last - 1:
        return g.MatMul(rounded_tensor(np.ascontiguousarray(matrix.T), g.dtype(x)), x)
    perm = [i for i in range(last + 1) if i != axis] + [axis]
    product = g.MatMul(g.Transpose(x, perm=perm), rounded_tensor(matrix, g.dtype(x)))
    return g.Transpose(product, perm=[perm.index(i) for i in range(last + 1)])


def _max_axis(g: Graph, x: ir.Value, axis: int, windows: list[tuple[int, int]]) -> ir.Value:
    """Maxima over windows of one axis; short windows repeat their last element."""
    width = max(b - a for a, b in windows)
    index = np.array([[min(a + j, b - 1) for j in range(width)] for a, b in windows], dtype=np.int64)
    return g.ReduceMax(g.Gather(x, index, axis=axis), [axis + 1], keepdims=0)


for _dims in (1, 2, 3):
    torch_op(f"adaptive_avg_pool{_dims}d")(_adaptive_pool(_dims, "AveragePool"))
torch_op("_adaptive_avg_pool2d")(_adaptive_pool(2, "AveragePool"))
torch_op("_adaptive_avg_pool3d")(_adaptive_pool(3, "AveragePool"))


def _adaptive_max_pool(dims: int) -> Any:
    def rule(g: Graph, x: ir.Value, output_size: Any) -> list[ir.Value]:
        """The maxima, and their place inside each channel where ONNX can tell it."""
        x, lone = ensure_batch_dim(g, x, dims)
        target = _target_sizes(g, x, output_size, dims)
        if all(isinstance(n, int) for n in (*target, *g.shape(x)[2:])):
            lengths = _spatial_lengths(g, x, "adaptive max pool")
            if all(n % t == 0 for n, t in zip(lengths, target, strict=True)):
                kernel = [n // t for n, t in zip(lengths, target, strict=True)]
                pair = _max_pool(dims, True)(g, x, kernel)
                return [g.Squeeze(v, [0]) if lone else v for v in pair]
        pair = _greatest(g, x) if target == [1] * dims else _max_with_indices(g, x, target)
        return [g.Squeeze(v, [0]) if lone else v for v in pair]

    return rule


def _greatest(g: Graph, x: ir.Value) -> list[ir.Value]:
    """The maximum of each channel, of any size, and its place in the flattened plane."""
    axes = list(range(2, g.rank(x)))
    flat = reshape(g, x, [size(g, x, 0), size(g, x, 1), -1])
    place = g.ArgMax(flat, axis=2, keepdims=1)
    return [g.ReduceMax(x, axes), g.Unsqueeze(place, axes[1:]) if axes[1:] else place]


torch_op.same(_adaptive_max_pool, adaptive_max_pool1d=1, adaptive_max_pool2d=2, adaptive_max_pool3d=3)


def _max_with_indices(g: Graph, x: ir.Value, target: list[Any]) -> list[ir.Value]:
    """Maxima over windows of any size, and their places in the flattened plane; short windows repeat their end."""
    lengths = _spatial_lengths(g, x, "adaptive max pool")
    target = static_sizes(target, "adaptive max pool to a size that is not known")
    places = np.zeros((1,) * 2 * len(lengths), dtype=np.int64)
    for i, (length, out) in enumerate(zip(lengths, target, strict=True)):
        windows = adaptive_windows(length, out)
        width = max(b - a for a, b in windows)
        rows = np.array([[min(a + j, b - 1) for j in range(width)] for a, b in windows], dtype=np.int64)
        shape = [1] * 2 * len(lengths)
        shape[i], shape[len(lengths) + i] = out, width
        places = places + rows.reshape(shape) * math.prod(lengths[i + 1 :])
    table = places.reshape(*target, -1)
    outer = [size(g, x, 0), size(g, x, 1)]
    windows_ = g.Gather(reshape(g, x, [*outer, math.prod(lengths)]), table, axis=2)
    last = len(target) + 2
    best = g.Unsqueeze(g.ArgMax(windows_, axis=last, keepdims=0), [last])
    index = g.GatherElements(g.Expand(table[None, None], g.dims(windows_)), best, axis=last)
    return [g.ReduceMax(windows_, [last], keepdims=0), g.Squeeze(index, [last])]
