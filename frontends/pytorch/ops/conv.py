"""Convolutions, and what they share with pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.semantics.windows import Window

from ..common.sizes import size, static_sizes, vector
from ..common.values import constant_like, is_float
from ..rules import torch_op
from .integer_conv import LENGTHS, conv_integers, conv_transpose_integers


def per_spatial_dim(numbers: int | Sequence[int], dims: int) -> list[int]:
    """Return one number per spatial dim; a single one applies to all."""
    items = [numbers] if isinstance(numbers, int) else list(numbers)
    return items * dims if len(items) == 1 else items


def ensure_batch_dim(g: Graph, x: ir.Value, dims: int) -> tuple[ir.Value, bool]:
    """Return `x` as [N, C, …] for `dims` spatial dims, and whether a batch dim was added."""
    lone = g.rank(x) == dims + 1
    return (g.Unsqueeze(x, [0]) if lone else x), lone


def _refuse_numbers(name: str, numbers: Sequence[Any], dims: int, least: int) -> None:
    """Raise `BadInput` for numbers that no convolution has, which PyTorch rejects only when it computes."""
    if len(numbers) != dims:
        raise BadInput(f"a convolution has the {name} {list(numbers)[:8]}", hint=f"it needs {dims} numbers")
    if not all(least <= n < 1 << 31 for n in numbers if isinstance(n, int)):
        hint = f"its {name} has to be {least} or more, and below 2^31"
        raise BadInput(f"a convolution has the {name} {list(numbers)}", hint=hint)


def _steps(stride: Any, dilation: Any, dims: int) -> tuple[list[int], list[int]]:
    """Return strides and dilations, one per spatial dim.

    Raises `Unsupported` if one is computed, and `BadInput` as `_refuse_numbers` does.
    """
    found = {"stride": per_spatial_dim(stride, dims), "dilation": per_spatial_dim(dilation, dims)}
    for name, numbers in found.items():
        if not all(isinstance(n, int) for n in numbers):
            raise Unsupported(_COMPUTED)
        _refuse_numbers(name, numbers, dims, 1)
    return found["stride"], found["dilation"]


def _pads(padding: Any, dims: int) -> list[Any]:
    """Return the pads before and after each spatial dim, some computed. Raises `BadInput` as `_refuse_numbers` does."""
    pads = per_spatial_dim(padding, dims)
    _refuse_numbers("padding", pads, dims, 0)
    return pads * 2


_COMPUTED = torch_op.limit("conv2d", "a convolution whose stride or dilation is computed from a size")


def _convolution(dims: int) -> Any:
    def rule(
        g: Graph,
        x: ir.Value,
        weight: ir.Value,
        bias: ir.Value | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> ir.Value:
        x, lone = ensure_batch_dim(g, x, dims)
        strides, dilations = _steps(stride, dilation, dims)
        if padding == "same":
            kernel = [size(g, weight, i + 2) for i in range(dims)]
            total = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
            pads = [t // 2 for t in total] + [t - t // 2 for t in total]
        else:
            pads = _pads(0 if padding == "valid" else padding, dims)
        if not all(isinstance(n, int) for n in pads):
            zeros = vector(g, [0, 0, *pads[:dims], 0, 0, *pads[dims:]])
            x, pads = g.Pad(x, zeros, constant_like(g, 0, x)), [0] * 2 * dims
        if is_float(g, x):
            out = g.Conv(x, weight, bias, strides=strides, pads=pads, dilations=dilations, group=groups)
        else:
            how = Window.of(static_sizes(g.shape(weight)[2:], LENGTHS), strides, dilations, pads)
            out = conv_integers(g, x, weight, bias, how, groups)
        return g.Squeeze(out, [0]) if lone else out

    return rule


def _transposed_convolution(dims: int) -> Any:
    def rule(
        g: Graph,
        x: ir.Value,
        weight: ir.Value,
        bias: ir.Value | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> ir.Value:
        x, lone = ensure_batch_dim(g, x, dims)
        strides, dilations = _steps(stride, dilation, dims)
        pads, more = _pads(padding, dims), per_spatial_dim(output_padding, dims)
        _refuse_numbers("output_padding", more, dims, 0)
        if is_float(g, x):
            out = _conv_transpose(g, x, weight, bias, strides, pads, groups, more, dilations)
        else:
            how = Window.of(static_sizes(g.shape(weight)[2:], LENGTHS), strides, dilations, pads)
            out = conv_transpose_integers(g, x, weight, bias, how, more, groups)
        return g.Squeeze(out, [0]) if lone else out

    return rule


def _conv_transpose(
    g: Graph,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None,
    strides: list[int],
    pads: list[int],
    groups: int,
    more: list[int],
    dilations: list[int],
) -> ir.Value:
    """ConvTranspose. Output padding of a stride or more, which runtimes reject, is subtracted from the padding at the
    end.

    Elements beyond that padding are beyond the kernel's reach: zeros, plus the bias.
    """
    dims, behind = len(strides), [0] * len(strides)
    pads, more = list(pads), list(more)
    for i in range(dims):
        if more[i] >= strides[i]:
            taken = min(more[i], pads[dims + i])
            pads[dims + i] -= taken
            more[i] -= taken
            if more[i] >= strides[i]:
                behind[i], more[i] = more[i], 0
    how = {"strides": strides, "pads": pads, "group": groups, "output_padding": more, "dilations": dilations}
    if not any(behind):
        return g.ConvTranspose(x, weight, bias, **how)
    out = g.Pad(g.ConvTranspose(x, weight, None, **how), [0] * (dims + 2) + [0, 0, *behind], constant_like(g, 0.0, x))
    return out if bias is None else g.Add(out, g.Unsqueeze(bias, [0, *range(2, dims + 2)]))


torch_op.same(_convolution, conv1d=1, conv2d=2, conv3d=3)
torch_op.same(_transposed_convolution, conv_transpose1d=1, conv_transpose2d=2, conv_transpose3d=3)


@torch_op("convolution", "_convolution")
def convolution(
    g,
    x,
    weight,
    bias,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    benchmark=False,
    deterministic=False,
    cudnn_enabled=True,
    allow_tf32=True,
):
    dims = g.rank(weight) - 2
    if transposed:
        return _transposed_convolution(dims)(g, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return _convolution(dims)(g, x, weight, bias, stride, padding, dilation, groups)


@torch_op("conv_tbc")
def conv_tbc(g, x, weight, bias, pad=0):
    """A convolution over the first dim: `x` is [time, batch, channels], `weight` [width, in, out]."""
    x, weight = g.Transpose(x, perm=[1, 2, 0]), g.Transpose(weight, perm=[2, 1, 0])
    return g.Transpose(_convolution(1)(g, x, weight, bias, padding=pad), perm=[2, 0, 1])
