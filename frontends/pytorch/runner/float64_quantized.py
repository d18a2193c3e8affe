"""PyTorch's quantized layers in float64: unpack the weights, run the float operator, round to the output's scheme.

Importing this module fills the table of `double`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .float64_ops import DOUBLE, Double, choose_qparams, dequantize_content, quantize_like


def _quantized_layer(function: Double, relu: bool = False) -> Double:
    """Wrap a float function of quantized tensors; the last two arguments are scale and zero point of the result."""

    def run(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        *tensors, scale, zero = args
        first = x[0] if isinstance(x, (list, tuple)) else x
        out = function(dequantize_content(x), *map(dequantize_content, tensors), **kwargs)
        scale, zero = first.q_scale() if scale is None else scale, first.q_zero_point() if zero is None else zero
        return quantize_like(out.relu() if relu else out, scale, zero, first)

    return run


def _convolution(dims: int, transposed: bool) -> Double:
    kind = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"

    def run(x: torch.Tensor, packed: Any, *again: Any) -> torch.Tensor:
        ops, packing = torch.ops.quantized, f"conv{max(dims, 2)}d"
        weight, bias = getattr(ops, f"{kind}_unpack")(packed)
        named = ("stride", "padding", "dilation", "output_padding")
        given = {name: list(getattr(ops, f"{packing}_{name}")(packed))[-dims:] for name in named}
        if not transposed:
            del given["output_padding"]
        groups = getattr(ops, f"{packing}_groups")(packed)
        bias = None if bias is None else bias.double()
        return getattr(F, kind)(x, dequantize_content(weight), bias, groups=groups, **given)

    return run


def _linear(x: torch.Tensor, packed: Any) -> torch.Tensor:
    weight, bias = torch.ops.quantized.linear_unpack(packed)
    return F.linear(x, dequantize_content(weight), None if bias is None else bias.double())


def _dynamic_layer(function: Double, relu: bool = False) -> Double:
    """Wrap a layer that quantizes its float input by the range of that input."""

    def run(x: torch.Tensor, packed: Any, reduce_range: bool = False) -> torch.Tensor:
        q = quantize_like(x, *choose_qparams(x, 0, 255, reduce_range), torch.quint8)
        out = function(dequantize_content(q), packed)
        return out.relu() if relu else out

    return run


def _leaky_relu(x: torch.Tensor, slope: float, inplace: bool) -> torch.Tensor:
    return F.leaky_relu(x, slope)


def _batch_norm(x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> torch.Tensor:
    return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)


def _half_linear(relu: bool) -> Double:
    """Return a linear layer whose weight was rounded to float16 when it was packed."""

    def run(x: torch.Tensor, packed: Any) -> torch.Tensor:
        weight, bias = torch.ops.quantized.linear_unpack_fp16(packed)
        out = F.linear(x, weight.double(), None if bias is None else bias.double())
        return out.relu() if relu else out

    return run


_LAYERS: dict[str, Double] = {
    **{f"conv{dims}d": _convolution(dims, False) for dims in (1, 2, 3)},
    **{f"conv_transpose{dims}d": _convolution(dims, True) for dims in (1, 2, 3)},
    **{f"batch_norm{dims}": _batch_norm for dims in ("", "1d", "2d", "3d")},
    "linear": _linear, "add": torch.add, "mul": torch.mul, "matmul": torch.matmul, "cat": torch.cat,
    "hardswish": F.hardswish, "sigmoid": torch.sigmoid, "softmax": torch.softmax, "leaky_relu": _leaky_relu,
    "layer_norm": F.layer_norm, "group_norm": F.group_norm, "prelu": F.prelu,
}  # fmt: skip
DOUBLE |= {
    f"quantized::{name}{'_relu' * relu}": _quantized_layer(f, relu)
    for name, f in _LAYERS.items()
    for relu in (False, True)
}
DOUBLE |= {
    "quantized::linear_dynamic": _dynamic_layer(_linear),
    "quantized::linear_relu_dynamic": _dynamic_layer(_linear, True),
}
DOUBLE |= {
    "quantized::linear_dynamic_fp16": _half_linear(False),
    "quantized::linear_relu_dynamic_fp16": _half_linear(True),
}


# -- groups of rows ---------------------------------------------------------------------------------------------------
