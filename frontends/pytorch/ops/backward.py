"""Gradients that PyTorch has kernels for and takes apart no further; all others are decomposed."""

from __future__ import annotations

from convert.errors import Unsupported

from ..common.sizes import static_sizes
from ..common.values import constant_like
from ..rules import torch_op

_NORM = torch_op.limit("_cdist_backward", "the gradient of a distance of another norm than 1 and 2")
_SIZES = torch_op.limit("convolution_backward", "the gradient of a strided convolution of unknown sizes")
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
    """Of x1; rows that are equal count nothing."""
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
    """Of the input alone: the transposed convolution by the same weights, as long as the input, or the reverse."""
    if list(output_mask[1:]) != [False, False]:
        raise Unsupported(_WEIGHTS)
    dims = g.rank(weight) - 2
    strides, pads, dilations = (list(x) * (dims if len(x) == 1 else 1) for x in (stride, padding, dilation))
    if transposed:
        out = g.Conv(grad_output, weight, strides=strides, pads=pads * 2, dilations=dilations, group=groups)
        return [out, None, None]
    more = [0] * dims
    if any(s != 1 for s in strides):  # lengths that one stride apart give the same number of windows
        lengths, windows, kernel = (static_sizes(g.shape(x)[2:], _SIZES) for x in (input, grad_output, weight))
        reached = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(windows, strides, pads, dilations, kernel, strict=True)
        ]
        more = [n - r for n, r in zip(lengths, reached, strict=True)]
    out = g.ConvTranspose(
        grad_output, weight, strides=strides, pads=pads * 2, dilations=dilations, group=groups, output_padding=more
    )
    return [out, None, None]
