"""torchao's block-wise quantization, whose operators are found by name, and products of integer matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.legalize.quantize import range_with_zero

from ..common.quantization import Scheme, affine_parameters, from_steps, symmetric_scale, to_steps
from ..common.sizes import reshape, size
from ..common.values import cast
from ..rules import torch_op

_INTEGERS = (torch.int8, torch.uint8, torch.int16)


@torch_op("torchao::quantize_affine")
def quantize_affine(g, input, block_size, scale, zero_point, output_dtype, quant_min=None, quant_max=None):
    rows, scheme = _reshape_to_rows(g, input, block_size, scale, zero_point, output_dtype)
    steps = to_steps(g, rows, scheme, quant_min, quant_max)
    return g.Reshape(steps, g.dims(input))


@torch_op("torchao::dequantize_affine")
def dequantize_affine(
    g, input, block_size, scale, zero_point, input_dtype, quant_min=None, quant_max=None, output_dtype=torch.float32
):
    if output_dtype != torch.float32:
        raise Unsupported(f"torchao's dequantization to {output_dtype}")
    rows, scheme = _reshape_to_rows(g, input, block_size, scale, zero_point, input_dtype)
    return g.Reshape(from_steps(g, rows, scheme), g.dims(input))


def _block_width(g: Graph, x: ir.Value, block: Sequence[Any]) -> int | None:
    """Return how many elements of a row share a scale; None if the whole tensor does.

    A block size that is known at run time only counts as the whole dim. Raises `Unsupported` for other blocks.
    """
    whole = [isinstance(b, ir.Value) or b == n for b, n in zip(block, g.shape(x), strict=True)]
    if all(whole):
        return None
    first = next((i for i, b in enumerate(block) if b != 1), len(block) - 1)
    if (first < len(block) - 1 and not all(whole[first:])) or not all(isinstance(b, int) for b in block[first:]):
        raise Unsupported(f"blocks of quantization of the shape {list(block)}, which are not parts of rows")
    return int(np.prod(block[first:]))


def _reshape_to_rows(
    g: Graph, x: ir.Value, block: Sequence[Any], scale: ir.Value, zero: ir.Value | None, dtype: torch.dtype
) -> tuple[ir.Value, Scheme]:
    """Return x with one row for each scale, and its scheme; x unchanged if it has a single scale."""
    if dtype not in _INTEGERS:
        raise Unsupported(f"torchao's quantization to {dtype}")
    zero_point: Any = 0 if zero is None else zero
    width = _block_width(g, x, block)
    if width is None:
        return x, Scheme(scale, zero_point, dtype)
    return g.Reshape(x, g.const(np.array([-1, width]))), Scheme(scale, zero_point, dtype, 0)


@torch_op("torchao::choose_qparams_affine")
def choose_qparams_affine(
    g, input, mapping_type, block_size, target_dtype, quant_min=None, quant_max=None, eps=None, scale_dtype=None,
    zero_point_dtype=None, keepdim=False,
):  # fmt: skip
    if target_dtype not in _INTEGERS:
        raise Unsupported(f"torchao's quantization to {target_dtype}")
    quant_min = torch.iinfo(target_dtype).min if quant_min is None else quant_min
    quant_max = torch.iinfo(target_dtype).max if quant_max is None else quant_max
    eps = torch.finfo(torch.float32).smallest_normal if eps is None else eps
    low, high = _block_range(g, cast(g, input, torch.float32), block_size)
    scale, zero = _choose_qparams(g, mapping_type, low, high, quant_min, quant_max, eps)
    lengths = _scale_shape(g, input, block_size, keepdim)
    if mapping_type == "ASYMMETRIC":
        zero_point_dtype = zero_point_dtype or torch.int32
    return (
        cast(g, reshape(g, scale, lengths), scale_dtype or torch.float32),
        cast(g, reshape(g, zero, lengths), zero_point_dtype or torch.float32),
    )


def _block_range(g: Graph, x: ir.Value, block: Sequence[Any]) -> tuple[ir.Value, ir.Value]:
    """Return the minimum and the maximum of each block, widened so that they include zero."""
    width = _block_width(g, x, block)
    if width is None:
        return range_with_zero(g, x)
    return range_with_zero(g, g.Reshape(x, g.const(np.array([-1, width]))), [1])


def _choose_qparams(g: Graph, mapping: str, low: ir.Value, high: ir.Value, least: int, most: int, eps: float) -> Any:
    if mapping == "ASYMMETRIC":
        return affine_parameters(g, low, high, (least, most), eps)
    if mapping == "SYMMETRIC":
        scale = symmetric_scale(g, low, high, (least, most), eps)
    elif mapping == "SYMMETRIC_NO_CLIPPING_ERR":
        scale = g.Max(g.Div(low, np.float32(least)), g.Div(high, np.float32(most)), np.float32(eps))
    else:
        raise Unsupported(f"torchao's mapping {mapping}")
    return scale, g.Add(g.Mul(scale, np.float32(0)), np.float32(int((most + least + 1) / 2)))


def _scale_shape(g: Graph, x: ir.Value, block: Sequence[Any], keepdim: bool) -> list[Any]:
    """Return the shape that torchao gives scales: the number of blocks along each dim.

    A dim with a single block is left out, or has length 1 with `keepdim`.
    """
    lengths: list[Any] = []
    for i, (length, part) in enumerate(zip(g.shape(x), block, strict=True)):
        whole = isinstance(part, ir.Value) or (part == length and part != 1)
        if isinstance(part, int) and part > 1 and not whole:
            if not isinstance(length, int):
                raise Unsupported("blocks along a dim whose size is not known")
            lengths.append(length // part)
        elif not whole:
            lengths.append(size(g, x, i))
        elif keepdim:
            lengths.append(1)
    return lengths


@torch_op("_int_mm")
def int_mm(g, self, mat2):
    return g.MatMulInteger(self, mat2)
