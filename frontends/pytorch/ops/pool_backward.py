"""Gradients of pools: of means by the matrices that the means are products with, of maxima by their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..common.sizes import reshape, size, static_sizes, vector
from ..common.values import constant_like
from ..rules import torch_op
from .conv import per_spatial_dim
from .pool import adaptive_windows, mean_matrix, multiply_axis

_MEANS = torch_op.limit("avg_pool2d_backward", "the gradient of an average over windows, of dims of unknown length")


def _by_axis(g: Graph, grad: ir.Value, matrices: Sequence[np.ndarray]) -> ir.Value:
    """The gradient times the transposed matrix of each of the last axes."""
    first = g.rank(grad) - len(matrices)
    for i, matrix in enumerate(matrices):
        grad = multiply_axis(g, grad, first + i, np.ascontiguousarray(matrix.T))
    return grad


def _lengths(g: Graph, grad: ir.Value, x: ir.Value, dims: int) -> list[tuple[int, int]]:
    """The length and the number of windows of each pooled axis."""
    return list(zip(*(static_sizes(g.shape(v)[-dims:], _MEANS) for v in (x, grad)), strict=True))


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
        matrices = []
        for (n, out), k, s, p in zip(_lengths(g, grad_output, x, dims), kernel, strides, pads, strict=True):
            starts = [i * s - p for i in range(out)]
            inside = [(max(a, 0), min(a + k, n)) for a in starts]
            matrix = mean_matrix(inside, n)
            counted = [min(a + k, n + p) - a for a in starts] if count_include_pad else [b - a for a, b in inside]
            divisors = np.array(counted if divisor_override is None else [1] * out)
            matrices.append((matrix > 0) / divisors)
        grad = _by_axis(g, grad_output, matrices)
        return grad if divisor_override is None else g.Div(grad, constant_like(g, divisor_override, grad))

    return rule


def _adaptive_avg_pool_backward(dims: int) -> Any:
    def rule(g: Graph, grad_output: ir.Value, x: ir.Value) -> ir.Value:
        lengths = _lengths(g, grad_output, x, dims)
        return _by_axis(g, grad_output, [mean_matrix(adaptive_windows(n, out), n) for n, out in lengths])

    return rule


torch_op.same(_avg_pool_backward, avg_pool2d_backward=2, avg_pool3d_backward=3)
torch_op.same(_adaptive_avg_pool_backward, _adaptive_avg_pool2d_backward=2, _adaptive_avg_pool3d_backward=3)


def _scattered(g: Graph, grad: ir.Value, x: ir.Value, indices: ir.Value, dims: int) -> ir.Value:
    """The gradient at the places of the maxima, which are counted inside of each channel, and added up."""
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
