"""Gradients that PyTorch has kernels but no decompositions for, also those of pools; all others are decomposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.places import Length, Table, multiply_axis, transposed
from ..common.sizes import arange, plus, reshape, size, vector
from ..common.values import constant_like
from ..rules import torch_op
from .conv import per_spatial_dim
from .pool import adaptive_matrix, weights_dtype, window_mask

# -- layers and distances ---------------------------------------------------------------------------------------------


_NORM = torch_op.limit("_cdist_backward", "the gradient of a distance of another norm than 1 and 2")
_WEIGHTS = torch_op.limit("convolution_backward of weights", "gradients of weights")


@torch_op("silu_backward")
def silu_backward(g, grad_output, x):
    s, one = g.Sigmoid(x), constant_like(g, 1, x)
    return g.Mul(grad_output, g.Mul(s, g.Add(one, g.Mul(x, g.Sub(one, s)))))


@torch_op("mish_backward")
def mish_backward(g, grad_output, x):
    t = g.Tanh(g.Softplus(x))
    slope = g.Mul(g.Mul(x, g.Sigmoid(x)), g.Sub(constant_like(g, 1, x), g.Mul(t, t)))
    return g.Mul(grad_output, g.Add(t, slope))


@torch_op("_cdist_backward")
def cdist_backward(g, grad, x1, x2, p, cdist):
    """Return the gradient of x1, to which equal rows contribute nothing."""
    gap = g.Sub(g.Unsqueeze(x1, [g.rank(x1) - 1]), g.Unsqueeze(x2, [g.rank(x2) - 2]))
    if p == 1:
        way = g.Sign(gap)
    elif p == 2:
        zero = constant_like(g, 0, gap)
        length = g.Unsqueeze(cdist, [g.rank(cdist)])
        way = g.Where(g.Equal(length, zero), zero, g.Div(gap, length))
    else:
        raise Unsupported(_NORM)
    return g.ReduceSum(g.Mul(g.Unsqueeze(grad, [g.rank(grad)]), way), [g.rank(gap) - 2], keepdims=0)


@torch_op("convolution_backward")
def convolution_backward(
    g, grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
    output_mask,
):  # fmt: skip
    """Return the gradient of the input only.

    It is the transposed convolution with the same weights, cropped or padded to the input's length; the gradient of a
    transposed convolution is a convolution.
    """
    if list(output_mask[1:]) != [False, False]:
        raise Unsupported(_WEIGHTS)
    dims = g.rank(weight) - 2
    strides, pads, dilations = (list(x) * (dims if len(x) == 1 else 1) for x in (stride, padding, dilation))
    if transposed:
        out = g.Conv(grad_output, weight, strides=strides, pads=pads * 2, dilations=dilations, group=groups)
        return [out, None, None]
    how = {"strides": strides, "dilations": dilations, "group": groups}
    if all(s == 1 for s in strides):
        return [g.ConvTranspose(grad_output, weight, pads=pads * 2, output_padding=[0] * dims, **how), None, None]
    # Lengths that differ by less than a stride give the same number of windows, so use the input's own length.
    more = _lengths_beyond(g, input, grad_output, weight, how, pads)
    if more is not None:
        return [g.ConvTranspose(grad_output, weight, pads=pads * 2, output_padding=more, **how), None, None]
    out = g.ConvTranspose(
        grad_output, weight, pads=[*pads, *[0] * dims], output_padding=[s - 1 for s in strides], **how
    )
    lengths = vector(g, [size(g, input, i + 2) for i in range(dims)])
    return [g.Slice(out, [0] * dims, lengths, list(range(2, dims + 2))), None, None]


def _lengths_beyond(
    g: Graph, input: ir.Value, grad: ir.Value, weight: ir.Value, how: Mapping[str, Any], pads: Sequence[int]
) -> list[int] | None:
    """Return how much longer the input is than the part that its windows cover, or None if a size is unknown."""
    lengths = [g.shape(x)[2:] for x in (input, grad, weight)]
    rows = list(zip(*lengths, how["strides"], how["dilations"], pads, strict=True))
    if not all(isinstance(n, int) for row in rows for n in row):
        return None
    return [length - ((n - 1) * s - 2 * p + d * (k - 1) + 1) for length, n, k, s, d, p in rows]


# -- pools: of averages by the transposed matrices, of maxima by their indices ----------------------------------------


def _by_axis(g: Graph, grad: ir.Value, matrices: Sequence[Table]) -> ir.Value:
    """Return the gradient times the transposed matrix of each of the last axes."""
    first = g.rank(grad) - len(matrices)
    for i, matrix in enumerate(matrices):
        grad = multiply_axis(g, grad, first + i, transposed(g, matrix))
    return grad


def _lengths(g: Graph, grad: ir.Value, x: ir.Value, dims: int) -> list[tuple[Length, Length]]:
    """Return the length and the number of windows of each pooled axis."""
    return [(size(g, x, axis), size(g, grad, axis)) for axis in range(-dims, 0)]


def _avg_pool_backward(dims: int) -> Any:
    def rule(
        g: Graph,
        grad_output: ir.Value,
        x: ir.Value,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None = None,
    ) -> ir.Value:
        kernel, pads = per_spatial_dim(kernel_size, dims), per_spatial_dim(padding, dims)
        strides = per_spatial_dim(stride, dims) if stride else kernel
        counted = pads if count_include_pad else [0] * dims
        one = divisor_override is not None
        matrices = [
            _box_matrix(g, n, out, k, s, p, None if one else more, weights_dtype(g, x))
            for (n, out), k, s, p, more in zip(
                _lengths(g, grad_output, x, dims), kernel, strides, pads, counted, strict=True
            )
        ]
        grad = _by_axis(g, grad_output, matrices)
        return grad if divisor_override is None else g.Div(grad, constant_like(g, divisor_override, grad))

    return rule


def _box_matrix(
    g: Graph, length: Length, out: Length, kernel: int, stride: int, pad: int, counted: int | None, dtype: ir.DataType
) -> Table:
    """Return float64[length, out]: 1 / n if an index is in a window of n elements. `counted` padding is included in n.

    If `counted` is None, elements are not counted: n is 1.
    """
    if isinstance(length, int) and isinstance(out, int):
        starts = np.arange(out) * stride - pad
        places = np.arange(length)[:, None]
        inside = ((places >= starts) & (places < starts + kernel)).astype(np.float64)
        if counted is None:
            return inside
        return inside / (np.minimum(starts + kernel, length + counted) - np.maximum(starts, -counted))
    first = g.Sub(g.Mul(arange(g, out), stride), pad)
    end = g.Add(first, kernel)
    mask = window_mask(g, first, end, length, dtype)
    if counted is None:
        return mask
    number = g.Sub(g.Min(end, plus(g, length, counted)), g.Max(first, -counted))
    return g.Div(mask, g.Cast(number, to=dtype))


def _adaptive_avg_pool_backward(dims: int) -> Any:
    def rule(g: Graph, grad_output: ir.Value, x: ir.Value) -> ir.Value:
        dtype = weights_dtype(g, x)
        pairs = _lengths(g, grad_output, x, dims)
        return _by_axis(g, grad_output, [adaptive_matrix(g, n, out, dtype) for n, out in pairs])

    return rule


torch_op.same(_avg_pool_backward, avg_pool2d_backward=2, avg_pool3d_backward=3)
torch_op.same(_adaptive_avg_pool_backward, _adaptive_avg_pool2d_backward=2, _adaptive_avg_pool3d_backward=3)


def _scattered(g: Graph, grad: ir.Value, x: ir.Value, indices: ir.Value, dims: int) -> ir.Value:
    """Return the gradient added at the indices of the maxima, which are counted inside each channel."""
    lead = [size(g, x, i) for i in range(g.rank(x) - dims)]
    flat = reshape(g, grad, [*lead, -1]), reshape(g, indices, [*lead, -1])
    zeros = g.Expand(constant_like(g, 0, grad), g.Shape(reshape(g, x, [*lead, -1])))
    found = g.ScatterElements(zeros, flat[1], flat[0], axis=len(lead), reduction="add")
    return g.Reshape(found, vector(g, [size(g, x, i) for i in range(g.rank(x))]))


@torch_op("max_pool3d_with_indices_backward")
def max_pool3d_with_indices_backward(
    g, grad_output, x, kernel_size, stride, padding, dilation, ceil_mode, indices
):  # fmt: skip
    return _scattered(g, grad_output, x, indices, 3)


@torch_op("adaptive_max_pool2d_backward")
def adaptive_max_pool2d_backward(g, grad_output, x, indices):
    return _scattered(g, grad_output, x, indices, 2)


@torch_op("adaptive_max_pool3d_backward")
def adaptive_max_pool3d_backward(g, grad_output, x, indices):
    return _scattered(g, grad_output, x, indices, 3)
