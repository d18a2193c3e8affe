"""Activations, and operators of ONNX that appear in the other domain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dtype_name

from ..rules import runtime_op


def activated(g: Graph, y: ir.Value, name: str, numbers: Sequence[float] = ()) -> ir.Value:
    """Return the result of the activation that a fused operator names, with its parameters, for `y`; `y` itself for an
    empty name.
    """
    if not name:
        return y
    if name not in _ACTIVATIONS or len(numbers) > len(_ACTIVATIONS[name]):
        raise Unsupported(f"the activation {name!r} with {len(numbers)} numbers")
    given = dict(zip(_ACTIVATIONS[name], numbers, strict=False))
    if name == "Clip":
        bounds = (given.get(side) for side in _ACTIVATIONS[name])
        return g.Clip(y, *(None if bound is None else g.const(bound, g.dtype(y)) for bound in bounds))
    return g.node(name, [y], given)


_ACTIVATIONS = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus", "Softsign"), ()),
    **dict.fromkeys(("LeakyRelu", "Elu", "ThresholdedRelu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}
"""Activations that ONNX Runtime fuses with a product, with the attributes for their parameters."""


@runtime_op("com.microsoft::Gelu")
def gelu(g: Graph, x: ir.Value) -> ir.Value:
    return g.Gelu(x)


@runtime_op("com.microsoft::BiasGelu")
def bias_gelu(g: Graph, x: ir.Value, bias: ir.Value) -> ir.Value:
    return g.Gelu(g.Add(x, bias))


@runtime_op("com.microsoft::FastGelu")
def fast_gelu(g: Graph, x: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    return g.Gelu(x if bias is None else g.Add(x, bias), approximate="tanh")


@runtime_op("com.microsoft::QuickGelu")
def quick_gelu(g: Graph, x: ir.Value, *, alpha: float = 1.702) -> ir.Value:
    return g.Mul(x, g.Sigmoid(x if alpha == 1 else g.Mul(x, alpha)))


@runtime_op("com.microsoft::Trilu")
def trilu(g: Graph, x: ir.Value, k: ir.Value | None = None, *, upper: int = 1) -> ir.Value:
    return g.Trilu(x, k, upper=upper)


@runtime_op("com.microsoft::Range")
def range_(g: Graph, start: ir.Value, limit: ir.Value, delta: ir.Value | None = None) -> ir.Value:
    ends = (g.Reshape(v, np.zeros(0, np.int64)) for v in (start, limit))
    step = g.const(1, g.dtype(start)) if delta is None else g.Reshape(delta, np.zeros(0, np.int64))
    return g.Range(*ends, step)


@runtime_op("com.microsoft::ExpandDims")
def expand_dims(g: Graph, x: ir.Value, axis: ir.Value) -> ir.Value:
    return g.Unsqueeze(x, g.Cast(g.Reshape(axis, np.array([1])), to=ir.DataType.INT64))


@runtime_op("com.microsoft::GridSample")
def grid_sample(
    g: Graph, x: ir.Value, grid: ir.Value, *, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: int = 0,
) -> ir.Value:  # fmt: skip
    """GridSample as PyTorch exported it before ONNX had it."""
    names = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}
    if mode not in names:
        raise Unsupported(f"mode={mode!r}")
    return g.GridSample(x, grid, mode=names[mode], padding_mode=padding_mode, align_corners=align_corners)


@runtime_op("com.microsoft::QuantizeLinear")
def quantize_linear(
    g: Graph, x: ir.Value, scale: ir.Value, zero: ir.Value | None = None, *, axis: int = 1, block_size: int = 0
) -> ir.Value:
    """QuantizeLinear for dtypes that ONNX's did not have yet."""
    return g.QuantizeLinear(x, scale, zero, axis=_axis(g, x, axis), block_size=block_size or None)


@runtime_op("com.microsoft::DequantizeLinear")
def dequantize_linear(
    g: Graph, x: ir.Value, scale: ir.Value, zero: ir.Value | None = None, *, axis: int = 1, block_size: int = 0
) -> ir.Value:
    return g.DequantizeLinear(x, scale, zero, axis=_axis(g, x, axis), block_size=block_size or None)


def _axis(g: Graph, x: ir.Value, axis: int) -> int | None:
    """Return the axis; None for a vector, for which the default axis is out of range."""
    return axis if -g.rank(x) <= axis < g.rank(x) else None


def cast_from_float(g: Graph, y: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Return `y` in a floating-point dtype. Raises `Unsupported` for others."""
    if not dtype.is_floating_point():
        raise Unsupported(f"a result of {dtype_name(dtype)}")
    return y if g.dtype(y) == dtype else g.Cast(y, to=dtype)
