"""Gradients that PyTorch has kernels but no decompositions for; all others are decomposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import size, vector
from ..common.values import constant_like
from ..rules import torch_op

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
