"""Normalizations."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from convert.semantics.windows import channel_window

from ..common import along, halves_in_float32, in_float32
from ..rules import onnx_op
from ..torch_internals import statically_known_true


@onnx_op("BatchNormalization")
def batch_normalization(t, x, scale, bias, mean, var, *, epsilon, momentum, training_mode):
    if not training_mode:
        # A cast to the same dtype runs nothing, but adds two nodes to the captured program.
        mean, var, scale, bias = (w if w.dtype == x.dtype else w.to(x.dtype) for w in (mean, var, scale, bias))
        moved = float(f"{1 - momentum:.6g}")  # the attribute is a float32
        return F.batch_norm(x, mean, var, scale, bias, False, moved, epsilon)
    axes = [i for i in range(x.dim()) if i != 1]
    now = torch.mean(x, axes)
    spread = torch.mean(torch.square(x - along(now, 1, x.dim())), axes)
    y = (x - along(now, 1, x.dim())) / torch.sqrt(along(spread, 1, x.dim()) + epsilon)
    y = y * along(scale, 1, x.dim()) + along(bias, 1, x.dim())
    return y, mean * momentum + now * (1 - momentum), var * momentum + spread * (1 - momentum)


@onnx_op("InstanceNormalization")
@halves_in_float32
def instance_normalization(t, x, scale, bias, *, epsilon):
    axes = list(range(2, x.dim()))
    mean = torch.mean(x, axes, True)
    spread = torch.mean(torch.square(x - mean), axes, True)
    y = (x - mean) / torch.sqrt(spread + epsilon)
    return y * along(scale, 1, x.dim()) + along(bias, 1, x.dim())


@onnx_op("LayerNormalization")
def layer_normalization(t, x, scale, bias=None, *, axis, epsilon, stash_type):
    axis = axis % x.dim()
    shape = list(x.shape[axis:])
    fits = all(isinstance(n, int) for n in shape) and list(scale.shape) == shape
    fits = fits and (bias is None or list(bias.shape) == shape)
    if t.outputs == 1 and fits:
        return F.layer_norm(x, shape, scale, bias, epsilon)
    wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    axes = list(range(axis, x.dim()))
    mean = torch.mean(wide, axes, True)
    inverse = torch.rsqrt(torch.mean(torch.square(wide - mean), axes, True) + epsilon)
    y = ((wide - mean) * inverse).to(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@onnx_op("RMSNormalization")
def rms_normalization(t, x, scale, *, axis, epsilon, stash_type):
    axes = list(range(axis % x.dim(), x.dim()))
    wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    y = wide * torch.rsqrt(torch.mean(torch.square(wide), axes, True) + epsilon)
    return y.to(x.dtype) * scale


@onnx_op("GroupNormalization")
def group_normalization(t, x, scale, bias, *, epsilon, num_groups, stash_type):
    values = math.prod(x.shape[2:], start=x.shape[1] // num_groups)
    if statically_known_true(values > 1):
        return F.group_norm(x, num_groups, scale, bias, epsilon)
    # The layer rejects a batch of one with one value per group; ONNX's result is the bias.
    groups = in_float32(x).reshape(x.shape[0], num_groups, -1)
    apart = groups - torch.mean(groups, -1, True)
    y = apart / torch.sqrt(torch.mean(torch.square(apart), -1, True) + epsilon)
    return y.reshape(x.shape).to(x.dtype) * along(scale, 1, x.dim()) + along(bias, 1, x.dim())


@onnx_op("LRN")
@halves_in_float32
def lrn(t, x, *, alpha, beta, bias, size):
    squares = torch.square(x)
    before, after = channel_window(size, x.shape[1])
    pads = [0, 0] * (x.dim() - 2) + [before, after]
    rows = F.pad(squares, pads)
    total = rows.narrow(1, 0, x.shape[1])
    for i in range(1, before + 1 + after):
        total = total + rows.narrow(1, i, x.shape[1])
    return x / torch.pow(bias + alpha / size * total, beta)


@onnx_op("LpNormalization")
@halves_in_float32
def lp_normalization(t, x, *, axis, p):
    total = torch.sum(torch.abs(x) if p == 1 else torch.square(x), axis, True)
    nothing = total == 0  # a vector of zeros stays zero and has a finite gradient
    size = torch.where(nothing, torch.ones_like(total), total)
    return torch.where(nothing, torch.zeros_like(x), x / (size if p == 1 else torch.sqrt(size)))
