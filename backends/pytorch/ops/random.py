"""Random numbers: each call draws new ones with PyTorch's own generator."""

from __future__ import annotations

import onnx_ir as ir
import torch

from ..dtypes import torch_dtype
from ..rules import host, onnx_op


@onnx_op("RandomNormal")
def random_normal(t, *, dtype, mean, scale, seed, shape):
    return torch.randn(shape, dtype=torch_dtype(ir.DataType(dtype))) * scale + mean


@onnx_op("RandomNormalLike")
def random_normal_like(t, x, *, dtype, mean, scale, seed):
    kind = x.dtype if dtype is None else torch_dtype(ir.DataType(dtype))
    return torch.randn(x.shape, dtype=kind) * scale + mean


@onnx_op("RandomUniform")
def random_uniform(t, *, dtype, high, low, seed, shape):
    return torch.rand(shape, dtype=torch_dtype(ir.DataType(dtype))) * (high - low) + low


@onnx_op("RandomUniformLike")
def random_uniform_like(t, x, *, dtype, high, low, seed):
    kind = x.dtype if dtype is None else torch_dtype(ir.DataType(dtype))
    return torch.rand(x.shape, dtype=kind) * (high - low) + low


@onnx_op("Bernoulli")
def bernoulli(t, x, *, dtype, seed):
    kind = x.dtype if dtype is None else torch_dtype(ir.DataType(dtype))
    return (torch.rand(x.shape, dtype=x.dtype) < x).to(kind)


@onnx_op("Multinomial")
def multinomial(t, x, *, dtype, sample_size, seed):
    return torch.multinomial(torch.softmax(x, -1), sample_size, True).to(torch_dtype(ir.DataType(dtype)))


@onnx_op("Dropout")
@host("training_mode")
def dropout(t, x, ratio=None, training_mode=None, *, seed):
    known = None if training_mode is None else t.static(training_mode)
    if training_mode is None or (known is not None and not known.any()):
        return x, torch.ones_like(x, dtype=torch.bool)
    part = torch.full((), 0.5, dtype=torch.float32) if ratio is None else ratio.reshape(()).to(torch.float32)
    kept = torch.rand(x.shape, dtype=torch.float32) >= part
    scaled = torch.where(kept, x * (1 / (1 - part)).to(x.dtype), torch.zeros_like(x))
    if known is not None:
        return scaled, kept
    training = training_mode.reshape(())
    return torch.where(training, scaled, x), torch.where(training, kept, torch.ones_like(kept))
